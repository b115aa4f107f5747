"""Copies that were handed over are recognized by their note until they are continued."""

from typing import Any

import pytest

from open_token.handoff.conversation import NOTE_PREFIX
from open_token.handoff.copies import HandoffCopyDetector, may_be_copy


def event(kind: str, text: str = "", **more: Any) -> Any:
    return {"type": kind, "role": "user", "content": {"mime": "text/plain", "text": text}, **more}


def ending(*events: Any) -> HandoffCopyDetector:
    made = HandoffCopyDetector()
    for item in events:
        made.take(item)
    return made


def test_the_last_message_names_the_session_that_was_copied() -> None:
    note = f"{NOTE_PREFIX}conversation some, id, 12 events, events_hash sha256:ab. It is"
    found = ending(event("message", "hello"), event("message", note), event("annotation"))
    assert (found.is_note, found.origin) == (True, "some, id")


def test_a_copy_of_what_has_no_id() -> None:
    found = ending(event("message", f"{NOTE_PREFIX}conversation, 12 events. It is"))
    assert (found.is_note, found.origin) == (True, None)


@pytest.mark.parametrize(
    "more", [event("message", "go on"), event("tool_use"), event("tool_result", "out")]
)
def test_somebody_went_on(more: Any) -> None:
    found = ending(event("message", f"{NOTE_PREFIX}conversation a, 12 events. It is"), more)
    assert (found.is_note, found.origin) == (False, None)


@pytest.mark.parametrize(
    "last", [("tool_result", "tool"), ("tool_result", "user"), ("message", "assistant")]
)
def test_a_note_that_is_only_quoted(last: tuple[str, str]) -> None:
    note = event(last[0], f"{NOTE_PREFIX}conversation a, 12 events. It is", role=last[1])
    assert (ending(note).is_note, ending(note).origin) == (False, None)


def test_nothing_was_said() -> None:
    assert not ending().is_note


def test_bytes_without_the_note_need_no_look() -> None:
    assert may_be_copy(b'{"text": "' + NOTE_PREFIX.encode() + b'conversation"}')
    assert not may_be_copy(b'{"text": "hello"}')
