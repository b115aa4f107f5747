"""A file that holds several conversations, on the command line."""

import json
from pathlib import Path

import pytest

import many_talks
from open_token.cli import main

TALKS = [{"talk": f"id-{n}", "title": f"Title \x1b[31m{n}", "says": [f"words {n}"]} for n in range(1, 60)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    many_talks.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks.json").write_text(json.dumps(TALKS))
    return tmp_path


def test_they_are_listed_and_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "    1  id-1 " in captured.err
    assert "... and 19 more" in captured.err
    assert "this input holds 59 conversations" in captured.err
    assert "--conversation" in captured.err
    assert "\x1b[31m" not in captured.err


def test_one_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json", "--conversation", "id-7", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-7"
    assert main(["export", "talks.json", "--conversation", "59", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-59"
    assert main(["export", "talks.json", "--conversation", "nobody", "-q"]) == 3


def test_all_of_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json", "--conversation", "all", "-o", "out", "--json", "mode=ndjson"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["conversations"]) == 59
    assert "59 documents and index.json" in captured.err
    assert len(list((here / "out").iterdir())) == 60


def test_all_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json", "--conversation", "all"]) == 2
    assert "-o FOLDER" in capsys.readouterr().err
