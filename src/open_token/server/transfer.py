"""Sessions leave as Open-Token documents: the log is a source like any other, and every option of an export holds."""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.library import surroundings
from open_token.options import NAMES
from open_token.pipeline import export as run
from open_token.server import _bundle
from open_token.server._log_file import write_log
from open_token.server.refusals import Refused, bad, missing
from open_token.server.services import Services
from open_token.source import Source

READER = "session_server"
FORMS = {"zip": "application/zip", "json": "application/json", "ndjson": "application/x-ndjson"}
_PIECE = 1 << 18


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


async def export(services: Services, owner: str, session_id: str, words: Iterable[tuple[str, str]]) -> Parcel:
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
            raise refused(problem) from None
        except BaseException:
            made.close()
            raise
    size = made.tell()
    made.seek(0)
    return Parcel(made, size, FORMS[form], f"{session_id}.{'zip' if form == 'zip' else f'open-token.{form}'}")


def refused(problem: OpenTokenError) -> Refused:
    """What is wrong with an input or an option, in words for a client: what and what to do, no path of this machine."""
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
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise bad(f"there is no option {unknown[0][:40]}; the options are format, {', '.join(NAMES)}", "usage")
    try:
        return surroundings(given, services.env, services.config.data)
    except OpenTokenError as problem:
        raise refused(problem) from None
