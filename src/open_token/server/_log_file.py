"""The log of a session as a file that readers understand: one entry a line, big results in full."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, TypeGuard

import msgspec

from open_token.model.log_events import Json, LogEntry
from open_token.server.services import Services

_PAGE = 100
_KEYS = frozenset({"blob", "size", "media_type", "preview"})
_JSON = "application/json"
_encode = msgspec.json.Encoder().encode


async def entries_of(
    services: Services, owner: str, session_id: str, last: int
) -> AsyncIterator[list[LogEntry]]:
    """The log up to a sequence, page by page."""
    seen = 0
    while seen < last:
        page = await services.store.read_log(owner, session_id, seen, min(_PAGE, last - seen))
        if not page:
            return
        seen = page[-1].seq
        yield page


async def write_log(
    services: Services, owner: str, session_id: str, last: int, out: BinaryIO
) -> None:
    """Write the log up to a sequence; what lies in blobs is put back where it was."""
    async for page in entries_of(services, owner, session_id, last):
        whole = [await _whole(services, owner, entry) for entry in page]
        await asyncio.to_thread(_write, whole, out)


def _write(entries: list[LogEntry], out: BinaryIO) -> None:
    for entry in entries:
        out.write(_encode(entry) + b"\n")


async def _whole(services: Services, owner: str, entry: LogEntry) -> LogEntry:
    """The entry with what its blob holds."""
    if entry.kind == "tool.result" and is_reference(held := entry.data.get("result")):
        found = await _read(services, owner, entry.session_id, held)
        return entry if found is None else _with(entry, result=found[0])
    if entry.kind == "event.kept" and is_reference(held := _data(entry.data["event"])):
        found = await _read(services, owner, entry.session_id, held)
        return (
            entry if found is None else _with(entry, event=_filled(entry.data["event"], found[0]))
        )
    return entry


def is_reference(value: Any) -> TypeGuard[Json]:
    """Whether a value says that the real one lies in a blob."""
    return isinstance(value, dict) and value.keys() == _KEYS and isinstance(value["blob"], str)


async def _read(services: Services, owner: str, session_id: str, held: Json) -> tuple[Any] | None:
    """What a blob holds; None when the session has no such blob: then a tool only said something
    that looks so."""
    data = await services.store.read_blob(owner, session_id, held["blob"])
    if data is None:
        return None
    return (await asyncio.to_thread(_value, data, held["media_type"]),)


def _value(data: bytes, media_type: Any) -> Any:
    if media_type == _JSON:
        return msgspec.json.decode(data)
    return data.decode("utf-8", "replace")


def _data(event: Any) -> Any:
    content = event.get("content") if isinstance(event, dict) else None
    return content.get("data") if isinstance(content, dict) else None


def _filled(event: Json, value: Any) -> Json:
    """An imported event with its own content; what was text is text again."""
    content = event["content"]
    if content.get("mime") == "text/plain":
        return {
            **event,
            "content": {name: item for name, item in content.items() if name != "data"}
            | {"text": value},
        }
    return {**event, "content": {**content, "data": value}}


def _with(entry: LogEntry, **data: Any) -> LogEntry:
    return msgspec.structs.replace(entry, data={**entry.data, **data})
