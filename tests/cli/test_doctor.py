"""`open-token doctor`: what is found, what is wrong, and how to fix it."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main
from open_token.library import health

DAY = 86_400
SESSION = {
    "type": "user",
    "uuid": "u1",
    "parentUuid": None,
    "sessionId": "11111111-1111-4111-8111-111111111111",
    "cwd": "/work",
    "version": "2.1.0",
    "timestamp": "2026-11-01T10:00:00Z",
    "message": {"role": "user", "content": "Water the plants"},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    for path in (folder, tmp_path / "here", tmp_path / "bin"):
        path.mkdir()
    (tmp_path / "bin/open-token").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/open-token")])
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "ot"))
    monkeypatch.chdir(tmp_path / "here")
    return folder


def run_doctor(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["doctor"])
    return code, capsys.readouterr().out


def reported(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code = main(["doctor", "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["schema"] == "open-token/doctor/1"
    assert code == (1 if report["problems"] else 0)
    return report


def write_session(home: Path, name: str, days: float, project: str = "-work") -> Path:
    path = home / ".claude/projects" / project / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(SESSION) + "\n")
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))
    return path


def test_an_empty_machine_has_no_problems(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_doctor(capsys)
    assert code == 0
    assert "No sessions of agents found" in out
    assert "Archive: none" in out
    assert "Search index: none" in out
    assert out.endswith("No problems found.\n")
    assert not (home.parent / "ot").exists()


def test_sessions_are_counted_by_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, "one", 1)
    write_session(home, "two", 1, "-elsewhere")
    (agent,) = reported(capsys)["agents"]
    assert agent["places"] == [{"folder": str(home / ".claude/projects"), "sessions": 2}]
    assert (agent["hooks"], agent["skill"], agent["mcp"]) == ("absent", "absent", "absent")
    code, out = run_doctor(capsys)
    assert code == 0
    assert "Claude Code\n  2 sessions in ~/.claude/projects\n" in out
    assert "hooks: not installed, skill: not installed, MCP server: not installed" in out
    assert "deletes sessions after 30 days" in out


def test_an_unreadable_file_is_reported_without_failing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = home / ".codeium/windsurf/cascade"
    folder.mkdir(parents=True)
    (folder / "one.pb").write_bytes(b"\x01")
    code, out = run_doctor(capsys)
    assert code == 0
    assert "1 file with sessions of Windsurf in ~/.codeium/windsurf/cascade cannot be read" in out


@pytest.mark.parametrize(("days", "setting", "count"), [
    (5, None, 0),
    (24, None, 1),
    (24, 365, 0),
    (5, 10, 1),
    (24, "many", 1),
    (24, -1, 1),
])  # fmt: skip
def test_sessions_that_are_deleted_soon(
    home: Path, capsys: pytest.CaptureFixture[str], days: int, setting: object, count: int
) -> None:
    write_session(home, "one", days)
    if setting is not None:
        (home / ".claude/settings.json").write_text(json.dumps({"cleanupPeriodDays": setting}))
    report = reported(capsys)
    assert report["agents"][0]["deleted_soon"] == count
    if count:
        (problem,) = report["problems"]
        assert "that Claude Code deletes within 7 days" in problem["problem"]
        assert "open-token archive" in problem["fix"]
        assert "cleanupPeriodDays" in problem["fix"]


def test_an_archived_session_may_be_deleted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_session(home, "one", 29)
    assert main(["archive", "--quiet"]) == 0
    capsys.readouterr()
    report = reported(capsys)
    assert report["problems"] == []
    assert report["archive"]["sessions"] == 1
    assert "Archive: 1 session in" in run_doctor(capsys)[1]
    # What was said since then is not in the archive.
    later = time.time() - 28 * DAY
    os.utime(path, (later, later))
    assert len(reported(capsys)["problems"]) == 1


def test_sessions_that_could_not_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_session(home, "one", 1)
    path.write_text('{"type": "user", "parentUuid": nothing}\n')
    assert main(["archive", "--quiet"]) == 1
    assert main(["index", "--quiet"]) == 0
    capsys.readouterr()
    report = reported(capsys)
    assert report["index"]["failed"] == 1
    problems = [item["problem"] for item in report["problems"]]
    assert problems == [
        "sessions that could not be archived: 1",
        "sessions that could not be indexed: 1",
    ]


def test_hooks_skill_and_server(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, "one", 1)
    assert main(["hook", "install", "--for", "claude-code"]) == 0
    assert main(["skill", "install", "--for", "claude-code"]) == 0
    servers = {"notes": {"command": "/opt/open-token", "args": ["mcp"]}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    capsys.readouterr()
    (agent,) = reported(capsys)["agents"]
    states = (agent["hooks"], agent["skill"], agent["mcp"])
    assert states == ("installed", "installed", "registered")


def test_hooks_whose_program_is_gone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hook", "install", "--for", "codex"]) == 0
    (home.parent / "bin/open-token").unlink()
    capsys.readouterr()
    code, out = run_doctor(capsys)
    assert code == 1
    assert "problem: the hooks of Codex" in out
    assert "fix: run `open-token hook install --for codex`" in out


def test_a_configuration_that_is_not_valid_is_not_guessed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_session(home, "one", 1)
    (home / ".claude.json").write_text("{ // a comment\n}")
    (agent,) = reported(capsys)["agents"]
    assert agent["mcp"] is None


def test_invalid_settings(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home.parent / "ot/settings/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("redact = \n")
    (problem,) = reported(capsys)["problems"]
    assert str(settings) in problem["problem"]
    assert problem["fix"]
    settings.write_text("defualts = 1\n")
    (problem,) = reported(capsys)["problems"]
    assert "defualts" in problem["problem"]


def test_missing_packages_say_what_is_missing(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "find_spec", lambda name: None)
    monkeypatch.setattr(health, "load_zstd", lambda: None)
    code, out = run_doctor(capsys)
    assert code == 0
    assert out.count("missing: ") == 5
    assert "install the package genai-prices" in out
