"""The log of a session as NDJSON, with the contents of blobs restored."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, TypeGuard

import msgspec

from open_token.model.log_events import Json, LogEntry
from open_token.server.agent.models.inputs import get_file_kind
from open_token.server.core.services import Services

_PAGE_SIZE = 100
_REFERENCE_KEYS = frozenset({"blob", "size", "media_type", "preview"})
_MISSING = object()
_encode = msgspec.json.Encoder().encode


async def read_log_pages(
    services: Services, owner: str, session_id: str, last: int
) -> AsyncIterator[list[LogEntry]]:
    """Yield the log up to a sequence, page by page."""
    position = 0
    while position < last:
        limit = min(_PAGE_SIZE, last - position)
        page = await services.store.read_log(owner, session_id, position, limit)
        if not page:
            return
        position = page[-1].seq
        yield page


async def write_log(
    services: Services, owner: str, session_id: str, last: int, out: BinaryIO
) -> None:
    """Write the log up to a sequence, one entry per line; blobs are inlined."""
    async for page in read_log_pages(services, owner, session_id, last):
        entries = [await _inline_blob(services, owner, entry) for entry in page]
        await asyncio.to_thread(_write_entries, entries, out)


def _write_entries(entries: list[LogEntry], out: BinaryIO) -> None:
    for entry in entries:
        out.write(_encode(entry) + b"\n")


async def _inline_blob(services: Services, owner: str, entry: LogEntry) -> LogEntry:
    """Replace a blob reference in an entry by the content of the blob."""
    if entry.kind == "tool.result":
        reference = entry.data.get("result")
    elif entry.kind == "event.kept":
        reference = _find_event_data(entry.data["event"])
    elif entry.kind == "turn.opened":
        return await _inline_attachments(services, owner, entry)
    else:
        return entry
    if not is_blob_reference(reference):
        return entry
    value = await _read_blob(services, owner, entry.session_id, reference)
    if value is _MISSING:
        return entry
    if entry.kind == "tool.result":
        changed = {"result": value}
    else:
        changed = {"event": _with_content(entry.data["event"], value)}
    return msgspec.structs.replace(entry, data={**entry.data, **changed})


async def _inline_attachments(services: Services, owner: str, entry: LogEntry) -> LogEntry:
    """Add the content of files that were sent with a message."""
    turn = entry.data["turn"]
    blocks = []
    for block in turn.get("blocks", ()):
        if "parts" in block:
            parts = [
                await _inline_file(services, owner, entry.session_id, part)
                for part in block["parts"]
            ]
            block = {**block, "parts": parts}
        blocks.append(block)
    if not blocks:
        return entry
    return msgspec.structs.replace(entry, data={**entry.data, "turn": {**turn, "blocks": blocks}})


async def _inline_file(services: Services, owner: str, session_id: str, part: Json) -> Json:
    if part.get("type") != "file" or "sha256" not in part:
        return part
    data = await services.store.read_blob(owner, session_id, part["sha256"])
    if data is None:
        return part
    encoded = await asyncio.to_thread(base64.b64encode, data)
    kind = get_file_kind(part["media_type"])
    media_kind = "image" if kind == "image" else "file"
    return {**part, "type": media_kind, "data": encoded.decode()}


def is_blob_reference(value: Any) -> TypeGuard[Json]:
    """Return whether a value stands for a blob."""
    if not isinstance(value, dict) or value.keys() != _REFERENCE_KEYS:
        return False
    return isinstance(value["blob"], str)


async def _read_blob(services: Services, owner: str, session_id: str, reference: Json) -> Any:
    """Return the value of a blob, or _MISSING.

    A tool may return something that looks like a reference; then there is no such blob."""
    data = await services.store.read_blob(owner, session_id, reference["blob"])
    if data is None:
        return _MISSING
    return await asyncio.to_thread(_decode_blob, data, reference["media_type"])


def _decode_blob(data: bytes, media_type: Any) -> Any:
    if media_type == "application/json":
        return msgspec.json.decode(data)
    return data.decode("utf-8", "replace")


def _find_event_data(event: Any) -> Any:
    content = event.get("content") if isinstance(event, dict) else None
    if isinstance(content, dict):
        return content.get("data")
    return None


def _with_content(event: Json, value: Any) -> Json:
    """Return an imported event with its content; plain text becomes `text` again."""
    content = dict(event["content"])
    if content.get("mime") == "text/plain":
        del content["data"]
        content["text"] = value
    else:
        content["data"] = value
    return {**event, "content": content}
