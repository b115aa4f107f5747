"""AG-UI: runs as events whose types and order its official packages accept."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.rest_server import RestServer


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A server whose demo model does not wait."""
    server = RestServer(tmp_path / "data", env={"OPEN_TOKEN_DEMO_DELAY": "0"})
    yield server
    server.close()


def run_agent(
    rest: RestServer, text: str, run_id: str = "r1", thread_id: str = "t1", **more: Any
) -> list[dict[str, Any]]:
    message = {"id": "m1", "role": "user", "content": text}
    given = {
        "threadId": thread_id,
        "runId": run_id,
        "messages": [message],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **more,
    }
    answer = rest.call("POST", "/api/ag-ui", given)
    assert answer.status_code == 200, answer.text
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of events, each once where it repeats."""
    found: list[str] = []
    for event in events:
        if found[-1:] != [event["type"]]:
            found.append(event["type"])
    return found


@pytest.mark.spec("ag-ui-route")
def test_the_events_of_a_run_are_in_order(rest: RestServer) -> None:
    assert kinds(run_agent(rest, "think")) == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    events = run_agent(rest, "list files", "r2")
    arguments = [event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS"]
    assert json.loads("".join(arguments)) == {"pattern": "**/*"}
    order = [kind for kind in kinds(events) if kind.startswith("TOOL")]
    assert order == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert kinds(run_agent(rest, "fail", "r3"))[-1] == "RUN_ERROR"


def test_a_thread_is_one_session_and_a_run_one_message(rest: RestServer) -> None:
    first = run_agent(rest, "hello")
    assert run_agent(rest, "hello") == first
    run_agent(rest, "think", "r2")
    run_agent(rest, "think", "r1", "t2")
    (_, session) = rest.get("/api/sessions")["items"]
    turns = rest.get(f"/api/sessions/{session['id']}/messages")
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2
    run_agent(rest, "hello", "r3", session["id"])
    assert len(rest.get(f"/api/sessions/{session['id']}/messages")) == 6


def test_tools_of_the_client(rest: RestServer) -> None:
    tool = {"name": "Glob", "description": "x", "parameters": {"type": "object"}}
    events = run_agent(rest, "list files", tools=[tool])
    call_id = next(event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START")
    assert "TOOL_CALL_RESULT" not in kinds(events)
    history = [
        {"id": "m1", "role": "user", "content": "list files"},
        {"id": "m2", "role": "assistant", "content": ""},
        {"id": "m3", "role": "tool", "toolCallId": call_id, "content": "mine.txt"},
    ]
    events = run_agent(rest, "", "r2", messages=history, tools=[tool])
    text = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert "mine.txt" in "".join(text)


def test_images_and_documents_are_attached(rest: RestServer) -> None:
    def build_part(kind: str, media_type: str, data: bytes) -> dict[str, Any]:
        value = base64.b64encode(data).decode()
        source = {"type": "data", "value": value, "mimeType": media_type}
        return {"type": kind, "source": source}

    content = [
        {"type": "text", "text": "hello"},
        build_part("image", "image/png", b"\x89PNG\r\n\x1a\n"),
        build_part("document", "text/csv", b"a,b"),
    ]
    given = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": content}]}
    answer = rest.call("POST", "/api/ag-ui", given).text
    assert "image/png" in answer
    assert "text/csv" in answer


@pytest.mark.parametrize(
    "given",
    [
        {},
        [],
        {"threadId": "t", "runId": "r", "messages": []},
        {"threadId": "", "runId": "r", "messages": [{"role": "user", "content": "x"}]},
        {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": [{"a": 1}]}]},
    ],
)
def test_what_is_no_input_is_refused(rest: RestServer, given: Any) -> None:
    assert rest.refused("POST", "/api/ag-ui", given) == 422


@pytest.mark.full
@pytest.mark.parametrize("text", ["think list files", "subagent", "card bridge", "fail", "ask"])
def test_the_official_types_accept_every_event(rest: RestServer, text: str) -> None:
    core = pytest.importorskip("ag_ui.core")
    from pydantic import TypeAdapter

    adapter = TypeAdapter(core.Event)
    for event in run_agent(rest, text):
        adapter.validate_python(event)
