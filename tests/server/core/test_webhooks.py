"""Webhooks: signed, sent again until they are accepted, and never lost between run and request."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.core import webhooks

NO_DELAY = {"OPEN_TOKEN_DEMO_DELAY": "0"}


class Receiver:
    """A backend that takes requests, and refuses the first ones."""

    def __init__(self, refuse: int = 0) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self._refuse = refuse
        self._arrived = asyncio.Event()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/hooks?x=1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        status = "503 Busy" if len(self.requests) <= self._refuse else "204 No Content"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()
        self._arrived.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def close(self) -> None:
        self._server.close()

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]


def is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As the specification Standard Webhooks says."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{expected}"


def played(
    folder: Path, play: Callable[[RestServer, Receiver, str], Awaitable[None]], refuse: int = 0
) -> None:
    server = RestServer(folder, env=NO_DELAY)
    receiver = Receiver(refuse)

    async def whole() -> None:
        url = await receiver.start()
        try:
            await asyncio.wait_for(play(server, receiver, url), 50)
        finally:
            receiver.close()

    try:
        server.run(whole())
    finally:
        server.close()


async def call(server: RestServer, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {server.key}"}
    given = {} if body is None else {"json": body}
    answer = await server.client.request(method, path, headers=headers, **given)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def say(server: RestServer, text: str) -> Any:
    session_id = (await call(server, "POST", "/api/sessions", {}))["session_id"]
    return await call(server, "POST", f"/api/sessions/{session_id}/messages", {"message": text})


@pytest.mark.spec("webhook-routes")
def test_each_kind_of_end_is_sent_and_signed(tmp_path: Path) -> None:
    async def play(server: RestServer, receiver: Receiver, url: str) -> None:
        hook = await call(server, "POST", "/api/webhooks", {"url": url})
        outcomes = [await say(server, text) for text in ("hello", "ask", "fail")]
        await receiver.until(3)
        result = {body["data"]["session_id"]: body for body in receiver.bodies()}
        kinds = [result[outcome["session_id"]]["type"] for outcome in outcomes]
        assert kinds == ["turn.end", "question", "failure"]
        for outcome in outcomes:
            data = result[outcome["session_id"]]["data"]
            for name in ("chat_run_id", "status", "result", "turn_id", "questions"):
                assert data[name] == outcome[name]
        assert all(is_signed(hook["secret"], *request) for request in receiver.requests)
        assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 3
        (listed,) = await call(server, "GET", "/api/webhooks")
        assert listed == {**hook, "secret": ""}

    played(tmp_path, play)


def test_only_subscribed_events_are_sent(tmp_path: Path) -> None:
    async def play(server: RestServer, receiver: Receiver, url: str) -> None:
        hook = await call(server, "POST", "/api/webhooks", {"url": url, "events": ["failure"]})
        for text in ("hello", "ask", "fail"):
            await say(server, text)
        await receiver.until(1)
        assert [body["type"] for body in receiver.bodies()] == ["failure"]
        await call(server, "DELETE", f"/api/webhooks/{hook['id']}")
        await say(server, "fail")
        await asyncio.sleep(0.2)
        assert len(receiver.requests) == 1
        assert await server.services.store.list_settings("webhook-queue/") == {}

    played(tmp_path, play)


@pytest.mark.spec("webhook-routes")
def test_a_refused_delivery_is_sent_again_with_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_RETRY_SECONDS", (0.05, 0.05, 0.05))
    monkeypatch.setattr(webhooks, "_POLL_SECONDS", 0.02)

    async def play(server: RestServer, receiver: Receiver, url: str) -> None:
        await call(server, "POST", "/api/webhooks", {"url": url})
        await say(server, "hello")
        await receiver.until(3)
        assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
        while await server.services.store.list_settings("webhook-queue/"):
            await asyncio.sleep(0.02)
        assert len(receiver.requests) == 3

    played(tmp_path, play, refuse=2)


def test_a_delivery_survives_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stored with the end of the run; the next start sends it."""

    async def end_without_sending(server: RestServer, receiver: Receiver, url: str) -> None:
        await server.services.webhooks.close()
        await call(server, "POST", "/api/webhooks", {"url": "http://127.0.0.1:9/"})
        await say(server, "hello")
        assert len(await server.services.store.list_settings("webhook-queue/")) == 1

    played(tmp_path, end_without_sending)
    monkeypatch.setattr(webhooks, "_POLL_SECONDS", 0.02)
    server = RestServer(tmp_path, env=NO_DELAY)
    sent = []

    async def note(url: str, body: bytes, headers: dict[str, str], **_: Any) -> bool:
        sent.append(json.loads(body)["type"])
        return True

    monkeypatch.setattr(webhooks, "_post", note)

    async def wait() -> None:
        while not sent:
            await asyncio.sleep(0.02)

    try:
        server.run(asyncio.wait_for(wait(), 20))
        assert sent == ["turn.end"]
    finally:
        server.close()


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "http://198.51.100.1/",
        "ftp://x/",
    ],
)
def test_users_do_not_reach_into_the_network(rest: RestServer, url: str) -> None:
    assert rest.refused("POST", "/api/webhooks", {"url": url}, key=rest.person()) == 422
