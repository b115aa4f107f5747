"""A file that holds several conversations, on the command line."""

import json
from pathlib import Path

import pytest

from helpers import fake_multi_format
from open_token.cli import main

SESSIONS = [
    {"session": f"id-{n}", "title": f"Title \x1b[31m{n}", "says": [f"words {n}"]}
    for n in range(1, 60)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_multi_format.install_multi_format(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sessions.json").write_text(json.dumps(SESSIONS))
    return tmp_path


def test_they_are_listed_and_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "sessions.json"]) == 2
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
    assert main(["export", "sessions.json", "--conversation", "id-7", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-7"
    assert main(["export", "sessions.json", "--conversation", "59", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["id"] == "id-59"
    assert main(["export", "sessions.json", "--conversation", "nobody", "-q"]) == 3


def test_all_of_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "export",
                "sessions.json",
                "--conversation",
                "all",
                "-o",
                "out",
                "--json",
                "mode=ndjson",
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["conversations"]) == 59
    assert "59 documents and index.json" in captured.err
    assert len(list((here / "out").iterdir())) == 60


def test_all_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "sessions.json", "--conversation", "all"]) == 2
    assert "-o FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["handoff", "sessions.json", "--to", "codex"], ["fidelity", "sessions.json", "x.json"]],
)
def test_a_verb_offers_only_what_it_can_do(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    result = capsys.readouterr().err
    assert "    1  id-1 " in result
    assert "choose one with --conversation ID or its number in the list" in result
    assert "all -o" not in result


def test_the_report_of_all_is_that_of_the_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        "A sentence that is long enough to be text and not a name.",
        "Another one, which is as long as the first.",
    ]
    sessions = [{"session": f"id-{n}", "says": [text]} for n, text in enumerate(said)]
    (here / "sessions.json").write_text(json.dumps([*sessions, {"nobody": f"{said[0]} Left out."}]))
    assert (
        main(
            ["export", "sessions.json", "--conversation", "all", "-o", "out", "--json", "--report"]
        )
        == 0
    )
    captured = capsys.readouterr()
    result = json.loads(captured.out)["fidelity"]
    assert result["records"] == {"read": 3, "carried": 2}
    assert result["said"]["kept"] == sum(map(len, said))
    assert result["said"]["characters"] == sum(map(len, said)) + len(f"{said[0]} Left out.")
    assert "characters preserved" in captured.err
    assert main(["fidelity", "sessions.json", "out", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == result
    assert main(["fidelity", "sessions.json", "out/2_id-1.json", "--conversation", "2"]) == 0


def test_what_all_leave_out_is_reported_with_the_first_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = [{"session": f"id-{n}", "says": ["hello"], "odd": [7] * n} for n in range(3)]
    (here / "sessions.json").write_text(json.dumps(sessions))
    assert main(["export", "sessions.json", "--conversation", "all", "-o", "out", "--json"]) == 0
    captured = capsys.readouterr()
    assert "odd-part: a part that nobody knows (3 times, first in id-1, part 1)" in captured.err
    notes = [
        item.get("notes", [{"count": 0}]) for item in json.loads(captured.out)["conversations"]
    ]
    assert [note["count"] for (note,) in notes] == [0, 1, 2]
