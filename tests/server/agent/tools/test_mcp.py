"""MCP servers: their tools, their faults, and that users do not share them."""

import asyncio
import dataclasses
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from helpers.server.mcp_test_server import answer
from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.errors import UsageError
from open_token.server.agent.tools import mcp
from open_token.server.agent.tools.interface import Tool, ToolError
from open_token.server.agent.tools.mcp import McpServers

SMALL = Path(__file__).resolve().parents[3] / "helpers" / "server" / "mcp_test_server.py"
SETTINGS = {"command": sys.executable, "args": [str(SMALL)], "env": {"TOKEN": "${GIVEN}"}}


async def tools_of(shop: ToolServer) -> dict[str, Tool]:
    return await shop.services.toolbox.mcp.tools(shop.owner)


def using(folder: Path, do: Any, **config: Any) -> Any:
    return run_with_tools(
        folder,
        do,
        mcp={"small": SETTINGS},
        env={"GIVEN": "a word", "PROVIDER_KEY": "hush"},
        **config,
    )


def test_tools_are_offered_and_called(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def do(shop: ToolServer) -> None:
        servers = shop.services.toolbox.mcp
        assert await servers.tools(shop.owner, starts=False) == {}
        assert servers._open == {}
        tools = await tools_of(shop)
        assert (await servers.tools(shop.owner, starts=False)).keys() == tools.keys()
        add = tools["mcp__small__add"]
        assert (add.spec.display_name, add.spec.description) == ("Add numbers", "Adds two numbers.")
        assert add.spec.parameters["properties"]["a"] == {"type": "number"}
        assert await add.run({"a": 1, "b": 2}, shop.place()) == {
            "content": "3",
            "structured": {"sum": 3},
        }
        assert await tools["mcp__small__card"].run({}, shop.place()) == {
            "content": "shown",
            "_meta": {"ui": {"resourceHTML": "<b>x</b>"}},
        }
        (picture,) = (await tools["mcp__small__picture"].run({}, shop.place()))["content"]
        assert picture == {
            "type": "image",
            "media_type": "image/png",
            "encoding": "base64",
            "base64": "AAAA",
        }
        (odd,) = [name for name in tools if "odd" in name]
        assert odd.startswith("mcp__small__odd_name__")
        assert await tools[odd].run({}, shop.place()) == {"content": "odd"}
        long = await tools["mcp__small__long"].run({}, shop.place())
        assert len(long["content"]) < 110_000

    using(tmp_path, do)
    assert capfd.readouterr().err == ""


def test_a_server_gets_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "hush")

    async def do(shop: ToolServer) -> Any:
        return await (await tools_of(shop))["mcp__small__env"].run({}, shop.place())

    assert using(tmp_path, do) == {"content": "TOKEN=a word PROVIDER_KEY=None"}


def test_each_user_has_a_server_of_their_own(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        count = (await tools_of(shop))["mcp__small__count"]
        mine, theirs = shop.place(), dataclasses.replace(shop.place(), owner="user_other")
        assert [await count.run({}, mine), await count.run({}, mine)] == [
            {"content": "1"},
            {"content": "2"},
        ]
        assert await count.run({}, theirs) == {"content": "1"}

    using(tmp_path, do)


def test_a_server_that_dies_is_an_error_of_the_call_and_starts_again(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tools = await tools_of(shop)
        with pytest.raises(ToolError, match=r"small (stopped|failed|cannot be reached)"):
            await tools["mcp__small__dies"].run({}, shop.place())
        assert await tools["mcp__small__count"].run({}, shop.place()) == {"content": "1"}

    using(tmp_path, do)


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tools = await tools_of(shop)
        with pytest.raises(ToolError, match="did not answer within 1 seconds"):
            await tools["mcp__small__hangs"].run({}, shop.place())

    using(tmp_path, do, tool_timeout=1.0)


@pytest.mark.parametrize(
    ("name", "words"), [("fails", "no such thing"), ("refuses", "refused: not here")]
)
def test_what_a_server_refuses_is_reported(tmp_path: Path, name: str, words: str) -> None:
    async def do(shop: ToolServer) -> None:
        tools = await tools_of(shop)
        with pytest.raises(ToolError, match=words):
            await tools[f"mcp__small__{name}"].run({}, shop.place())
        assert await tools["mcp__small__count"].run({}, shop.place()) == {"content": "2"}

    using(tmp_path, do)


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "/nowhere/at/all"},
        {"command": sys.executable, "args": ["-c", "print('hello')"]},
        {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]},
        {"url": "http://127.0.0.1:9/mcp"},
    ],
)
def test_a_server_that_cannot_be_reached_is_left_out(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp, "_START_SECONDS", 3.0)

    async def do(shop: ToolServer) -> None:
        assert list(await tools_of(shop)) == []
        assert list(await tools_of(shop)) == []
        with pytest.raises(ToolError, match="cannot be reached"):
            await shop.services.toolbox.mcp.call(shop.owner, "broken", "add", {})

    run_with_tools(tmp_path, do, mcp={"broken": settings})
    assert [record.message for record in caplog.records if "left out" in record.message][1:] == []


def test_unused_servers_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(shop: ToolServer) -> None:
        count = (await tools_of(shop))["mcp__small__count"]
        assert await count.run({}, shop.place()) == {"content": "1"}
        monkeypatch.setattr(mcp, "_IDLE_SECONDS", -1.0)
        assert await count.run({}, shop.place()) == {"content": "1"}
        monkeypatch.setattr(mcp, "_IDLE_SECONDS", 900.0)
        monkeypatch.setattr(mcp, "_MAX_CONNECTIONS", 0)
        assert await count.run({}, shop.place()) == {"content": "1"}

    using(tmp_path, do)


@pytest.mark.parametrize(
    "settings",
    [
        None, "x", [], {}, {"command": 1}, {"command": ""}, {"command": "x", "args": "y"},
        {"command": "x", "args": [1]},
        {"command": "x", "env": {"A": 1}}, {"command": "x", "env": []}, {"url": "file:///etc"}, {"url": 5},
        {"url": "http://x", "command": "y"}, {"url": "http://x", "headers": {"A": None}},
    ],
)  # fmt: skip
def test_wrong_settings_are_said_at_the_start(settings: Any) -> None:
    with pytest.raises(UsageError, match="invalid configuration of the MCP server 'odd'") as caught:
        McpServers({"odd": settings}, {}, 1.0)
    assert caught.value.code == "server.mcp"


def test_a_server_on_the_network_is_called_with_its_headers(tmp_path: Path) -> None:
    """Plain HTTP is enough for a server: each request gets its answer as JSON."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert dict(scope["headers"])[b"authorization"] == b"Bearer a word"
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        reply = answer(json.loads(body)) if scope["method"] == "POST" else None
        status = 200 if reply else 202 if scope["method"] == "POST" else 405
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": json.dumps(reply).encode() if reply else b""}
        )

    async def do(shop: ToolServer) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
            serving = asyncio.create_task(server.serve([listening]))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            settings = {"url": url, "headers": {"Authorization": "Bearer ${GIVEN}"}}
            servers = McpServers({"far": settings}, {"GIVEN": "a word"}, 20.0)
            tools = await servers.tools(shop.owner)
            assert await servers.call(shop.owner, "far", "add", {"a": 2, "b": 2}) == {
                "content": "4",
                "structured": {"sum": 4},
            }
            assert "mcp__far__add" in tools
            await servers.close()
            server.should_exit = True
            await serving

    run_with_tools(tmp_path, do)
