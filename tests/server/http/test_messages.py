"""Messages over plain HTTP: an answer when the run ends, or its events, once for each message."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.errors import ApiError

NO_DELAY = {"OPEN_TOKEN_DEMO_DELAY": "0"}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A server whose demo model does not wait."""
    server = RestServer(tmp_path / "data", env=NO_DELAY)
    yield server
    server.close()


def messages_path(session_id: str, query: str = "") -> str:
    return f"/api/sessions/{session_id}/messages{query}"


def read_items(text: str) -> list[dict[str, Any]]:
    """The items of an event stream; the id of each is its stream sequence."""
    items = []
    for event in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
        if "data" in fields:
            item = json.loads(fields["data"])
            assert fields.get("id") == str(item["stream_sequence"])
            items.append(item)
    return items


@pytest.mark.spec("message-route")
def test_the_answer_is_the_end_of_the_run(rest: RestServer) -> None:
    session_id = rest.session()
    outcome = rest.post(messages_path(session_id), {"message": "list files"})
    assert (outcome["status"], outcome["session_status"]) == ("completed", "completed")
    assert outcome["text"]
    assert outcome["result"]["result"] == outcome["text"]
    stored = rest.get(messages_path(session_id))
    assert [turn["turn_id"] for turn in outcome["turns"]] == [turn["turn_id"] for turn in stored]
    assert outcome["turns"][0]["role"] == "user"
    assert outcome["turns"][1]["tool_calls"][0]["status"] == "done"
    assert outcome["usage"]["output_tokens"] > 0


@pytest.mark.spec("message-route")
def test_a_message_sent_twice_is_one_message(rest: RestServer) -> None:
    session_id = rest.session()
    given = {"message": "hello", "client_message_id": "order-1"}
    first = rest.post(messages_path(session_id), given)
    rest.post(messages_path(session_id), {"message": "think"})
    second = rest.post(messages_path(session_id), given)
    assert second == first
    assert len(rest.get(messages_path(session_id))) == 4


def test_a_question_is_part_of_the_answer_and_can_be_answered(rest: RestServer) -> None:
    session_id = rest.session()
    outcome = rest.post(messages_path(session_id), {"message": "ask"})
    assert outcome["session_status"] == "waiting_for_input"
    (question,) = outcome["questions"]
    answer = {"tool_call_id": question["tool_call_id"], "selections": {"0": [1]}}
    outcome = rest.post(messages_path(session_id), {"askuser_answer": answer})
    assert (outcome["session_status"], outcome["questions"]) == ("completed", [])
    assert "Right" in outcome["text"]


def test_a_failed_run_says_why(rest: RestServer) -> None:
    outcome = rest.post(messages_path(rest.session()), {"message": "fail"})
    assert outcome["status"] == "failed"
    assert outcome["result"]["err_msg"]


def test_structured_output(rest: RestServer) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    given = {"message": "json", "output_schema": schema, "headless": True}
    outcome = rest.post(messages_path(rest.session()), given)
    assert isinstance(outcome["result"]["name"], str)


