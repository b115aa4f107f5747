"""The select pass: leave out what a person chose to leave out, and hidden reasoning, of which the
options may show some."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec

from open_token.context import Context
from open_token.model.document import Content, Event, Record
from open_token.redaction.lazy_patterns import lazy_compile

_MAX_SUMMARY = 280
_SENTENCE = lazy_compile(r"\s*(.{1,280}?(?:[.!?](?=\s|$)|[。！？])|.{1,280})", re.DOTALL)

ChangeEvent = Callable[[Event], Event | None]


class _SelectedEvents(msgspec.Struct, frozen=True):
    """Events with reasoning changed or left out; can be iterated any number of times."""

    events: Iterable[Event]
    change: ChangeEvent

    def __iter__(self) -> Iterator[Event]:
        change = self.change
        for event in self.events:
            if event.get("role") != "assistant_thought":
                yield event
                continue
            changed = change(event)
            if changed is not None:
                yield changed


def select(record: Record, context: Context) -> Record:
    """Return the record without what its person left out, and with its reasoning left out, or as
    placeholders, summaries or text."""
    if context.selection:
        # Loaded only when needed: few exports leave anything out.
        from open_token.passes.leave_out import leave_out

        record = leave_out(record, context)
    options = context.options
    if options.include == "visible-only":
        return record.with_events(_SelectedEvents(record.events, _leave_out))
    if options.internal == "full" and not context.policy.forbid_internal_full:
        return record
    change = _redact if options.internal == "redacted" else _summarize
    return record.with_events(_SelectedEvents(record.events, change))


def _leave_out(event: Event) -> Event | None:
    """Drop reasoning, but keep the token counts that it came with."""
    if "usage" not in event:
        return None
    replaced = {
        "type": "annotation",
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": {"kind": "usage"}},
    }
    kept = {name: replaced.get(name, value) for name, value in event.items() if name != "role"}
    return cast(Event, kept)


def _redact(event: Event) -> Event:
    data = event["content"].get("data")
    placeholder = {"redacted": True}
    if isinstance(data, dict) and data.get("encrypted") is True:
        placeholder["encrypted"] = True
    return _with_content(event, {"mime": "application/json", "data": placeholder})


def _summarize(event: Event) -> Event:
    content = event["content"]
    data = content.get("data")
    text = content.get("text")
    if text is None or (isinstance(data, dict) and "summary" in data):
        return event
    if not text.strip():
        return _redact(event)
    summary = _find_first_sentence(text)
    return _with_content(
        event, {"mime": "text/plain", "text": summary, "data": {"summary": "extract"}}
    )


def _find_first_sentence(text: str) -> str:
    match = _SENTENCE.match(text[: 4 * _MAX_SUMMARY].strip())
    if match:
        return match[1].strip()
    return text[:_MAX_SUMMARY]


def _with_content(event: Event, content: Content) -> Event:
    return cast(Event, {**event, "content": content})
