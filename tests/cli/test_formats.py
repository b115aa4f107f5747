"""`open-token formats`: every reader, and where its conversations live."""

import json

import pytest

from open_token.cli import main
from open_token.registry import READERS, load_reader


def test_the_list_has_every_reader_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = out.splitlines()
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == list(READERS)
    for name in READERS:
        assert f"{name:20}{load_reader(name).definition.title}" in rows
    assert "                      ~/.claude/projects/*/*.jsonl" in rows
    assert any(row.strip().startswith("$CODEX_HOME/") for row in rows)


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "open-token/formats/1"
    assert [item["reader"] for item in answer["formats"]] == list(READERS)
    assert all(list(item) == ["reader", "title", "places"] for item in answer["formats"])
