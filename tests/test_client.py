"""The Python client with a server in a process of its own."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.live_server import run_server
from open_token.client import Client, ServerError


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with run_server(tmp_path / "data") as (_, told):
        yield Client(told["address"], told["key"])


def find_free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def drop_times(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without fields that only events have."""
    return [{name: turn[name] for name in ("id", "role", "status", "blocks")} for turn in turns]


def test_a_message_is_sent_and_its_turns_are_folded(client: Client) -> None:
    session = client.create_session(intent="A first chat")
    outcome = session.send("list files")
    assert outcome["status"] == "completed"
    items = list(session.stream("think"))
    assert items[0]["type"] == "chat:start"
    assert items[-1]["type"] == "chat:end"
    stored = client.request("GET", f"{session.path}/messages")
    folded = session.fold.branch()
    # The fold has what it was sent: the turns of the second message.
    assert drop_times(folded) == drop_times(stored[-len(folded) :])
    assert session.fold.session["status"] == "completed"


def test_the_whole_session_is_followed_from_the_beginning(client: Client) -> None:
    session = client.create_session()
    session.send("subagent card")
    session.send("hello")
    following = session.follow()
    ends = 0
    for item in following:
        ends += item["type"] == "chat:end"
        if ends == 2:
            break
    following.close()  # type: ignore[attr-defined]
    stored = client.request("GET", f"{session.path}/messages")
    assert drop_times(session.fold.branch()) == drop_times(stored)


def test_a_question_is_answered(client: Client) -> None:
    session = client.create_session()
    (question,) = session.send("ask")["questions"]
    outcome = session.answer(question["tool_call_id"], selections={"0": [1]})
    assert "Right" in outcome["text"]
    assert session.stop() == {"status": "ok", "stopped": False}


def test_errors_name_their_code(client: Client) -> None:
    with pytest.raises(ServerError) as refused:
        client.session("sess_none").send("hello")
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    with pytest.raises(ServerError, match="unknown field"):
        client.create_session(colour="red")
    with pytest.raises(ValueError, match="http://"):
        Client("localhost:8020", "k")


def test_a_stream_goes_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    port = find_free_port()
    seen = []
    with run_server(tmp_path, port, "0.003") as (_, told):
        client = Client(told["address"], told["key"])
        session = client.create_session()
        stream = session.stream("long")
        for item in stream:
            seen.append(item["stream_sequence"])
            if len(seen) == 8:
                break
    with run_server(tmp_path, port):
        seen += [item["stream_sequence"] for item in stream]
        assert session.fold.ended is not None
        assert session.fold.ended["status"] == "completed"
        stored = client.request("GET", f"{session.path}/messages")
        assert drop_times(session.fold.branch()) == drop_times(stored)
    assert seen == sorted(set(seen))
