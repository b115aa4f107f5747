"""The session server inside the web application: every request that gets there is the owner's."""

import asyncio
from pathlib import Path

from helpers.web_client import Answer, call
from open_token.server.config import ServerConfig
from open_token.server.mounting import run_mounted


def ask(data: Path, path: str, **headers: str) -> Answer:
    async def run() -> Answer:
        async with run_mounted(ServerConfig(data=data), {}) as app:
            return await call(app, path, "GET", b"", {"host": "127.0.0.1:8021", **headers})

    return asyncio.run(run())


def test_requests_are_those_of_the_owner(tmp_path: Path) -> None:
    answer = ask(tmp_path, "/api/user/api-keys")
    assert answer.status == 200
    assert [key["name"] for key in answer.json] == ["web application"]


def test_a_key_of_the_request_does_not_count(tmp_path: Path) -> None:
    assert ask(tmp_path, "/api/sessions", authorization="Bearer sk-ot-v1-wrong").status == 200


def test_its_key_ends_with_it(tmp_path: Path) -> None:
    for _ in range(2):
        keys = ask(tmp_path, "/api/user/api-keys").json
        assert len(keys) == 1
