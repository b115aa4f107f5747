"""Export the current session from its log into its workspace."""

import asyncio
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from open_token.api import load_context
from open_token.errors import OpenTokenError
from open_token.model.log_events import Json, LogEntry
from open_token.pipeline import export
from open_token.server.agent.tools.arguments import refusals_as_errors, run_in_thread
from open_token.server.agent.tools.interface import ToolContext, ToolError
from open_token.server.core.workspace import Workspace, publish_files_changed
from open_token.server.transfers.jobs import Checkpoint
from open_token.sources.source import Source
from open_token.storage.files import atomic_file

_PAGE_SIZE = 1000
_OPTION = re.compile(r"([a-z_]+)=([A-Za-z0-9:._+-]+)")
_EXPOSING = {
    ("redact", "none"): "secrets in clear text",
    ("internal", "full"): "the reasoning word for word",
}
_READER = "session_server"


async def export_session(context: ToolContext, words: str, is_confirmed: bool) -> Json:
    """Write the session as an Open-Token document; return its path, size and redaction."""
    options = _parse_options(words)
    exposed = [what for option, what in _EXPOSING.items() if option in options.items()]
    if exposed and not is_confirmed:
        raise ToolError(
            f"this would expose {' and '.join(exposed)}: "
            "ask the person, and call again with confirmed after a yes"
        )
    # Outside the workspace: neither the log nor an export that fails half-way may be left where
    # the agent and the person see it.
    with tempfile.TemporaryDirectory(prefix="open-token-") as folder:
        log = Path(folder) / "log.ndjson"
        exported = Path(folder) / "export"
        with log.open("wb") as out:
            await _write_log(context, out)
        receipt = await context.services.jobs.run(
            context.owner, lambda check: _run_export(log, exported, context, options, check)
        )
        with refusals_as_errors(), exported.open("rb") as document:
            name = await asyncio.to_thread(
                _find_free_name, context.workspace, options.get("mode", "json")
            )
            await run_in_thread(context.workspace.write, name, document)
        size = exported.stat().st_size
    await publish_files_changed(
        context.services, context.owner, context.session_id, "written", name
    )
    return {
        "file_path": name,
        "bytes": size,
        "events": receipt.events,
        "redact": options.get("redact", "secrets"),
    }


def _parse_options(words: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words.split():
        option = _OPTION.fullmatch(word)
        if option is None:
            raise ToolError(
                "the arguments must be options of the form key=value; ask the person what is meant"
            )
        options[option[1]] = option[2]
    return options


def _run_export(
    log: Path, target: Path, context: ToolContext, options: dict[str, str], check: Checkpoint
) -> Any:
    services = context.services
    source = Source(context.session_id, path=log)
    source.conversation = context.session_id
    try:
        export_context = load_context(options, services.env, services.config.data)
        with atomic_file(target) as out:
            return export(source, out, replace(export_context, checkpoint=check), _READER)
    except OpenTokenError as problem:
        message = f"{problem.what}; {problem.help}" if problem.help else problem.what
        raise ToolError(message) from None


async def _write_log(context: ToolContext, out: BinaryIO) -> None:
    """Write the log for the reader, one entry per line, with blobs put back in."""
    store = context.services.store
    after = 0
    while True:
        page = await store.read_log(context.owner, context.session_id, after, _PAGE_SIZE)
        if not page:
            return
        for entry in page:
            out.write(msgspec.json.encode(await _expand_blob(context, entry)) + b"\n")
        after = page[-1].seq


async def _expand_blob(context: ToolContext, entry: LogEntry) -> LogEntry:
    result = entry.data.get("result")
    if entry.kind != "tool.result" or not isinstance(result, dict):
        return entry
    if not {"blob", "media_type"} <= result.keys():
        return entry
    data = await context.services.store.read_blob(
        context.owner, context.session_id, str(result["blob"])
    )
    if data is None:
        return entry
    if str(result["media_type"]).startswith("application/json"):
        content = msgspec.json.decode(data)
    else:
        content = data.decode("utf-8", "replace")
    return msgspec.structs.replace(entry, data={**entry.data, "result": content})


def _find_free_name(workspace: Workspace, mode: str) -> str:
    taken = {entry.name for entry in workspace.list()}
    name = f"conversation.ot.{mode}"
    number = 0
    while name in taken:
        number += 1
        name = f"conversation-{number}.ot.{mode}"
    return name
