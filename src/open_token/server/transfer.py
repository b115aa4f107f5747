"""Sessions leave as Open-Token documents and come in from anything that readers understand, whole
or not at all."""

import asyncio
import contextlib
import logging
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from open_token.api import load_context
from open_token.context import Context
from open_token.errors import OpenTokenError, SigningError
from open_token.integrity.signing import load_signer
from open_token.model.log_events import LogError
from open_token.model.session_types import ImportPreview, Session
from open_token.options import OPTION_NAMES
from open_token.pipeline import export as run
from open_token.server import _bundle
from open_token.server._bringing import Bringing
from open_token.server._incoming import Incoming, plain_name, understood
from open_token.server._log_file import write_log
from open_token.server._marks import Marks
from open_token.server.refusals import Refused, bad, missing
from open_token.server.services import Services
from open_token.session import SessionState
from open_token.session.document_import import import_document
from open_token.sources.source import Source

READER = "session_server"
_log = logging.getLogger("open_token.server")
FORMS = {"zip": "application/zip", "json": "application/json", "ndjson": "application/x-ndjson"}
MARKS = "imports"
_PIECE = 1 << 18
_LONGEST_TITLE = 200
_ABANDONED = 600
"""Seconds without a write after which an import of another node is taken for dead."""


class Parcel(Struct, frozen=True):
    """What is sent to the one who asked for an export."""

    stream: BinaryIO
    size: int
    media_type: str
    name: str

    def pieces(self) -> Iterator[bytes]:
        """The bytes, a part at a time."""
        with self.stream:
            while piece := self.stream.read(_PIECE):
                yield piece


async def export(
    services: Services, owner: str, session_id: str, words: Iterable[tuple[str, str]]
) -> Parcel:
    """A session as it is now, in the form that the words of the query ask for."""
    given = _once(words)
    form = _form(given)
    context = _context(services, given)
    stored = await services.store.session(owner, session_id)
    if stored is None:
        raise missing()
    with tempfile.TemporaryDirectory(prefix="open-token-", ignore_cleanup_errors=True) as held:
        log = Path(held) / "log.ndjson"
        with log.open("wb") as out:
            await write_log(services, owner, session_id, stored.stream_sequence, out)
        source = Source(session_id, path=log)
        source.conversation = session_id
        made = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - lives until it is sent
        try:
            if form == "zip":
                files = services.workspaces.of(session_id).folder
                await asyncio.to_thread(_bundle.pack, source, files, made, context)
            else:
                await asyncio.to_thread(run, source, made, context, READER)
        except OpenTokenError as problem:
            made.close()
            if problem.code == "input.no-events":
                raise bad("nothing was said in this session yet", problem.code) from None
            raise refused(problem) from None
        except BaseException:
            made.close()
            raise
    size = made.tell()
    made.seek(0)
    return Parcel(
        made, size, FORMS[form], f"{session_id}.{'zip' if form == 'zip' else f'open-token.{form}'}"
    )


def refused(problem: OpenTokenError) -> Refused:
    """What is wrong with an input or an option, in words for a client: what and what to do, no path
    of this machine."""
    if isinstance(problem, SigningError):
        _log.error("an export could not be signed: %s (%s)", problem.what, problem.code)
        return Refused(
            503,
            "the server cannot sign with its key; its operator finds more in the log",
            problem.code,
        )
    advice = f"; {problem.help}" if problem.help else ""
    return bad(f"{problem.what}{advice}", problem.code)


