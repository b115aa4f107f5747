"""Who is asking: keys that are good, wrong, ended, or may only read."""

from collections.abc import AsyncIterator

import pytest

from helpers.server.rest_server import RestServer
from open_token.errors import StoreError


@pytest.mark.spec("bearer-authorization")
@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic abc",
        "bearer nonsense",
        "Bearer \u00fc",
        "Bearer " + "x" * 9000,
    ],
)
def test_what_is_no_key_opens_nothing(rest: RestServer, header: str) -> None:
    answer = rest.call("GET", "/api/sessions", key=None, headers={"Authorization": header.encode()})
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"


def test_a_key_with_a_letter_changed_opens_nothing(rest: RestServer) -> None:
    for place in (10, 25, -1):
        other = "x" if rest.key[place] != "x" else "y"
        changed = rest.key[:place] + other + (rest.key[place + 1 :] if place != -1 else "")
        assert rest.refused("GET", "/api/sessions", key=changed) == 401


def test_a_long_body_without_a_key_is_not_read(rest: RestServer) -> None:
    read = []

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            read.append(1)
            yield b"x" * 10_000

    def sent(key: str | None, **headers: str) -> int:
        read.clear()
        return rest.call(
            "POST", "/api/sessions", key=key, content=pieces(), headers=headers
        ).status_code

    chunked = {"Transfer-Encoding": "chunked", "Content-Type": "multipart/form-data; boundary=x"}
    assert (sent(None, **chunked), len(read)) == (401, 0)
    assert (sent("wrong", **chunked), len(read)) == (401, 0)
    assert (sent(None, **{"Content-Length": "1000000"}), len(read)) == (401, 0)
    assert sent("", **chunked) == 422
    assert len(read) == 100


def test_a_key_that_cannot_be_looked_up_is_reported_as_such(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreError("the database cannot be reached", code="store.away")

    monkeypatch.setattr(rest.services.store, "check_key", away)
    for size in (10, 100_000):
        answer = rest.call("POST", "/api/sessions", {"intent": "x" * size})
        assert (answer.status_code, answer.json()["code"]) == (503, "store.away")


def test_whoever_is_locked_out_has_no_keys(rest: RestServer) -> None:
    key = rest.person()
    assert rest.get("/api/sessions", key=key)["total"] == 0
    rest.run(rest.services.store.disable_user("user_ben", rest.services.clock.now()))
    assert rest.refused("GET", "/api/sessions", key=key) == 401
    rest.run(rest.services.store.disable_user("user_ben", None))
    assert rest.get("/api/sessions", key=key)["total"] == 0
