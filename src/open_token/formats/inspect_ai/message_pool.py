"""References within a sample, and which of its repeated messages are already in the draft."""

from hashlib import blake2b
from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_dicts, as_text
from open_token.formats.shared.reasoning import split_think_tag
from open_token.jsontools.walk import map_strings

Body = dict[str, Any]
_REFERENCES = ("attachment://", "tc://")
_ENCODED_REFERENCES = tuple(f'"{prefix}'.encode() for prefix in _REFERENCES)


class MessagePool:
    """Resolves references: long texts are stored by their hash, messages by their number."""

    def __init__(self, sample: Body, draft: Draft) -> None:
        self._draft = draft
        self._attachments = _get_attachments(sample)
        data = sample.get("events_data")
        pool = data.get("messages") if isinstance(data, dict) else sample.get("message_pool")
        self.messages: list[Any] = pool if isinstance(pool, list) else []

    def resolve(self, value: Any) -> Any:
        """Return a value with every reference to a text replaced by the text."""
        if not self._attachments or not _may_refer(value):
            return value
        return map_strings(value, self._resolve_text)

    def _resolve_text(self, text: str) -> str:
        if not text.startswith(_REFERENCES):
            return text
        attachment = self._attachments.get(text.partition("://")[2])
        if isinstance(attachment, str):
            return attachment
        self._draft.note_omission(
            "missing-attachment", "attachments", "a reference to a text that is not in the log"
        )
        return text

    def get_messages(self, refs: Any) -> list[Any]:
        """Return the messages of ranges `[start, end)` and of single numbers."""
        messages: list[Any] = []
        if not isinstance(refs, list):
            return messages
        # Ranges of a damaged log may overlap without limit.
        limit = 4 * len(self.messages) + 16
        for ref in refs:
            if isinstance(ref, list) and len(ref) == 2:
                start, end = ref
            else:
                start, end = ref, None
            if type(start) is not int or start < 0 or len(messages) > limit:
                continue
            stop = max(end, 0) if type(end) is int else start + 1
            messages += self.messages[start:stop]
        return messages


def _get_attachments(sample: Body) -> Body:
    attachments = sample.get("attachments")
    # Logs of 2024 hold events and attachments in a transcript.
    transcript = sample.get("transcript")
    if not isinstance(attachments, dict) and isinstance(transcript, dict):
        attachments = transcript.get("content")
    return attachments if isinstance(attachments, dict) else {}


def _may_refer(value: Any) -> bool:
    """Return whether a value may hold a reference.

    Most values hold none, and searching encoded bytes is faster than walking the value.
    """
    try:
        encoded = msgspec.json.encode(value)
    except (RecursionError, ValueError):
        return True
    return any(prefix in encoded for prefix in _ENCODED_REFERENCES)


def hash_message(message: Body) -> bytes:
    """Hash a message without its id and its reasoning, which some model calls leave out."""
    calls = [
        [call.get("id"), call.get("function"), call.get("arguments")]
        for call in as_dicts(message.get("tool_calls"))
    ]
    identity = [
        message.get("role"),
        _remove_reasoning(message.get("content")),
        calls,
        message.get("tool_call_id"),
    ]
    try:
        encoded = msgspec.json.encode(identity, order="sorted")
    except (RecursionError, ValueError):
        encoded = repr(id(message)).encode()
    return blake2b(encoded, digest_size=16).digest()


def _remove_reasoning(content: Any) -> Any:
    if isinstance(content, str):
        return split_think_tag(content, [])[0]
    if not isinstance(content, list):
        return content
    parts = [part for part in content if _get_type(part) != "reasoning"]
    if len(parts) == 1 and _get_type(parts[0]) == "text":
        return parts[0].get("text")
    return parts


def _get_type(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


class MessageLog:
    """The messages of one thread that are in the draft: by id, or as the nth of the same content."""

    def __init__(self, hashes_by_id: dict[str, bytes]) -> None:
        self._hashes_by_id = hashes_by_id
        """Shared by all threads: an agent that takes over sees earlier messages."""
        self.has_changed = False
        """Whether the message checked last differs from the one added under its id."""
        self._known: set[tuple[bytes, int]] = set()
        self._last_input: list[Any] = []
        self._has_answer = False
        self._counts: dict[bytes, int] = {}
        self._checked_ids: set[str] = set()

    def skip_repeated(self, messages: list[Any]) -> list[Any]:
        """Return what an input has beyond the previous one, which it usually repeats."""
        length = len(self._last_input)
        repeats = messages[:length] == self._last_input
        self._last_input = messages
        if repeats:
            return messages[length:]
        self._counts = {}
        self._checked_ids = set()
        return messages

    def add(self, message: Body) -> bool:
        """Record the next message of an input; return whether it was not recorded before."""
        message_id = as_text(message.get("id"))
        digest = hash_message(message)
        number = self._counts.get(digest, 0) + 1
        self._counts[digest] = number
        is_known = (digest, number) in self._known
        self._known.add((digest, number))
        self.has_changed = False
        if message_id is None:
            return not is_known
        if message_id in self._hashes_by_id and message_id not in self._checked_ids:
            is_known = True
            self.has_changed = self._hashes_by_id[message_id] != digest
        self._hashes_by_id.setdefault(message_id, digest)
        self._checked_ids.add(message_id)
        return not is_known

    def add_answer(self, message: Body) -> None:
        """Record the answer to an input, which the next input will repeat."""
        digest = hash_message(message)
        self._known.add((digest, self._counts.get(digest, 0) + 1))
        self._has_answer = True
        message_id = as_text(message.get("id"))
        if message_id:
            self._hashes_by_id.setdefault(message_id, digest)

    def is_new_request(self, messages: list[Any]) -> bool:
        """Return whether an input does not continue the previous one, which was answered."""
        length = len(self._last_input)
        if not self._has_answer:
            return False
        return len(messages) <= length or messages[:length] != self._last_input

    def is_new_answer(self, message: Body) -> bool:
        """Return whether neither the id of an answer nor its content is known."""
        if as_text(message.get("id")) in self._hashes_by_id:
            return False
        return (hash_message(message), 1) not in self._known
