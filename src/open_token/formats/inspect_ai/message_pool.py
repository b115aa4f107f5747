"""What the samples of Inspect AI keep once and refer to: long texts by their hash, messages by
their number."""

from hashlib import blake2b
from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_dicts, as_text
from open_token.formats.shared.reasoning import split_think_tag
from open_token.jsontools.walk import map_strings

Body = dict[str, Any]
_REFERENCES = ("attachment://", "tc://")
_IN_BYTES = tuple(f'"{mark}'.encode() for mark in _REFERENCES)


class Pool:
    """Puts texts and messages back where a reference stands for them."""

    def __init__(self, sample: Body, draft: Draft) -> None:
        self._draft = draft
        attached = sample.get("attachments")
        old = sample.get("transcript")
        if not isinstance(attached, dict) and isinstance(old, dict):
            attached = old.get("content")
        self._attached: Body = attached if isinstance(attached, dict) else {}
        data = sample.get("events_data")
        pool = data.get("messages") if isinstance(data, dict) else sample.get("message_pool")
        self.messages: list[Any] = pool if isinstance(pool, list) else []

    def whole(self, value: Any) -> Any:
        """A value with every reference to a text replaced by the text."""
        return map_strings(value, self._text) if self._attached and _may_refer(value) else value

    def _text(self, text: str) -> str:
        if not text.startswith(_REFERENCES):
            return text
        found = self._attached.get(text.partition("://")[2])
        if isinstance(found, str):
            return found
        self._draft.note_omission(
            "missing-attachment", "attachments", "a reference to a text that is not in the log"
        )
        return text

    def referred(self, refs: Any) -> list[Any]:
        """The messages that ranges of numbers stand for: `[start, end)`, or a number alone."""
        made: list[Any] = []
        most = 4 * len(self.messages) + 16
        for ref in refs if isinstance(refs, list) else ():
            start, end = (
                (ref[0], ref[1]) if isinstance(ref, list) and len(ref) == 2 else (ref, None)
            )
            if type(start) is not int or start < 0 or len(made) > most:
                continue
            made += self.messages[start : start + 1 if type(end) is not int else max(end, 0)]
        return made


def _may_refer(value: Any) -> bool:
    """Whether a reference may stand in a value: most have none, and bytes are searched faster than
    values."""
    try:
        raw = msgspec.json.encode(value)
    except (RecursionError, ValueError):
        return True
    return any(mark in raw for mark in _IN_BYTES)


def digest(message: Body) -> bytes:
    """What a message says, without its id and thoughts, which some calls of a model leave out."""
    content = message.get("content")
    if isinstance(content, str):
        content = split_think_tag(content, [])[0]
    elif isinstance(content, list):
        content = [
            part
            for part in content
            if not (isinstance(part, dict) and part.get("type") == "reasoning")
        ]
        if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
            content = content[0].get("text")
    calls = [
        [call.get("id"), call.get("function"), call.get("arguments")]
        for call in as_dicts(message.get("tool_calls"))
    ]
    gist = [message.get("role"), content, calls, message.get("tool_call_id")]
    try:
        raw = msgspec.json.encode(gist, order="sorted")
    except (RecursionError, ValueError):
        raw = repr(id(message)).encode()
    return blake2b(raw, digest_size=16).digest()


class Told:
    """Which messages of one line of talk were told: by id, or as the nth that says the same."""

    def __init__(self, ids: dict[str, bytes]) -> None:
        self._ids = ids
        """What was said under each id, in all lines of talk: an agent that takes over sees what was
        said before."""
        self.changed = False
        """The message that was asked about last says something else than when it was told."""
        self._said: set[tuple[bytes, int]] = set()
        self._last: list[Any] = []
        self._answered = False
        self._count: dict[bytes, int] = {}
        self._met: set[str] = set()

    def rest(self, messages: list[Any]) -> list[Any]:
        """What a list of messages has beyond the list before it, which as a rule it repeats."""
        length = len(self._last)
        again = messages[:length] == self._last
        self._last = messages
        if not again:
            self._count, self._met = {}, set()
        return messages[length:] if again else messages

    def is_new(self, message: Body) -> bool:
        """Whether the next message of the list was not told yet; from now on it was."""
        name, said = as_text(message.get("id")), digest(message)
        self._count[said] = number = self._count.get(said, 0) + 1
        by_id = name is not None and name in self._ids and name not in self._met
        self.changed = by_id and name is not None and self._ids[name] != said
        known = by_id or (said, number) in self._said
        self._said.add((said, number))
        if name:
            self._ids.setdefault(name, said)
            self._met.add(name)
        return not known

    def expect(self, message: Body) -> None:
        """The answer to a list was told, and will stand in the next one."""
        said = digest(message)
        self._said.add((said, self._count.get(said, 0) + 1))
        self._answered = True
        if name := as_text(message.get("id")):
            self._ids.setdefault(name, said)

    def leaves(self, messages: list[Any]) -> bool:
        """Whether a list does not go on from the one before it, which was answered."""
        length = len(self._last)
        return self._answered and (len(messages) <= length or messages[:length] != self._last)

    def is_new_answer(self, message: Body) -> bool:
        """Whether an answer was not told, neither under its id nor as anything that says the
        same."""
        return (
            as_text(message.get("id")) not in self._ids and (digest(message), 1) not in self._said
        )
