"""What says it is JSON is JSON, for every route."""

import asyncio
from typing import Any

import pytest

from open_token.server.http.middleware import StrictJson


def passed(
    body: bytes, kind: bytes = b"application/json", pieces: int = 1, is_cut: bool = False
) -> tuple[int, bytes]:
    """The status of the answer, and what came through."""
    size = -(-len(body) // pieces) or 1
    ahead = [
        {
            "type": "http.request",
            "body": body[at : at + size],
            "more_body": at + size < len(body) or is_cut,
        }
        for at in range(0, len(body), size)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]
    if is_cut:
        ahead.append({"type": "http.disconnect"})
    came: list[bytes] = []
    result: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            came.append(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return ahead.pop(0)

    async def send(message: dict[str, Any]) -> None:
        result.append(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind)]}
    asyncio.run(StrictJson(app)(scope, receive, send))
    return result[0]["status"], b"".join(came)


@pytest.mark.parametrize(
    "body", [b'{"a":[1,2.5,null,"\xc3\xbc"]}', b"", b"5", b'{"n":1' + b"0" * 50 + b"}"]
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_json_comes_through_as_it_was(body: bytes, pieces: int) -> None:
    assert passed(body, pieces=pieces) == (200, body)


@pytest.mark.parametrize(
    "body", [b"{", b"[NaN]", b"[Infinity]", b'["\\ud800"]', b"\xff", b"[" * 90_000, b"nil", b"1 2"]
)
def test_anything_else_does_not(body: bytes) -> None:
    assert passed(body) == (422, b"")
    assert passed(body, b"application/vnd.api+json; charset=utf-8") == (422, b"")


def test_other_bodies_are_not_looked_at() -> None:
    assert passed(b"{", b"text/plain") == (200, b"{")


def test_a_client_that_leaves_is_reported_on() -> None:
    assert passed(b'{"a":', is_cut=True) == (200, b"")
