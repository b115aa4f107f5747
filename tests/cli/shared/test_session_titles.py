"""Titles in lists contain no secret, whole or cut."""

import json
from pathlib import Path

import pytest

from helpers import fake_format, fake_multi_format
from helpers.fake_format import write_fake_session
from helpers.terminal import Terminal
from open_token.cli import main
from open_token.redaction.rule_catalogue import fill_placeholders

SECRET = fill_placeholders("ghp_{alnum:36}", "titles")[0]
MARK = "[REDACTED:github_token:00000000]"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_format.install_fake_format(monkeypatch)
    write_fake_session(
        tmp_path / ".fake" / "a" / "cccccccc-3333.jsonl",
        5,
        title=f"use this token: {SECRET} now",
        cwd="/x",
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--json"], ["--text", "token"]])
@pytest.mark.usefixtures("home")
def test_a_title_has_its_secrets_masked(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sessions", *words]) == 0
    out, err = capsys.readouterr()
    assert f"use this token: {MARK} now" in out
    assert SECRET not in out + err


def test_truncated_title_shows_no_secret(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = "so long a title that it is cut " * 4 + f"before its end: {SECRET}"
    write_fake_session(home / ".fake" / "a" / "dddddddd-4444.jsonl", 5, title=title, cwd="/x")
    assert main(["sessions"]) == 0
    assert SECRET[:10] not in capsys.readouterr().out


@pytest.mark.usefixtures("home")
def test_screen_masks_secrets_in_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, columns=200, stdout=True) as terminal:
        assert main(["sessions"]) == 0
    assert MARK in terminal.seen
    assert SECRET not in terminal.seen


@pytest.mark.usefixtures("home")
def test_picker_masks_secrets_in_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, ("export which?", b"\x1b"), columns=200) as terminal:
        main(["export", "--pick"])
    assert MARK in terminal.seen
    assert SECRET not in terminal.seen


def test_conversation_list_masks_secrets_in_titles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_multi_format.install_multi_format(monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    sessions = [
        {"session": f"id-{n}", "title": f"token: {SECRET}", "says": ["x"]} for n in range(1, 60)
    ]
    (tmp_path / "sessions.json").write_text(json.dumps(sessions))
    assert main(["export", str(tmp_path / "sessions.json")]) == 2
    result = capsys.readouterr().err
    assert result.count("token: [REDACTED") == 40
    assert SECRET not in result
