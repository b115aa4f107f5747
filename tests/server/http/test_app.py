"""The application as a whole: every route, CORS closed unless opened, limits in place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.config import Limits

PAGE = "https://chat.example"
ASKS = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization",
}


def test_pages_of_other_origins_may_not_call(rest: RestServer) -> None:
    answer = rest.call("OPTIONS", "/api/sessions", key=None, headers=ASKS)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers
    assert (
        "access-control-allow-origin"
        not in rest.call("GET", "/api/version", headers={"Origin": PAGE}).headers
    )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[RestServer]:
    server = RestServer(
        tmp_path / "opened", cors=(PAGE,), limits=Limits(requests_per_minute=20, body_bytes=1000)
    )
    yield server
    server.close()


def test_pages_that_are_named_may(opened: RestServer) -> None:
    answer = opened.call("OPTIONS", "/api/sessions", key=None, headers=ASKS)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    other = opened.call("GET", "/api/version", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-credentials" not in answer.headers


def test_limits_are_in_place(opened: RestServer) -> None:
    assert opened.refused("POST", "/api/sessions", {"intent": "x" * 2000}) == 413
    statuses = [opened.call("GET", "/api/version", key=None).status_code for _ in range(25)]
    assert statuses[-1] == 429
    assert int(opened.call("GET", "/api/version", key=None).headers["retry-after"]) >= 1


def test_there_are_no_pages_of_documentation_from_elsewhere(rest: RestServer) -> None:
    assert rest.refused("GET", "/docs") == 404
    assert rest.refused("GET", "/redoc") == 404
