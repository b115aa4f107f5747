"""Export of sessions as Open-Token documents, and import of anything that a reader recognizes."""

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
from open_token.model.titles import choose_title, iter_prompts
from open_token.options import OPTION_NAMES
from open_token.pipeline import export as run_export
from open_token.server.core import bundle
from open_token.server.core.document_import import (
    DocumentWriter,
    ParsedUpload,
    parse_upload,
    sanitize_filename,
)
from open_token.server.core.jobs import Checkpoint
from open_token.server.core.pending import PendingSessions
from open_token.server.core.services import Services
from open_token.server.core.session_log import write_log
from open_token.server.errors import ApiError, bad_request, not_found
from open_token.session import SessionState
from open_token.session.document_import import import_document
from open_token.sources.source import Source

READER = "session_server"
MEDIA_TYPES = {
    "zip": "application/zip",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
}
PENDING_KEY = "imports"
_CHUNK_SIZE = 1 << 18
_MAX_TITLE_LENGTH = 200
_MAX_SHOWN_NAME = 40
_ABANDONED_SECONDS = 600
"""The time without a write after which an import of another node counts as dead."""
_log = logging.getLogger("open_token.server")


class ExportFile(Struct, frozen=True):
    """An export that is ready to be sent."""

    stream: BinaryIO
    size: int
    media_type: str
    name: str

    def pieces(self) -> Iterator[bytes]:
        """Yield the content in chunks."""
        with self.stream:
            while chunk := self.stream.read(_CHUNK_SIZE):
                yield chunk


async def export_session(
    services: Services, owner: str, session_id: str, query: Iterable[tuple[str, str]]
) -> ExportFile:
    """Export the current state of a session with the options of a query string."""
    options = _collect_options(query)
    form = _pop_format(options)
    context = build_export_context(services, options)
    stored = await services.store.session(owner, session_id)
    if stored is None:
        raise not_found()
    with _temporary_folder() as folder:
        log = folder / "log.ndjson"
        with log.open("wb") as log_stream:
            await write_log(services, owner, session_id, stored.stream_sequence, log_stream)
        source = Source(session_id, path=log)
        source.conversation = session_id
        out = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - closed when it was sent
        try:
            if form == "zip":
                workspace = services.workspaces.get(session_id)
                files = workspace.folder if workspace.is_own else None
                await services.jobs.run(
                    owner,
                    lambda check: bundle.write_bundle(
                        source, files, out, replace(context, checkpoint=check)
                    ),
                )
            else:
                await services.jobs.run(
                    owner,
                    lambda check: run_export(
                        source, out, replace(context, checkpoint=check), READER
                    ),
                )
        except OpenTokenError as problem:
            out.close()
            if problem.code == "input.no-events":
                raise bad_request("the session is empty", problem.code) from None
            raise to_client_error(problem) from None
        except BaseException:
            out.close()
            raise
    size = out.tell()
    out.seek(0)
    extension = "zip" if form == "zip" else f"open-token.{form}"
    return ExportFile(out, size, MEDIA_TYPES[form], f"{session_id}.{extension}")


def to_client_error(problem: OpenTokenError) -> ApiError:
    """Map an error of an export to what the client sees: no paths of this machine."""
    if isinstance(problem, SigningError):
        _log.error("cannot sign export: %s (%s)", problem.what, problem.code)
        return ApiError(
            503, "the server cannot sign with its key; see the server log", problem.code
        )
    advice = f"; {problem.help}" if problem.help else ""
    return bad_request(f"{problem.what}{advice}", problem.code)


