"""Sessions of three agents in a folder, and a way to write a dataset of them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from open_token.cli import main

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CASES = (
    ("claude_code/basic", "one.jsonl"),
    ("claude_code/compaction", "two.jsonl"),
    ("codex/basic", "three.jsonl"),
    ("openai_chat/basic", "four.json"),
)
Build = Callable[..., Path]


def find_input(case: str) -> Path:
    """Return the input of a golden case, which is a single file."""
    return next(path for path in (GOLDEN / case).iterdir() if path.stem == "input")


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A folder with sessions of several agents, below folders of their own."""
    folder = tmp_path / "sessions"
    for case, name in CASES:
        if (GOLDEN / case).is_dir():
            target = folder / case.partition("/")[0] / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(find_input(case), target)
    return folder


@pytest.fixture
def build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Build:
    """Write a dataset in this process and return its folder; a failure is an assertion error."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str, name: str = "dataset", code: int = 0) -> Path:
        got = main(["dataset", *words, "-o", name, "--jobs", "1"])
        errors = capsys.readouterr().err
        assert got == code, errors
        return tmp_path / name

    return run
