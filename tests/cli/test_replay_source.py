"""The conversation that a replay is held against."""

from pathlib import Path

import pytest

from conftest import ROOT
from open_token.cli import main
from open_token.cli.replay import source as replay_source

SESSION = str(ROOT / "examples" / "claude_code.jsonl")


def test_what_cannot_be_held_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_source, "MAX_DOCUMENT_BYTES", 5000)
    assert main(["replay", "serve", SESSION, "--once"]) == 3
    assert "too large to replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing.jsonl"], 3, "No such file"),
        ([SESSION, "more"], 2, "expected one source, got"),
        ([SESSION, "--from", "smoke"], 2, "unknown reader"),
        ([SESSION, "--from", "40"], 2, "unknown reader"),
        ([SESSION, "--from", "claude-cod"], 2, "did you mean claude_code?"),
    ],
)
def test_errors_say_what_to_do(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "serve", *words]) == code
    assert said in capsys.readouterr().err


def test_a_conversation_in_which_no_model_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "session.json").write_text(
        '{"messages": [{"role": "user", "content": "Anybody?"}]}'
    )
    assert main(["replay", "serve", str(tmp_path / "session.json"), "--from", "openai_chat"]) == 3
    assert "contains no model output" in capsys.readouterr().err
