"""Writes a document into a new session in steps of bounded size; results too big for the log become
blobs."""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.server._incoming import Incoming
from open_token.server.services import Services
from open_token.session import SessionState
from open_token.session.document_import import import_document

_ENTRIES = 512
_BYTES = 1 << 20
_LETTERS = 2000
_encode = msgspec.json.Encoder().encode


class Big(Struct, frozen=True):
    """A result that goes into a blob."""

    data: bytes
    media_type: str
    sha256: str


@dataclass
class Batch:
    """What is written together."""

    steps: list[NewEvent] = field(default_factory=list)
    bigs: list[Big] = field(default_factory=list)
    weight: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.steps) >= _ENTRIES or self.weight >= _BYTES

    def said(self, _: SessionState) -> list[NewEvent]:
        """What it says, whatever the state: nobody else writes to a session that comes in."""
        return self.steps


class Bringing:
    """One import under way: the document is told to a state of its own, and what that says is
    written."""

    def __init__(self, services: Services, owner: str, session_id: str, found: Incoming) -> None:
        self._services = services
        self._owner = owner
        self._session_id = session_id
        self._found = found
        self._frame = services.config.limits.frame_bytes
        self._batch = Batch()

    async def write(self, title: str, *, is_chosen: bool = False) -> None:
        """Make the session; the first step creates it, the others follow, the last one says that it
        is complete.

        A title that somebody chose is a change: the document has its own, and an export knows which
        one counts."""
        journal = self._services.journal
        session: Json = {
            "id": self._session_id,
            "intent": title,
            "imported_from": self._found.reader,
        }
        entries = self._entries(session)
        is_new = True
        while (batch := await asyncio.to_thread(self._next, entries)).steps:
            for big in batch.bigs:
                await self._services.store.put_blob(big.data, big.media_type)
            blobs = [big.sha256 for big in batch.bigs]
            if is_new:
                await journal.create(self._owner, session, batch.said, blobs=blobs)
            else:
                await journal.write(self._owner, self._session_id, batch.said, blobs=blobs)
            is_new = False
        named = {"intent": title} if is_chosen else {}
        done: NewEvent = ("session.changed", {"changes": {"status": "completed", **named}})
        await journal.write(self._owner, self._session_id, lambda _: [done])

    def _entries(self, session: Json) -> Iterator[LogEntry]:
        state = SessionState(self._session_id)
        now = self._services.clock.now()
        state.add("session.created", {"session": session}, now)
        return import_document(state, self._events(), now, **self._found.about())

    def _next(self, entries: Iterator[LogEntry]) -> Batch:
        """The next entries, as many as one step takes."""
        batch = self._batch = Batch()
        for entry in entries:
            batch.steps.append((entry.kind, entry.data))
            if batch.is_full:
                break
        return batch

    def _events(self) -> Iterator[Json]:
        for event in self._found.events():
            if event["type"] == "tool_result":
                event = self._small(event)
            self._batch.weight += len(_encode(event))
            yield event

    def _small(self, event: Json) -> Json:
        """The event; a result that no frame would hold is only referred to."""
        content = event.get("content")
        mime = content.get("mime") if isinstance(content, dict) else None
        if not isinstance(content, dict) or len(content) != 2:
            return event
        if mime == "text/plain" and "text" in content:
            data, media_type = content["text"].encode("utf-8", "replace"), "text/plain"
        elif mime == "application/json" and "data" in content:
            data, media_type = _encode(content["data"]), "application/json"
        else:
            return event
        if len(data) <= self._frame:
            return event
        return {**event, "content": {"mime": mime, "data": self._refer(data, media_type)}}

    def _refer(self, data: bytes, media_type: str) -> dict[str, Any]:
        sha256 = hashlib.sha256(data).hexdigest()
        self._batch.bigs.append(Big(data, media_type, sha256))
        preview = data[: 4 * _LETTERS].decode("utf-8", "ignore")[:_LETTERS]
        return {"blob": sha256, "size": len(data), "media_type": media_type, "preview": preview}