def test_the_stream_has_the_events_of_the_run_and_ends_with_it(rest: RestServer) -> None:
    session_id = rest.session()
    rest.post(messages_path(session_id), {"message": "hello"})
    answer = rest.call("POST", messages_path(session_id, "?stream=true"), {"message": "think"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    items = read_items(answer.text)
    assert items[0]["type"] == "chat:start"
    assert items[-1]["type"] == "chat:end"
    run_id = items[0]["payload"]["chat_run_id"]
    assert items[-1]["payload"]["chat_run_id"] == run_id
    assert [item["type"] for item in items].count("chat:end") == 1


@pytest.mark.spec("message-route")
@pytest.mark.parametrize("place", [0, 3, -2, -1])
def test_a_stream_resumes_after_the_last_event(rest: RestServer, place: int) -> None:
    session_id = rest.session()
    given = {"message": "list files", "client_message_id": "order-1"}
    path = messages_path(session_id, "?stream=true")
    items = read_items(rest.call("POST", path, given).text)
    seen = items[place]["stream_sequence"]
    resumed = rest.call("POST", path, given, headers={"Last-Event-ID": str(seen)})
    expected = [item for item in items if item["stream_sequence"] > seen]
    again = read_items(resumed.text)
    for item in [*again, *expected]:
        item["payload"].pop("updated_at", None)  # a session is sent as it is now
    assert again == expected
    assert len(rest.get(messages_path(session_id))) == 3


def test_to_resume_the_message_must_be_named(rest: RestServer) -> None:
    path = messages_path(rest.session(), "?stream=true")
    given = {"message": "hello"}
    assert rest.refused("POST", path, given, headers={"Last-Event-ID": "3"}) == 422


def test_a_queued_message_is_answered_by_its_own_run(rest: RestServer) -> None:
    session_id = rest.session()
    path = messages_path(session_id)

    async def send_three() -> list[Any]:
        async def send(number: int, query: str) -> Any:
            await asyncio.sleep(number / 20)
            headers = {"Authorization": f"Bearer {rest.key}"}
            given = {"message": f"think {number}", "client_message_id": f"order-{number}"}
            return await rest.client.post(path + query, json=given, headers=headers)

        return await asyncio.gather(send(0, ""), send(1, ""), send(2, "?stream=true"))

    first, second, third = rest.run(send_three())
    assert first.json()["turns"][0]["blocks"][0]["content"] == "think 0"
    assert second.json()["turns"][0]["blocks"][0]["content"] == "think 1"
    items = read_items(third.text)
    assert items[0]["type"] == "chat:start"
    started = next(item for item in items if item["type"] == "turn:start")
    assert started["payload"]["blocks"][0]["content"] == "think 2"
    assert [item["type"] for item in items].count("chat:end") == 1


def test_without_waiting_the_message_is_only_accepted(rest: RestServer) -> None:
    session_id = rest.session()
    answer = rest.call("POST", messages_path(session_id, "?wait=false"), {"message": "hello"})
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted["status"] == "ok"
    assert accepted["chat_run_id"]
    given = {"message": "hello", "client_message_id": accepted["client_message_id"]}
    assert rest.post(messages_path(session_id), given)["chat_run_id"] == accepted["chat_run_id"]


def test_what_is_refused(rest: RestServer) -> None:
    session_id = rest.session()
    path = messages_path(session_id)
    assert rest.refused("POST", path, {"message": ""}) == 422
    assert rest.refused("POST", path, {"message": "x", "session_id": "sess_other"}) == 422
    assert rest.refused("POST", path, content=b"[1]") == 422
    assert rest.refused("POST", path, content=b"{") == 422
    assert rest.refused("POST", messages_path("sess_none"), {"message": "x"}) == 404
    assert rest.refused("POST", path, {"message": "x"}, key=rest.person()) == 404
    reader = rest.person("reader", scope="read")
    assert rest.refused("POST", path, {"message": "x"}, key=reader) == 403


def test_a_server_that_stops_ends_the_wait(rest: RestServer) -> None:
    session_id = rest.session()

    async def send_and_stop() -> Any:
        headers = {"Authorization": f"Bearer {rest.key}"}
        waiting = asyncio.ensure_future(
            rest.client.post(messages_path(session_id), json={"message": "x"}, headers=headers)
        )
        while not rest.services.connections.count():
            await asyncio.sleep(0)
        (connections,) = rest.services.connections._by_user.values()
        (connection,) = connections
        connection.disconnect(ApiError(503, "server shutting down", "stopping"))
        return await waiting

    answer = rest.run(send_and_stop())
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")


@pytest.mark.spec("stop-route")
def test_a_run_is_stopped(rest: RestServer) -> None:
    session_id = rest.session()
    assert rest.post(f"/api/sessions/{session_id}/stop") == {"status": "ok", "stopped": False}
    accepted = rest.post(messages_path(session_id, "?wait=false"), {"message": "long"})
    assert rest.post(f"/api/sessions/{session_id}/stop")["stopped"]
    again = {"message": "long", "client_message_id": accepted["client_message_id"]}
    assert rest.post(messages_path(session_id), again)["status"] == "interrupted"


@pytest.mark.spec("client-module")
def test_the_module_for_web_pages_is_served(rest: RestServer) -> None:
    answer = rest.call("GET", "/client.js", key=None)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/javascript")
    assert b"export class Client" in answer.content


@pytest.mark.parametrize("name", [[None], {"a": 1}, 5, True])
def test_the_id_of_a_message_is_a_string(rest: RestServer, name: object) -> None:
    session_id = rest.session()
    body = {"message": "hello", "client_message_id": name}
    assert rest.refused("POST", f"/api/sessions/{session_id}/messages", body) in (400, 422)
