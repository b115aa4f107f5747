"""The turns of a session without the framework: the same answers, refusals and figures as through a
route."""

from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.server.core import sessions


def words(rest: RestServer, name: str, **more: Any) -> list[str]:
    turns = rest.get(f"/api/sessions/{name}/messages", **more)
    return [turn["blocks"][0]["content"] for turn in turns]


def test_what_was_just_written_is_there_at_once(rest: RestServer) -> None:
    name, other = rest.session(), rest.session()
    said: list[str] = []
    for number in range(5):
        assert words(rest, name) == said
        rest.say(name, f"word {number}")
        said.append(f"word {number}")
        assert words(rest, name) == said
    rest.say(other, "elsewhere")
    assert words(rest, name) == said
    assert words(rest, other) == ["elsewhere"]


def test_fast_path_needs_the_owner_and_a_valid_key(rest: RestServer) -> None:
    name, now = rest.session(), rest.services.clock.now()
    path, store = f"/api/sessions/{name}/messages", rest.services.store
    rest.say(name, "mine")
    key, reading = rest.run(store.add_key(rest.owner, "reader", "read", now))
    assert words(rest, name) == words(rest, name, key=reading) == ["mine"]
    assert rest.refused("GET", path, key=rest.person()) == 404
    assert rest.refused("GET", path, key=None) == 401
    rest.run(store.revoke_key(rest.owner, key.id, now))
    assert rest.refused("GET", path, key=reading) == 401
    assert words(rest, name) == ["mine"]
    rest.delete(f"/api/sessions/{name}")
    assert rest.refused("GET", path) == 404


def test_whoever_is_locked_out_reads_nothing_more(rest: RestServer) -> None:
    key = rest.person()
    name = rest.post("/api/sessions", {"intent": "Theirs"}, key=key)["session_id"]
    assert words(rest, name, key=key) == []
    rest.run(rest.services.store.disable_user("user_ben", rest.services.clock.now()))
    assert rest.refused("GET", f"/api/sessions/{name}/messages", key=key) == 401


def test_fast_path_has_the_metrics_and_headers_of_a_route(rest: RestServer) -> None:
    name = rest.session()
    answer = rest.call("GET", f"/api/sessions/{name}/messages")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert rest.call("HEAD", f"/api/sessions/{name}/messages").status_code == 200
    label = 'method="GET",route="/api/sessions/{session_id}/messages",status="200"'
    assert f"open_token_requests_total{{{label}}} 1" in rest.services.metrics.render()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/sessions//messages"),
        ("GET", "/api/sessions/a/b/messages"),
        ("POST", "/api/sessions/a/messages"),
    ],
)
def test_what_is_about_something_else_is_let_through(
    rest: RestServer, method: str, path: str
) -> None:
    assert rest.refused(method, path) in (404, 405)


@pytest.mark.parametrize(
    ("problem", "status"),
    [(StoreError("the disk is full", code="store.full"), 503), (LogError("no such turn"), 409)],
)
def test_what_goes_wrong_is_reported_in_our_form(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch, problem: Exception, status: int
) -> None:
    async def broken(*_: object) -> bytes:
        raise problem

    monkeypatch.setattr(sessions, "list_messages", broken)
    assert rest.refused("GET", "/api/sessions/sess_1/messages") == status


def test_under_another_root_the_route_answers(rest: RestServer) -> None:
    name = rest.session()
    rest.say(name, "mine")
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "root_path": "/below",
        "path": f"/below/api/sessions/{name}/messages",
    }
    headers = [(b"authorization", f"Bearer {rest.key}".encode())]
    rest.run(rest.app({**scope, "headers": headers, "query_string": b""}, receive, send))
    assert sent[0]["status"] == 200
    assert sent[1]["body"] == rest.call("GET", f"/api/sessions/{name}/messages").content