def _collect_options(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in query:
        if options.setdefault(name.replace("-", "_"), value) != value:
            raise bad_request(f"{name[:_MAX_SHOWN_NAME]} is given twice", "usage")
    return options


def _pop_format(options: dict[str, str]) -> str:
    """Remove and return the format; `mode` is the same for a plain document."""
    mode = options.get("mode")
    form = options.pop("format", None)
    if form is None:
        form = mode or "zip"
    if form not in MEDIA_TYPES:
        raise bad_request(f"format must be one of {', '.join(MEDIA_TYPES)}", "usage")
    if mode is not None and form not in (mode, "zip"):
        raise bad_request("format and mode contradict each other; keep one", "usage")
    options["mode"] = "json" if form == "zip" else form
    return form


def build_export_context(services: Services, options: Mapping[str, str]) -> Context:
    """Return the context of an export with these options; raises an ApiError for wrong ones."""
    for name in options:
        if name not in OPTION_NAMES:
            raise bad_request(
                f"unknown option {name[:_MAX_SHOWN_NAME]}; options are format, {', '.join(OPTION_NAMES)}",
                "usage",
            )
    try:
        context = load_context(options, services.env, services.config.data)
        key = services.config.sign_key
        if key is None or context.options.integrity == "none":
            return context
        return replace(context, sign=load_signer(key, is_alone=True))
    except OpenTokenError as problem:
        raise to_client_error(problem) from None


class Upload(Struct, frozen=True):
    """An uploaded file, and the other fields of its form."""

    stream: BinaryIO
    filename: str | None = None
    name: str | None = None
    """The title of the new session."""
    conversation: str | None = None
    """Which of several conversations in the file to import."""
    reader: str | None = None
    """The format, if it cannot be detected."""


async def preview_import(services: Services, owner: str, upload: Upload) -> ImportPreview:
    """Return what a file would become as a session; nothing is stored."""
    async with _parsed_upload(services, owner, upload) as (_, parsed):
        turns = await services.jobs.run(owner, lambda check: _count_turns(parsed, check))
        loss = [
            {"code": note.code, "place": note.place, "detail": note.detail, "count": note.count}
            for note in parsed.record.notes
        ]
        return ImportPreview(
            reader=parsed.reader,
            title=parsed.title,
            events=parsed.count,
            turns=turns,
            participants=[dict(person) for person in parsed.record.participants],
            models=parsed.models,
            started_at=parsed.record.conversation.get("started_at"),
            warnings=parsed.warnings,
            loss=loss,
        )


async def import_session(
    services: Services, owner: str, upload: Upload, session_id: str | None = None
) -> Session:
    """Import a file as a new session; a failed import leaves nothing behind."""
    async with _parsed_upload(services, owner, upload) as (path, parsed):
        session_id = session_id or services.clock.name("sess")
        pending = PendingSessions(services.store, PENDING_KEY)
        await pending.add(session_id, owner)
        try:
            chosen_title = _clean_title(upload.name)
            fallback = str(parsed.record.conversation.get("id") or "Imported session")
            own_title = choose_title(parsed.title, iter_prompts(parsed.events()), fallback)
            title = chosen_title or _clean_title(own_title) or "Imported session"
            writer = DocumentWriter(services, owner, session_id, parsed)
            await writer.write(title, is_chosen=bool(chosen_title))
            await _restore_files(services, session_id, path, parsed)
            session = (await services.journal.state(owner, session_id)).session
        except LogError:
            await _undo_import(services, owner, session_id)
            raise bad_request("the events of this file are inconsistent", "input.export") from None
        except BaseException:
            await _undo_import(services, owner, session_id)
            raise
        finally:
            await pending.remove(session_id)
        return session


async def remove_interrupted_imports(services: Services) -> int:
    """Remove sessions whose import was interrupted by a crash; returns their number."""
    pending = PendingSessions(services.store, PENDING_KEY)
    is_shared_store = services.config.database is not None
    count = 0
    for session_id, owner in (await pending.take_over()).items():
        if is_shared_store and await _is_recently_updated(services, owner, session_id):
            continue  # another node may be importing it
        await _undo_import(services, owner, session_id)
        await pending.remove(session_id)
        count += 1
    return count


async def _is_recently_updated(services: Services, owner: str, session_id: str) -> bool:
    stored = await services.store.session(owner, session_id)
    if stored is None:
        return False
    return stored.updated_at > services.clock.now(plus=-_ABANDONED_SECONDS)


@contextlib.asynccontextmanager
async def _parsed_upload(
    services: Services, owner: str, upload: Upload
) -> AsyncIterator[tuple[Path, ParsedUpload]]:
    """Parse an upload in an empty folder, so that readers find no related files next to it."""
    with _temporary_folder() as folder:
        path = folder / sanitize_filename(upload.filename)
        await asyncio.to_thread(_save_stream, upload.stream, path)
        parsed = await services.jobs.run(
            owner,
            lambda check: parse_upload(
                path,
                services.config.limits,
                services.clock.now(),
                upload.conversation,
                upload.reader,
                check,
            ),
        )
        yield path, parsed


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="open-token-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _save_stream(stream: BinaryIO, path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, _CHUNK_SIZE)


def _clean_title(title: str | None) -> str:
    """Return a title on one line, without control characters."""
    line = " ".join(title.split()) if isinstance(title, str) else ""
    printable = "".join(character for character in line if character.isprintable())
    return printable[:_MAX_TITLE_LENGTH]


def _count_turns(parsed: ParsedUpload, check: Checkpoint) -> int:
    state = SessionState("sess_preview")
    state.add("session.created", {"session": {}}, "")
    for _ in import_document(state, parsed.events(), "", **parsed.envelope()):
        check()
    return len(state.turns)


async def _restore_files(
    services: Services, session_id: str, path: Path, parsed: ParsedUpload
) -> None:
    """Extract the files of a bundle; the workspace checks every path once more."""
    if not parsed.files:
        return
    workspace = services.workspaces.get(session_id)
    with zipfile.ZipFile(path) as archive:
        for file in parsed.files:
            await asyncio.to_thread(bundle.extract_file, archive, file, workspace.write)


async def _undo_import(services: Services, owner: str, session_id: str) -> None:
    await services.store.delete_session(owner, session_id)
    services.journal.evict(session_id)
    with contextlib.suppress(ApiError):
        await asyncio.to_thread(services.workspaces.remove, session_id)
