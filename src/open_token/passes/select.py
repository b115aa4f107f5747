"""Leaves hidden reasoning out, or shows it as far as the options let it."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec

from open_token.context import Context
from open_token.model import Content, Event, Record
from open_token.passes._late import late

_SENTENCE = late(r"\s*(.{1,280}?(?:[.!?](?=\s|$)|[。！？])|.{1,280})", re.DOTALL)
_LONGEST_EXTRACT = 280

Change = Callable[[Event], Event | None]


class Selected(msgspec.Struct, frozen=True):
    """Events seen through a choice; may be walked any number of times."""

    events: Iterable[Event]
    change: Change

    def __iter__(self) -> Iterator[Event]:
        change = self.change
        for event in self.events:
            if event.get("role") != "assistant_thought":
                yield event
            elif (changed := change(event)) is not None:
                yield changed


def select(record: Record, context: Context) -> Record:
    """The record with its thoughts left out, or as placeholders, summaries or words."""
    options = context.options
    if options.include == "visible-only":
        return record.with_events(Selected(record.events, _left_out))
    if options.internal == "full" and not context.policy.forbid_internal_full:
        return record
    change = _placeholder if options.internal == "redacted" else _summary
    return record.with_events(Selected(record.events, change))


def _left_out(event: Event) -> Event | None:
    """No thought, but the tokens it was counted with are no thought and stay."""
    if "usage" not in event:
        return None
    counted: Content = {"mime": "application/json", "data": {"kind": "usage"}}
    new = {"type": "annotation", "visibility": "metadata", "content": counted}
    return cast(
        Event, {name: new.get(name, value) for name, value in event.items() if name != "role"}
    )


def _placeholder(event: Event) -> Event:
    data = event["content"].get("data")
    encrypted = isinstance(data, dict) and data.get("encrypted") is True
    sealed = {"redacted": True, "encrypted": True} if encrypted else {"redacted": True}
    return _with_content(event, {"mime": "application/json", "data": sealed})


def _summary(event: Event) -> Event:
    content = event["content"]
    data = content.get("data")
    text = content.get("text")
    if text is None or (isinstance(data, dict) and "summary" in data):
        return event
    if not text.strip():
        return _placeholder(event)
    return _with_content(
        event, {"mime": "text/plain", "text": _first_sentence(text), "data": {"summary": "extract"}}
    )


def _first_sentence(text: str) -> str:
    found = _SENTENCE.match(text[: 4 * _LONGEST_EXTRACT].strip())
    return found[1].strip() if found else text[:_LONGEST_EXTRACT]


def _with_content(event: Event, content: Content) -> Event:
    return cast(Event, {**event, "content": content})
