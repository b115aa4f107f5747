"""What is configured and what is missing, reported before a start."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from open_token.server import readiness
from open_token.server.config import ServerConfig
from open_token.server.lifecycle import run_services
from open_token.server.readiness import Finding, check_readiness


def found(data: Path, env: dict[str, str] | None = None, **config: Any) -> dict[str, Finding]:
    return {
        item.what: item
        for item in check_readiness(ServerConfig(**{"data": data, "port": 0, **config}), env or {})
    }


def test_a_new_folder_is_fine_and_nothing_is_made(tmp_path: Path) -> None:
    made = found(tmp_path / "new")
    assert not [item for item in made.values() if item.level == "missing"]
    assert "created at the first start" in made["data"].text
    assert "demo" in made["providers"].text
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_there_are_looked_at(tmp_path: Path) -> None:
    async def begun() -> None:
        async with run_services(ServerConfig(data=tmp_path), {}):
            assert found(tmp_path)["data"] == Finding(
                "data", "missing", f"another server is using {tmp_path}"
            )

    asyncio.run(begun())
    assert found(tmp_path)["data"] == Finding("data", "ok", f"SQLite in {tmp_path}")
    (tmp_path / "server.db").write_bytes(b"no database at all" * 100)
    assert found(tmp_path)["data"].level == "missing"


def test_a_port_in_use_is_missing(tmp_path: Path) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        assert found(tmp_path, port=door.getsockname()[1])["address"].level == "missing"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert found(tmp_path / "file" / "data")["data"].level == "missing"


def test_providers_models_and_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    word = "ANTHROPIC_API_" + "KEY"
    made = found(
        tmp_path, {word: "something"}, model="anthropic:x", skills=(tmp_path,), mcp={"files": {}}
    )
    assert made["providers"].text == "anthropic"
    assert made["model"].level == made["skills"].level == made["MCP servers"].level == "ok"
    assert "something" not in str(made)
    made = found(
        tmp_path, model="openai:x", skills=(tmp_path / "none",), tools_module="no.such.module"
    )
    assert (made["model"].level, made["providers"].text) == ("note", "no key is set")
    assert (
        found(tmp_path, model="openai:x", base_url="http://localhost:1/v1")["model"].level == "ok"
    )
    assert made["skills"].level == made["tools"].level == "missing"
    monkeypatch.setattr(readiness.shutil, "which", lambda name: None)
    assert "Bash is disabled" in found(tmp_path)["sandbox"].text
    assert "permissions of the server" in found(tmp_path, allow_unsandboxed=True)["sandbox"].text


def test_packages_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        readiness, "PACKAGES", {"json": "json", "no_such_module": "no-such-package"}
    )
    assert readiness.find_missing_packages() == ["no-such-package"]
    assert found(tmp_path)["packages"].level == "missing"


def test_other_machines_are_warned_of(tmp_path: Path) -> None:
    assert found(tmp_path, host="0.0.0.0")["address"].level == "note"
    assert found(tmp_path, host="no such host")["address"].level == "missing"


def test_a_key_to_sign_with(tmp_path: Path) -> None:
    assert "signing" not in found(tmp_path / "new")
    assert found(tmp_path / "new", sign_key=tmp_path / "missing")["signing"].level == "missing"
