"""Answers: JSON encoded once, errors always in one form."""

import pytest

from helpers.server.rest_server import RestServer
from open_token.model.session_types import Session
from open_token.server.http.responses import json_response


def test_values_types_and_bytes() -> None:
    assert json_response({"a": [1, None]}).body == b'{"a":[1,null]}'
    assert b'"id":"s"' in json_response(Session(id="s")).body
    assert json_response(b"[1]", 201).body == b"[1]"
    assert json_response(b"[1]", 201).status_code == 201


@pytest.mark.spec("rest-conventions")
def test_every_error_has_one_form(rest: RestServer) -> None:
    assert rest.refused("GET", "/nowhere") == 404
    assert "/openapi.json" in rest.call("GET", "/").json()["detail"]
    assert rest.refused("PUT", "/api/version") == 405
    assert rest.refused("GET", "/api/sessions?limit=x") == 422
    assert rest.refused("GET", "/api/sessions/none") == 404
    assert rest.refused("GET", "/api/sessions", key=None) == 401
    assert rest.call("GET", "/api/sessions", key=None).headers["www-authenticate"] == "Bearer"
    assert rest.call("PUT", "/api/version").headers["allow"] == "GET"


def test_a_body_that_is_called_a_form(rest: RestServer) -> None:
    form, path = (
        {"Content-Type": "application/x-www-form-urlencoded"},
        f"/api/sessions/{rest.session()}/replay",
    )
    answered = rest.call("POST", path, content=b'{"speed": 2}', headers=form)
    assert answered.status_code == 422
    assert "Content-Type: application/json" in answered.json()["detail"]
    assert "Content-Type" not in rest.call("POST", path, [2]).json()["detail"]


@pytest.mark.spec("rest-conventions")
def test_what_was_sent_is_not_in_an_error(rest: RestServer) -> None:
    for answered in (
        rest.call("GET", "/api/sessions?limit=mysecret"),
        rest.call("POST", "/api/memories", {"content": "x", "type": "mysecret"}),
        rest.call("POST", "/api/sessions", {"intent": ["mysecret"]}),
    ):
        assert answered.status_code == 422
        assert "mysecret" not in answered.text


def test_a_step_that_does_not_fit_the_log(rest: RestServer) -> None:
    from open_token.model.log_events import LogError

    async def breaks(*_: object) -> None:
        raise LogError("a turn that is over")

    name = rest.session()
    rest.services.chat.compact = breaks  # type: ignore[method-assign, assignment]
    assert rest.refused("POST", f"/api/sessions/{name}/compact") == 409
