"""`open-token show`: a session as text, brief or in full."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from library.index.sessions import SessionFile
from open_token.cli import main

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionFile:
    file = SessionFile(tmp_path, "aaaaaaaa-0000-4000-8000-000000000001", cwd=str(tmp_path))
    file.ask("Why does the\ttide table jump? \x1b]0;title\x07\u202e")
    file.think("Daylight saving.")
    file.call("Bash", {"command": "pytest"}, "\n".join(f"line {n}" for n in range(30)), fails=True)
    file.call("Bash", {"command": "ls"}, "a\nb")
    edit = {"file_path": str(tmp_path / "tide.py"), "old_string": "a = 1", "new_string": "a = 2"}
    file.call("Edit", edit, "done")
    file.answer("\n".join(f"Sentence {number}." for number in range(60)))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return file


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["show", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_brief(session: SessionFile, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "last")
    assert code == 0
    rows = out.splitlines()
    assert rows[0].startswith("Why does the tide table jump?")
    assert "#2     You:" in rows
    assert "#4     Bash  pytest  (failed · 1 min)" in rows
    assert "line 29" in out  # the end of a failed output says why
    assert "line 10" not in out
    assert "\n       - a = 1\n       + a = 2\n" in out
    assert "Daylight saving" not in out
    assert "       ... 20 more lines" in rows
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_full(session: SessionFile, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "last", "--full")
    assert "line 10" in out
    assert "Daylight saving." in out
    assert "Sentence 59." in out


def test_an_event_is_shown_in_full_where_it_begins(
    session: SessionFile, capsys: pytest.CaptureFixture[str]
) -> None:
    # Number 5 is the result of call 4.
    _, out, _ = run(capsys, "last", "--at", "5")
    assert out.startswith("#4     Bash  pytest")
    assert "line 10" in out
    _, out, _ = run(capsys, "last", "--at", "3")
    assert out.startswith("#3     thought:\n")


@pytest.mark.parametrize("words", [["--at", "0"], ["--at", "999"], ["--json"], ["--at", "x"]])
def test_invalid_usage(
    session: SessionFile, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, _, err = run(capsys, "last", *words)
    assert code == 2
    assert "Traceback" not in err


def test_secrets_are_masked(session: SessionFile, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    session.ask(f"use {secret}")
    assert secret not in run(capsys, "last")[1]
    assert secret in run(capsys, "last", "redact=none")[1]


def test_images_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    message = {"role": "user", "content": [image, {"type": "text", "text": "look"}]}
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "claude-x", "max_tokens": 5, "messages": [message]}))
    _, out, _ = run(capsys, str(path))
    assert "[image/png, 45 bytes]" in out
    assert PNG not in out


def test_a_screen_gets_colors_and_a_pager(
    session: SessionFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPEN_TOKEN_PAGER", f"tee {tmp_path / 'paged'}")
    with Terminal(monkeypatch, columns=70, stdout=True):
        assert main(["show", "last", "--color", "always"]) == 0
    paged = (tmp_path / "paged").read_text()
    assert "\x1b[31m#4     Bash  pytest" in paged
    assert "\x1b[32m       + a = 2\x1b[0m" in paged


def test_a_pager_that_ends_early_is_no_error(session: SessionFile) -> None:
    done = subprocess.run(
        f"{sys.executable} -m open_token show last --full | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("Why does")
    assert "Traceback" not in done.stderr
