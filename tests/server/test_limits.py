"""What one client may take up: bodies, requests a minute, requests at once."""

import asyncio
from typing import Any

import pytest

from open_token.server.config import Limits
from open_token.server.limits import RequestLimits, TokenBuckets, normalize_address


def test_a_bucket_fills_by_itself() -> None:
    now = [0.0]
    buckets = TokenBuckets(60, lambda: now[0])
    assert [buckets.take("ann") for _ in range(60)] == [0.0] * 60
    assert buckets.take("ann") == pytest.approx(1)
    assert buckets.take("ben") == 0
    now[0] = 2.0
    assert [buckets.take("ann") for _ in range(2)] == [0, 0]
    assert buckets.take("ann") > 0
    now[0] = 10_000.0
    assert sum(buckets.take("ann") == 0 for _ in range(100)) == 60


class Client:
    """Calls an app behind limits; the app reads the body and answers with a status of the
    test's."""

    def __init__(self, **limits: int) -> None:
        self.now = 0.0
        self.status = 200
        self.reached = 0
        self.app = RequestLimits(self._app, Limits(**limits), lambda: self.now)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached += 1
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            pass
        status = self.status if message["type"] == "http.request" else 400
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def acall(
        self,
        pieces: tuple[bytes, ...] = (b"",),
        key: str = "",
        kind: str = "",
        length: int | None = None,
        address: str = "1",
        path: str = "/api/sessions",
    ) -> tuple[int, dict[bytes, bytes]]:
        headers = [(b"content-type", kind.encode())]
        headers += [(b"authorization", word.encode()) for word in key.split(",") if word]
        headers += [(b"content-length", str(length).encode())] if length is not None else []
        ahead = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        ahead[-1]["more_body"] = False
        result: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return ahead.pop(0)

        async def send(message: dict[str, Any]) -> None:
            result.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": headers,
            "client": (address, 1),
        }
        await self.app(scope, receive, send)
        assert [message["type"] for message in result] == [
            "http.response.start",
            "http.response.body",
        ]
        return result[0]["status"], dict(result[0]["headers"])

    def call(self, *args: Any, **more: Any) -> int:
        return asyncio.run(self.acall(*args, **more))[0]


def test_long_bodies_are_refused_by_what_they_say_and_by_what_they_are() -> None:
    client = Client(body_bytes=10, upload_bytes=20)
    assert client.call((b"x" * 10,), length=10) == 200
    assert client.call((b"",), length=11) == 413
    assert client.reached == 1
    assert client.call((b"x" * 6, b"x" * 6)) == 413


@pytest.mark.parametrize(
    "path", ["import", "preview-import", "sess_1/upload", "sess_1/upload/", "sess_1/upload/a/b"]
)
def test_uploads_may_be_longer(path: str) -> None:
    client = Client(body_bytes=10, upload_bytes=20)
    form = {"kind": "multipart/form-data; boundary=x", "path": f"/api/sessions/{path}"}
    assert client.call((b"x" * 6, b"x" * 6), **form) == 200
    assert client.call((b"x" * 12, b"x" * 12), **form) == 413
    assert client.call((b"x" * 6, b"x" * 6), path=form["path"]) == 413


@pytest.mark.parametrize(
    "path", ["", "/sess_1", "/sess_1/files/upload/x", "/sess_1/skills:upload", "/x/y/upload"]
)
def test_a_body_is_no_upload_because_it_says_so(path: str) -> None:
    client = Client(body_bytes=10, upload_bytes=20)
    form = {"kind": "multipart/form-data; boundary=x", "path": f"/api/sessions{path}"}
    assert client.call((b"x" * 6, b"x" * 6), **form) == 413
    assert client.call(length=11, **form) == 413


def test_so_many_bytes_of_bodies_at_once() -> None:
    client = Client(body_bytes=60, bodies_bytes=100)
    gate, read = asyncio.Event(), client._app

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        async def slowly() -> Any:
            message = await receive()
            await gate.wait()
            return message

        await read(scope, slowly, send)

    client.app._app = waits

    async def several() -> list[int]:
        first = asyncio.ensure_future(client.acall((b"x" * 60,), length=60))
        second = asyncio.ensure_future(client.acall((b"x" * 30,)))
        await asyncio.sleep(0)
        result = client.acall((b"x" * 20,), length=20)
        unsent = client.acall((b"x" * 15,))
        other = asyncio.ensure_future(client.acall((b"x" * 60,), length=60, address="2"))
        status, headers = await result
        assert (headers[b"connection"], headers[b"retry-after"]) == (b"close", b"6")
        asyncio.get_running_loop().call_soon(gate.set)
        found = [status, (await unsent)[0], (await first)[0], (await second)[0], (await other)[0]]
        return [*found, (await client.acall((b"x" * 60,), length=60))[0]]

    assert asyncio.run(several()) == [429, 429, 200, 200, 200, 200]
    assert not client.app._body_bytes


def test_so_many_a_minute_and_when_to_go_on() -> None:
    client = Client(requests_per_minute=2)
    assert [client.call() for _ in range(3)] == [200, 200, 429]
    status, headers = asyncio.run(client.acall())
    assert status == 429
    assert int(headers[b"retry-after"]) in (30, 31)
    assert client.call(address="2") == 200
    client.now = 30
    assert client.call() == 200


def test_a_good_key_has_limits_of_its_own() -> None:
    client = Client(requests_per_minute=2)
    assert client.call(key="good") == 200
    assert [client.call() for _ in range(2)] == [200, 429]
    assert [client.call(key="good") for _ in range(3)] == [200, 200, 429]


def test_a_second_key_beside_a_good_one_has_no_limits_of_its_own() -> None:
    client = Client(requests_per_minute=2)
    assert client.call(key="good") == 200
    assert [client.call(key=f"good,other {number}") for number in range(4)] == [200, 200, 429, 429]


def test_who_tries_keys_shares_the_limit_of_the_address() -> None:
    client = Client(requests_per_minute=3)
    client.status = 401
    assert [client.call(key=f"guess {number}") for number in range(5)] == [401, 401, 401, 429, 429]


def test_a_key_that_ended_is_not_known_any_more() -> None:
    client = Client(requests_per_minute=2)
    assert client.call(key="was good") == 200
    client.status = 401
    assert [client.call(key="was good") for _ in range(3)] == [401, 401, 429]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_an_address_is_counted_with_those_that_come_with_it(host: str, name: str) -> None:
    assert normalize_address(host) == name


def test_a_network_of_one_client_is_one_client() -> None:
    client = Client(requests_per_minute=2)
    there = [client.call(address=f"2001:db8::{number}") for number in range(1, 4)]
    assert [*there, client.call(address="2001:db8:0:1::1")] == [200, 200, 429, 200]


def test_so_many_at_once() -> None:
    client = Client(connections_per_user=2)
    gate = asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    client.app._app = waits

    async def three() -> list[int]:
        first = [asyncio.ensure_future(client.acall()) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await client.acall()
        gate.set()
        return [refused[0], *[(await call)[0] for call in first], (await client.acall())[0]]

    assert asyncio.run(three()) == [429, 200, 200, 200]
