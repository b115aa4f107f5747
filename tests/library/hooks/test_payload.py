"""The input of hooks: what agents send, and malformed or hostile input."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.library.hooks.payload import MAX_CALL_SIZE, HookCall, parse_call

ID = "019c0000-1111-7222-8333-444455556666"
PATH = "/home/you/session.jsonl"


def call(**said: Any) -> HookCall | None:
    return parse_call(json.dumps(said).encode(), "codex", "/sessions")


@pytest.mark.parametrize("path", ["transcript_path", "transcriptPath"])
@pytest.mark.parametrize("known", ["session_id", "sessionId", "conversation_id"])
@pytest.mark.parametrize("event", ["hook_event_name", "event"])
def test_field_names_of_every_agent_are_known(path: str, known: str, event: str) -> None:
    found = call(**{path: PATH, known: ID, event: "sessionEnd", "prompt_response": {"deep": ["x"]}})
    assert found == HookCall(
        runtime="codex", event="sessionEnd", path=PATH, id=ID, folder="/sessions"
    )
    assert found.is_end


def test_an_end_without_a_name_is_known_by_its_reason() -> None:
    ends = [
        call(sessionId=ID, **more)
        for more in ({"reason": "complete"}, {"stopReason": "end_turn"}, {})
    ]
    assert [found is not None and found.is_end for found in ends] == [True, False, False]


def test_a_path_or_an_id_is_enough() -> None:
    assert call(session_id=ID, transcript_path=None) == HookCall(
        runtime="codex", id=ID, folder="/sessions"
    )
    found = call(transcript_path=PATH, session_id=7, hook_event_name={"a": 1})
    assert found == HookCall(runtime="codex", path=PATH, folder="/sessions")
    assert not found.is_end


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"session_id": "a"},
        {"session_id": "../../etc/passwd"},
        {"session_id": "-" * 36},
        {"session_id": "x" * 101},
        {"session_id": f"{ID}\n"},
        {"transcript_path": ""},
        {"transcript_path": "a\0b"},
        {"transcript_path": "/" + "x" * 5000},
        {"transcript_path": ["/a"]},
    ],
)
def test_a_call_without_a_conversation_is_none(said: dict[str, Any]) -> None:
    assert call(**said) is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0", b"\xff\xfe", b"[]", b"7", b'"x"', b"{", b'{"session_id":', b'{"a":' * 100_000,
        b'{"session_id": "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}', b'{"session_id": "\\ud800aaaaaaaaaaaa"}',
    ],
)  # fmt: skip
def test_what_is_no_call_is_none(data: bytes) -> None:
    assert parse_call(data) is None


def test_a_call_of_any_length_is_none() -> None:
    assert parse_call(json.dumps({"session_id": ID, "last": "x" * MAX_CALL_SIZE}).encode()) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    parse_call(data)
