"""`open-token diff`."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from helpers.random_runs import Batch, build_document, build_message, call, calls
from open_token import api
from open_token.cli import main

CLAUDE = str(ROOT / "examples" / "claude_code.jsonl")
CODEX = str(ROOT / "examples" / "codex_tides.jsonl")
START = [
    build_message("user", "Fix it."),
    build_message("assistant", "I look."),
    calls(call("Bash", command="make test")),
]


def written(path: Path, batches: list[Batch], **more: Any) -> str:
    path.write_text(json.dumps(build_document(batches, **more)))
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Two runs that part at their fourth step."""
    one = [*START, calls(call("Bash", command="ls"))]
    other = [*START, calls(call("Grep", pattern="tide"))]
    return written(tmp_path / "a.json", one), written(tmp_path / "b.json", other, shift=40)


def test_two_runs_of_two_agents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", CLAUDE, CODEX]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(
        "Same start for 5 steps, 2 of them worded differently, then they diverge at step 6 of A and 4 of B: "
    )
    assert "    4     3  = Read     tides.py" in out
    assert "          4  + exec_command git log" in out
    assert "files   different change: tides.py" in out
    assert "hunter2" not in out + err
    assert err.splitlines()[0].startswith("A       claude_code  ")


def test_the_same_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", CLAUDE, CLAUDE]) == 0
    assert capsys.readouterr().out.startswith(
        "Same: 8 steps, equal except for ids, times and counts.\n"
    )


def test_quiet_has_the_sentence_alone(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *pair, "-q"]) == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert err == ""


def test_json(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *pair, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "open-token/diff/1"
    assert (result["a"]["name"], result["b"]["name"]) == pair
    assert result["divergence"]["a"]["step"] == result["divergence"]["b"]["step"] == 4


def test_what_is_ignored_and_the_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, timeout: int, shift: int) -> str:
        return written(tmp_path / name, [calls(call("lighthouse", timeout=timeout))], shift=shift)

    a, b = run("a", 1, 0), run("b", 2, 3)
    assert main(["diff", a, b]) == 1
    assert main(["diff", a, b, "--ignore", "/arguments/timeout"]) == 0
    assert main(["diff", a, a, "--level", "exact"]) == 0
    assert main(["diff", a, b, "--level", "exact", "--ignore", "/content/data/arguments"]) == 0
    capsys.readouterr()


def test_one_of_them_from_stdin(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(pair[0]).read_bytes())))
    assert main(["diff", "-", pair[0]]) == 0
    capsys.readouterr()


def test_sessions_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    home = tmp_path / "home"
    folder = home / ".claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    name = "c0ffee42-7e57-4a11-8b0b-5eed0fca11ed"
    (folder / f"{name}.jsonl").write_bytes(Path(CLAUDE).read_bytes())
    assert main(["diff", "last", name[:8]]) == 0
    assert main(["diff", "last", CODEX]) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ([], "diff needs two sources, got 0"),
        (["a.json"], "diff needs two sources, got 1"),
        (["a", "b", "c"], "diff needs two sources, got 3"),
        (["-", "-"], "only one source can be stdin"),
        (["a", "b", "--context", "-1"], "--context must be between"),
        (["a", "b", "--ignore", "result"], "not a JSON pointer into a step"),
        (["a", "b", "--from", "nobody"], "unknown reader 'nobody'"),
        (["a", "b", *["--from", "codex"] * 3], "--from is given 3 times"),
        (["a", "b", "--level", "fuzzy"], "invalid choice"),
        (["a", "b", "redact=everything"], "invalid value for redact"),
    ],
)
def test_bad_words_are_2(words: list[str], result: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *words]) == 2
    out, err = capsys.readouterr()
    assert result in err
    assert "help: " in err
    assert out == ""


def test_bad_input_is_3(
    tmp_path: Path, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"\x00\x01rubbish")
    for words in ([pair[0], str(bad)], [str(tmp_path / "none.json"), pair[0]]):
        assert main(["diff", *words]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert "error: " in err


def test_a_conversation_that_cannot_be_held_is_refused(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "MAX_DIFF_BYTES", 300)
    assert main(["diff", *pair, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "diff.long"


def test_a_file_with_several_is_listed_and_one_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]}
    other = {
        "conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Good day"}]
    }
    path = tmp_path / "sessions.jsonl"
    path.write_text(
        "\n".join(json.dumps({"id": f"t{n}", **session}) for n, session in enumerate((one, other)))
        + "\n"
    )
    assert main(["diff", str(path), str(path)]) == 2
    assert "--conversation" in capsys.readouterr().err
    assert main(["diff", str(path), str(path), "--conversation", "1", "--conversation", "2"]) == 1
    assert "[-Hi-]{+Good day+}" in capsys.readouterr().out
