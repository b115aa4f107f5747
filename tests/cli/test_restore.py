"""`open-token restore`."""

import json
from pathlib import Path

import pytest

from open_token.cli import main

WHOLE = [
    "redact=none",
    "include=include-internal",
    "internal=full",
    "branches=all",
    "native=full",
    "mode=ndjson",
]
RECORD = {
    "type": "user",
    "uuid": "u",
    "sessionId": "s",
    "message": {"role": "user", "content": "hello " * 9},
    "odd": [1.5],
}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(RECORD) + "\n")
    return path


def test_there_and_back(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(session), *WHOLE, "-o", str(tmp_path / "session.ndjson")]) == 0
    assert (
        main(["restore", str(tmp_path / "session.ndjson"), "-o", str(tmp_path / "back"), "--json"])
        == 0
    )
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "schema": "open-token/restored/1",
        "files": ["session.jsonl"],
        "records": 1,
        "missing": 0,
    }
    assert "total   1 record in 1 file" in captured.err
    assert json.loads((tmp_path / "back" / "session.jsonl").read_text()) == RECORD


def test_what_was_redacted_is_said(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["redact=secrets" if word.startswith("redact") else word for word in WHOLE]
    assert main(["export", str(session), *words, "-o", str(tmp_path / "session.ndjson")]) == 0
    assert main(["restore", str(tmp_path / "session.ndjson"), "-o", str(tmp_path / "back")]) == 0
    assert "masked values stay masked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["session.jsonl", "-o", "back"], 3, "not an Open-Token export"),
        (["nothing.json", "-o", "back"], 3, "No such file"),
        (["session.json"], 2, "needs -o FOLDER"),
        (["session.json", "-o", "back", "--limit", "-1"], 2, "--limit must not be negative"),
        (["whole.ndjson", "-o", "back", "--limit", "5"], 3, "raise the limit with --limit"),
        (["session.json", "-o", "back"], 3, "does not contain its source"),
        ([".", "-o", "back"], 3, "not a set of exports"),
    ],
)
def test_errors_say_what_to_do(
    session: Path,
    words: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(session.parent)
    assert main(["export", "session.jsonl", "-o", "session.json", "--quiet"]) == 0
    assert main(["export", "session.jsonl", *WHOLE, "-o", "whole.ndjson", "--quiet"]) == 0
    assert main(["restore", *words]) == code
    assert said in capsys.readouterr().err
    assert not (session.parent / "back").exists()
