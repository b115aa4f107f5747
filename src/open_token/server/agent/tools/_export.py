"""The export of the session in which it is asked for, made of its log and put into its
workspace."""

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from open_token.api import load_context
from open_token.entries import Entry, Json
from open_token.errors import OpenTokenError
from open_token.pipeline import export
from open_token.server.agent.tools._arguments import faults, in_thread
from open_token.server.agent.tools.interface import Place, ToolFault
from open_token.server.workspace import Workspace, tell_changed
from open_token.sources.source import Source
from open_token.storage.files import whole_file

_PAGE = 1000
_OPTION = re.compile(r"([a-z_]+)=([A-Za-z0-9:._+-]+)")
_EXPOSING = {
    ("redact", "none"): "secrets in clear text",
    ("internal", "full"): "the reasoning word for word",
}
_READER = "session_server"


async def export_here(place: Place, words: str, is_confirmed: bool) -> Json:
    """Write the session as an Open-Token document into the workspace; tells where, how big and how
    redacted."""
    options = _options(words)
    exposed = [what for option, what in _EXPOSING.items() if option in options.items()]
    if exposed and not is_confirmed:
        raise ToolFault(
            f"this would expose {' and '.join(exposed)}: ask the person, and call again with confirmed after a yes"
        )
    with tempfile.TemporaryDirectory(prefix="open-token-") as held:
        log, made = Path(held) / "log.ndjson", Path(held) / "export"
        with log.open("wb") as out:
            await _write_log(place, out)
        receipt = await asyncio.to_thread(_exported, log, made, place, options)
        with faults(), made.open("rb") as document:
            name = await asyncio.to_thread(_free_name, place.workspace, options.get("mode", "json"))
            await in_thread(place.workspace.write, name, document)
        size = made.stat().st_size
    await tell_changed(place.services, place.owner, place.session_id, "written", name)
    return {
        "file_path": name,
        "bytes": size,
        "events": receipt.events,
        "redact": options.get("redact", "secrets"),
    }


def _options(words: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words.split():
        option = _OPTION.fullmatch(word)
        if option is None:
            raise ToolFault(
                "the arguments are options of the form key=value; ask the person what is meant"
            )
        found[option[1]] = option[2]
    return found


def _exported(log: Path, target: Path, place: Place, options: dict[str, str]) -> Any:
    services = place.services
    source = Source(place.session_id, path=log)
    source.conversation = place.session_id
    try:
        context = load_context(options, services.env, services.config.data)
        with whole_file(target) as out:
            return export(source, out, context, _READER)
    except OpenTokenError as problem:
        raise ToolFault(f"{problem.what}{f'; {problem.help}' if problem.help else ''}") from None


async def _write_log(place: Place, out: BinaryIO) -> None:
    """The log as readers take it, one entry a line; results that lie beside it are put back in."""
    store, after = place.services.store, 0
    while page := await store.read_log(place.owner, place.session_id, after, _PAGE):
        for entry in page:
            out.write(msgspec.json.encode(await _whole(place, entry)) + b"\n")
        after = page[-1].seq


async def _whole(place: Place, entry: Entry) -> Entry:
    result = entry.data.get("result")
    if (
        entry.kind != "tool.result"
        or not isinstance(result, dict)
        or not {"blob", "media_type"} <= result.keys()
    ):
        return entry
    data = await place.services.store.read_blob(place.owner, place.session_id, str(result["blob"]))
    if data is None:
        return entry
    is_json = str(result["media_type"]).startswith("application/json")
    whole = msgspec.json.decode(data) if is_json else data.decode("utf-8", "replace")
    return msgspec.structs.replace(entry, data={**entry.data, "result": whole})


def _free_name(workspace: Workspace, mode: str) -> str:
    taken = {entry.name for entry in workspace.list()}
    names = (
        f"conversation{f'-{number}' if number else ''}.ot.{mode}"
        for number in range(len(taken) + 1)
    )
    return next(name for name in names if name not in taken)