def _once(words: Iterable[tuple[str, str]]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in words:
        if given.setdefault(name.replace("-", "_"), value) != value:
            raise bad(f"{name[:40]} is given twice; keep one", "usage")
    return given


def _form(given: dict[str, str]) -> str:
    """The form that is asked for; `mode` says the same of a plain document."""
    form = given.pop("format", None)
    mode = given.get("mode")
    if form is None:
        form = mode or "zip"
    if form not in FORMS:
        raise bad(f"format takes {', '.join(FORMS)}", "usage")
    if mode is not None and form not in (mode, "zip"):
        raise bad("format and mode say different things; keep one", "usage")
    given["mode"] = "json" if form == "zip" else form
    return form


def _context(services: Services, given: Mapping[str, str]) -> Context:
    unknown = [name for name in given if name not in OPTION_NAMES]
    if unknown:
        raise bad(
            f"there is no option {unknown[0][:40]}; the options are format, {', '.join(OPTION_NAMES)}",
            "usage",
        )
    try:
        context = load_context(given, services.env, services.config.data)
        key = services.config.sign_key
        if key is None or context.options.integrity == "none":
            return context
        return replace(context, sign=load_signer(key, is_alone=True))
    except OpenTokenError as problem:
        raise refused(problem) from None


class Upload(Struct, frozen=True):
    """A file that somebody sent, and what they said of it."""

    stream: BinaryIO
    filename: str | None = None
    name: str | None = None
    """What the session is to be called."""
    conversation: str | None = None
    """Which of several conversations in the file is meant."""
    reader: str | None = None
    """The format, where the content does not tell."""


async def preview(services: Services, upload: Upload) -> ImportPreview:
    """What a file would become as a session; nothing is kept."""
    async with _opened(services, upload) as (_, found):
        turns = await asyncio.to_thread(_count_turns, found)
        return ImportPreview(
            reader=found.reader,
            title=found.title,
            events=found.count,
            turns=turns,
            participants=[dict(person) for person in found.record.participants],
            models=found.models,
            started_at=found.record.conversation.get("started_at"),
            warnings=found.warnings,
            loss=[
                {"code": note.code, "place": note.place, "detail": note.detail, "count": note.count}
                for note in found.record.notes
            ],
        )


async def bring_in(services: Services, owner: str, upload: Upload) -> Session:
    """Make a session of a file; one that cannot be made whole is taken away again."""
    async with _opened(services, upload) as (path, found):
        session_id = services.clock.name("sess")
        marks = Marks(services.store, MARKS)
        await marks.add(session_id, owner)
        try:
            chosen = _line(upload.name)
            title = chosen or _line(found.title) or "Imported session"
            await Bringing(services, owner, session_id, found).write(title, is_chosen=bool(chosen))
            await _restore_files(services, session_id, path, found)
            session = (await services.journal.state(owner, session_id)).session
        except LogError:
            await _undo(services, owner, session_id)
            raise bad("the events of this file do not fit together", "input.export") from None
        except BaseException:
            await _undo(services, owner, session_id)
            raise
        finally:
            await marks.remove(session_id)
        return session


async def sweep(services: Services) -> int:
    """At a start: take away the sessions whose import a crash interrupted; tells how many there
    were."""
    marks = Marks(services.store, MARKS)
    count = 0
    for session_id, owner in (await marks.left()).items():
        if services.config.database is not None and await _is_fresh(services, owner, session_id):
            continue
        await _undo(services, owner, session_id)
        await marks.remove(session_id)
        count += 1
    return count


async def _is_fresh(services: Services, owner: str, session_id: str) -> bool:
    """Whether somebody wrote to a session just now: in a store that nodes share, another one may be
    importing it."""
    stored = await services.store.session(owner, session_id)
    return stored is not None and stored.updated_at > services.clock.now(plus=-_ABANDONED)


@contextlib.asynccontextmanager
async def _opened(services: Services, upload: Upload) -> AsyncIterator[tuple[Path, Incoming]]:
    """A file in a folder of its own, so that no reader finds anything beside it; and what it
    holds."""
    with tempfile.TemporaryDirectory(prefix="open-token-", ignore_cleanup_errors=True) as held:
        path = Path(held) / plain_name(upload.filename)
        await asyncio.to_thread(_copy, upload.stream, path)
        limits, now = services.config.limits, services.clock.now()
        yield (
            path,
            await asyncio.to_thread(
                understood, path, limits, now, upload.conversation, upload.reader
            ),
        )


def _copy(stream: BinaryIO, path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, _PIECE)


def _line(wish: str | None) -> str:
    """What there is to read in a title, on one line."""
    words = " ".join(wish.split()) if isinstance(wish, str) else ""
    return "".join(letter for letter in words if letter.isprintable())[:_LONGEST_TITLE]


def _count_turns(found: Incoming) -> int:
    state = SessionState("sess_preview")
    state.add("session.created", {"session": {}}, "")
    for _ in import_document(state, found.events(), "", **found.about()):
        pass
    return len(state.turns)


async def _restore_files(services: Services, session_id: str, path: Path, found: Incoming) -> None:
    """Put the files of a zip of ours into the workspace, which checks every path once more."""
    if not found.files:
        return
    workspace = services.workspaces.of(session_id)
    with zipfile.ZipFile(path) as held:
        for file in found.files:
            await asyncio.to_thread(_bundle.unpack, held, file, workspace.write)


async def _undo(services: Services, owner: str, session_id: str) -> None:
    """Take a session away that did not come in whole."""
    await services.store.delete_session(owner, session_id)
    services.journal.forget(session_id)
    folder = services.workspaces.of(session_id).folder
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
