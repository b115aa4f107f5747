"""Logins: keys of their own, codes that are good once and soon, and what nobody uses any more."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.clock import Clock
from open_token.server.core import logins
from open_token.server.errors import ApiError

PAGE = "https://chat.example"


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def rest(tmp_path: Path, time: Time) -> RestServer:
    return RestServer(tmp_path / "data", Clock(lambda: time.now), cors=(PAGE,))


def promised(rest: RestServer, state: str = "x7") -> str:
    caller = rest.run(rest.services.store.check_key(rest.key, rest.services.clock.now()))
    assert caller is not None
    return rest.run(logins.create_code(rest.services, caller, PAGE, state))


def refused(rest: RestServer, *given: str) -> str:
    with pytest.raises(ApiError) as caught:
        rest.run(logins.exchange_code(rest.services, *given))
    return caught.value.code


@pytest.mark.spec("sdk-authorization")
def test_a_code_is_good_once(rest: RestServer) -> None:
    code = promised(rest)
    user, key = rest.run(logins.exchange_code(rest.services, code, "x7", PAGE))
    assert (user.id, rest.get("/api/auth/me", key=key)["id"]) == (rest.owner, rest.owner)
    assert refused(rest, code, "x7", PAGE) == "bad_code"
    rest.close()


@pytest.mark.parametrize(
    ("change", "state", "origin"),
    [
        ("", "x8", PAGE),
        ("", "x7", "https://other.example"),
        ("x", "x7", PAGE),
        ("x" * 600, "x7", PAGE),
    ],
)
def test_a_wrong_guess_is_refused(rest: RestServer, change: str, state: str, origin: str) -> None:
    assert refused(rest, promised(rest) + change, state, origin) == "bad_code"
    assert (
        refused(rest, "user_none.1", "x7", PAGE) == refused(rest, "\0.\ud800", "", "") == "bad_code"
    )
    rest.close()


@pytest.mark.spec("sdk-authorization")
def test_a_code_is_good_for_a_minute(rest: RestServer, time: Time) -> None:
    code = promised(rest)
    time.now += timedelta(seconds=logins.CODE_SECONDS + 1)
    assert refused(rest, code, "x7", PAGE) == "bad_code"
    rest.close()


def test_a_newer_code_takes_the_place_of_an_older(rest: RestServer) -> None:
    older, newer = promised(rest), promised(rest)
    assert older != newer
    assert refused(rest, older, "x7", PAGE) == "bad_code"
    rest.close()


def test_logins_that_nobody_uses_end(rest: RestServer, time: Time) -> None:
    old = rest.post("/api/auth/login")["access_token"]
    named = rest.post("/api/user/api-keys/", {"name": "laptop"})["plaintext"]
    time.now += timedelta(days=31)
    new = rest.post("/api/auth/login")["access_token"]
    assert rest.refused("GET", "/api/auth/me", key=old) == 401
    assert rest.get("/api/auth/me", key=named) == rest.get("/api/auth/me", key=new)
    rest.close()
