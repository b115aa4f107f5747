"""`open-token mcp` as clients use it: by hand, and by the client of the protocol's own SDK."""

import asyncio
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.hook_calls import SESSIONS, write_sessions
from open_token.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sessions(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "ot"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def send_requests(
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    *asked: dict[str, Any],
    words: tuple[str, ...] = (),
) -> list[Any]:
    lines = b"".join(
        json.dumps({"jsonrpc": "2.0", "id": n} | one).encode() + b"\n"
        for n, one in enumerate(asked)
    )
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines), isatty=lambda: False)
    )
    assert main(["mcp", *words]) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    return [json.loads(line)["result"] for line in out.splitlines()]


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": given}}


def test_exports_go_into_the_data_folder_or_the_one_that_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    asked = call("export_conversation", session=SESSIONS["codex"].id)
    (found,) = send_requests(monkeypatch, capsysbinary, asked)
    assert (
        found["structuredContent"]["file"]
        == f"{home}/ot/data/exports/codex/{SESSIONS['codex'].id}.json"
    )
    (found,) = send_requests(monkeypatch, capsysbinary, asked, words=("--folder", "sessions"))
    assert (
        found["structuredContent"]["file"] == f"{home}/sessions/codex/{SESSIONS['codex'].id}.json"
    )


def test_nothing_unmasked_without_leave(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    asked = call("export_conversation", session=SESSIONS["codex"].id, redact="none")
    assert send_requests(monkeypatch, capsysbinary, asked)[0]["isError"]
    assert not send_requests(monkeypatch, capsysbinary, asked, words=("--allow-unmasked",))[0][
        "isError"
    ]


def test_a_folder_that_cannot_be(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "file").touch()
    assert main(["mcp", "--folder", "file"]) == 3
    assert main(["mcp", "--folder", ""]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_of_the_sdk(home: Path, mode: Any) -> None:
    pytest.importorskip("mcp.types")
    import mcp

    async def use() -> None:
        started = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "open_token", "mcp"],
            env={"HOME": str(home), "OPEN_TOKEN_HOME": str(home / "ot")},
        )
        async with mcp.Client(started, mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools if tool.annotations.read_only_hint] == [
                "list_sessions", "search", "brief", "show_conversation", "validate", "verify",
                "get_events",
            ]  # fmt: skip
            expected = "2026-07-28" if mode == "auto" else "2025-11-25"
            assert client.session.protocol_version == expected
            listed = await client.call_tool("list_sessions", {"limit": 3})
            known = listed.structured_content["sessions"][0]["id"]
            result = await client.call_tool("brief", {"session": known})
            assert result.structured_content["brief"].startswith("# ")
            made = await client.call_tool("export_conversation", {"session": known})
            assert not made.is_error
            file = made.structured_content["file"]
            assert (await client.call_tool("validate", {"file": file})).structured_content["valid"]
            assert (await client.call_tool("verify", {"file": file})).structured_content[
                "unchanged"
            ]
            some = await client.call_tool("get_events", {"file": file, "count": 2})
            assert len(some.structured_content["events"]) == 2
            assert (await client.call_tool("get_events", {"file": "/etc/passwd"})).is_error
            with pytest.raises(mcp.MCPError):
                await client.call_tool("no such tool", {})
            (app,) = (await client.list_resources()).resources
            shown = await client.call_tool("show_conversation", {"session": known})
            for uri, start in (
                (str(app.uri), "<!doctype html>"),
                (shown.structured_content["page"], "<!doctype html>"),
            ):
                (content,) = (await client.read_resource(uri)).contents
                assert content.text.startswith(start)
            assert (await client.list_resource_templates()).resource_templates
            with pytest.raises(mcp.MCPError):
                await client.read_resource("open-token://pages/nothing/")

    asyncio.run(asyncio.wait_for(use(), 60))
