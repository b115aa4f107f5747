"""`open-token replay view`: all at once in a pipe, played with keys in a terminal."""

import json
from pathlib import Path

import pytest

from conftest import ROOT
from helpers.terminal import Terminal
from open_token.cli import main
from open_token.cli.replay import player as replay_player

SESSION = str(ROOT / "examples" / "claude_code.jsonl")


def test_in_a_pipe_all_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "view", SESSION]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("you test_dst in tests/test_tides.py")
    assert "[REDACTED:password:" in out
    assert "4-herons" not in out
    assert main(["replay", "view", SESSION, "redact=none"]) == 0
    assert "4-herons" in capsys.readouterr().out


def test_a_part_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "view", SESSION, "--start", "2", "--end", "4", "--json"]) == 0
    assert [frame["seq"] for frame in json.loads(capsys.readouterr().out)["frames"]] == [2, 3, 4]


def test_nothing_that_a_terminal_would_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[31mred\x07 \u202eback\x9b2J\nnext\r"
    session = {
        "messages": [{"role": "user", "content": evil}, {"role": "assistant", "content": evil}]
    }
    (tmp_path / "session.json").write_text(json.dumps(session))
    assert main(["replay", "view", str(tmp_path / "session.json")]) == 0
    out, _ = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r"} & set(out)
    assert "\\x1b[31mred" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--start", "900"], "--start 900 is past the end: the session has 14 events"),
        (["--start", "0"], "--start must be an event number"),
        (["--start", "5", "--end", "3"], "--end is before --start"),
        (["--speed", "0"], "--speed must be a positive number"),
        (["--speed", "nan"], "--speed must be a positive number"),
    ],
)
def test_errors_say_what_to_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "view", SESSION, *words]) == 2
    assert said in capsys.readouterr().err


def played(
    patch: pytest.MonkeyPatch, *keys: tuple[str, bytes], words: tuple[str, ...] = ()
) -> Terminal:
    """View at a terminal: slow enough that only keys lead on."""
    patch.setattr(replay_player, "_MAX_PAUSE", 10_000.0)
    with Terminal(patch, *keys, columns=120, stdout=True) as terminal:
        code = main(["replay", "view", SESSION, "--quiet", "--speed", "0.000001", *words])
    assert code == 0
    assert terminal.missed == []
    assert terminal.restored
    return terminal


def test_stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(" 2/14", b"n"), (" 3/14", b"e"), ("skipped", b"q")]
    seen = played(monkeypatch, *keys).seen
    assert "I will run the test" in seen
    assert "... 2 skipped" in seen
    assert "AssertionError: 04:12" in seen
    assert "Fixed:" not in seen


def test_going_back(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(" 2/14", b"n"), (" 3/14", b"p"), ("back to 2", b"p"), ("this is the first", b"q")]
    seen = played(monkeypatch, *keys).seen
    assert seen.count("test_dst in tests") >= 2
    keys = [(" 2/14", b"e"), ("skipped", b"P"), ("back to 2", b"q")]
    assert "back to 2" in played(monkeypatch, *keys).seen


def test_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(" 2/14", b"/"), ("/", b"Fixx\x7f"), ("/Fix", b"ed\r"), ("Fixed: ", b"")]
    assert "shifts the table" in played(monkeypatch, *keys).seen


def test_nothing_more_to_go_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "(no more)" in played(monkeypatch, (" 2/14", b"N"), ("(no more)", b"q")).seen


def test_pausing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = played(monkeypatch, (" 2/14", b" "), ("paused", b" "), ("1e-06x", b"q")).seen
    assert "paused   q quit  space pause" in seen, "at 80 columns, the way out is not cut"
