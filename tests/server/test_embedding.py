"""The web application on the address of the session server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from library.index.sessions import SessionFile
from open_token.server.config import ServerConfig
from open_token.server.embedding import is_loopback
from open_token.server.listener import RunningServer, run_server
from open_token.web.app import build_app
from open_token.web.workspace import Workspace

Check = Callable[[RunningServer, httpx2.AsyncClient, list[str]], Awaitable[None]]


def run(tmp_path: Path, check: Check, host: str = "127.0.0.1") -> None:
    """Run a server with the application, and a check with a browser's client."""
    session = SessionFile(tmp_path, "11111111-aaaa-4aaa-8aaa-111111111111")
    session.ask("Why does the table of tides fail?")
    env = {"HOME": str(tmp_path), "OPEN_TOKEN_HOME": str(tmp_path / "open-token")}
    application = build_app(Workspace(env, tmp_path, tmp_path, ("false",)))
    links: list[str] = []

    async def run_check() -> None:
        config = ServerConfig(data=tmp_path / "data", host=host, port=0)
        running = run_server(config, env, application=application, on_link=links.append)
        async with running as server:
            if server.embedded is not None:
                server.embedded.show_link()
            async with httpx2.AsyncClient(base_url=server.address) as client:
                await check(server, client, links)

    asyncio.run(asyncio.wait_for(run_check(), 60))


def test_a_browser_with_the_link_gets_application_and_server(tmp_path: Path) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        entered = await client.get(links[0])
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        shell = await client.get("/")
        assert shell.status_code == 200
        assert 'data-screen="run"' in shell.text
        # A link works once, and the next one is shown.
        assert len(links) == 2
        client.cookies.clear()
        assert (await client.get(links[0])).status_code == 403
        await client.get(links[1])
        me = await client.get("/api/auth/me")
        assert me.json()["role"] == "owner"
        created = await client.post("/api/sessions", json={})
        assert created.status_code in (200, 201)

    run(tmp_path, check)


def test_without_the_cookie_there_is_no_application(tmp_path: Path) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        for path in ("/", "/sessions", "/web/sessions", "/run"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert "sessions" not in answer.json()
        assert (await client.get("/api/auth/me")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        key = {"authorization": f"Bearer {server.first_key}"}
        assert (await client.get("/api/auth/me", headers=key)).status_code == 200
        # A key of the server is no cookie of the application.
        assert (await client.get("/web/sessions", headers=key)).status_code == 401

    run(tmp_path, check)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.test"},
        {"origin": "http://evil.test"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_websites_get_nothing_with_the_cookie(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        await client.get(links[0])
        for path in ("/", "/web/sessions", "/api/auth/me", "/api/sessions"):
            assert (await client.get(path, headers=headers)).status_code == 403
        made = await client.post("/api/sessions", json={}, headers=headers)
        assert made.status_code == 403

    run(tmp_path, check)


def test_the_cookie_of_another_process_is_none(tmp_path: Path) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        port = server.address.rpartition(":")[2]
        headers = {"cookie": f"open_token_{port}=guessed"}
        assert (await client.get("/", headers=headers)).status_code == 401
        assert (await client.get("/api/auth/me", headers=headers)).status_code == 401

    run(tmp_path, check)


def test_an_address_that_others_can_reach_has_no_application(tmp_path: Path) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        assert server.embedded is None
        assert links == []
        port = server.address.rpartition(":")[2]
        assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 404

    run(tmp_path, check, host="0.0.0.0")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.53", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("::", False),
        ("agents.example", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_open_streams_do_not_hold_up_the_end(tmp_path: Path) -> None:
    async def check(server: RunningServer, client: httpx2.AsyncClient, links: list[str]) -> None:
        await client.get(links[0])
        stream = client.stream("GET", "/web/changes")
        answer = await stream.__aenter__()
        assert answer.status_code == 200
        assert server.embedded is not None
        server.embedded.stop_streams()
        async for _ in answer.aiter_bytes():
            pass
        await stream.__aexit__(None, None, None)

    run(tmp_path, check)
