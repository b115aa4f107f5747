"""A file that holds several conversations, on the command line."""

import json
from pathlib import Path

import pytest

from helpers import fake_multi_format
from open_token.cli import main

TALKS = [
    {"talk": f"id-{n}", "title": f"Title \x1b[31m{n}", "says": [f"words {n}"]} for n in range(1, 60)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_multi_format.install_multi_format(monkeypatch)
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
    assert (
        "--conversation ID or its number in the list, or all: --conversation all -o FOLDER"
        in captured.err
    )
    assert "\x1b[31m" not in captured.err


def test_one_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json", "--conversation", "id-7", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-7"
    assert main(["export", "talks.json", "--conversation", "59", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-59"
    assert main(["export", "talks.json", "--conversation", "nobody", "-q"]) == 3


def test_all_of_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["export", "talks.json", "--conversation", "all", "-o", "out", "--json", "mode=ndjson"]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["conversations"]) == 59
    assert "59 documents and index.json" in captured.err
    assert len(list((here / "out").iterdir())) == 60


def test_all_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "talks.json", "--conversation", "all"]) == 2
    assert "-o FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["handoff", "talks.json", "--to", "codex"], ["fidelity", "talks.json", "x.json"]]
)
def test_a_verb_offers_only_what_it_can_do(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "    1  id-1 " in told
    assert "choose one with --conversation ID or its number in the list" in told
    assert "all -o" not in told


def test_the_report_of_all_is_that_of_the_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        "A sentence that is long enough to be text and not a name.",
        "Another one, which is as long as the first.",
    ]
    talks = [{"talk": f"id-{n}", "says": [text]} for n, text in enumerate(said)]
    (here / "talks.json").write_text(json.dumps([*talks, {"nobody": f"{said[0]} Left out."}]))
    assert (
        main(["export", "talks.json", "--conversation", "all", "-o", "out", "--json", "--report"])
        == 0
    )
    captured = capsys.readouterr()
    told = json.loads(captured.out)["fidelity"]
    assert told["records"] == {"read": 3, "carried": 2}
    assert told["said"]["kept"] == sum(map(len, said))
    assert told["said"]["characters"] == sum(map(len, said)) + len(f"{said[0]} Left out.")
    assert "characters preserved" in captured.err
    assert main(["fidelity", "talks.json", "out", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == told
    assert main(["fidelity", "talks.json", "out/2_id-1.json", "--conversation", "2"]) == 0


def test_what_all_leave_out_is_reported_with_the_first_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talks = [{"talk": f"id-{n}", "says": ["hello"], "odd": [7] * n} for n in range(3)]
    (here / "talks.json").write_text(json.dumps(talks))
    assert main(["export", "talks.json", "--conversation", "all", "-o", "out", "--json"]) == 0
    captured = capsys.readouterr()
    assert "odd-part: a part that nobody knows (3 times, first in id-1, part 1)" in captured.err
    notes = [
        item.get("notes", [{"count": 0}]) for item in json.loads(captured.out)["conversations"]
    ]
    assert [note["count"] for (note,) in notes] == [0, 1, 2]
