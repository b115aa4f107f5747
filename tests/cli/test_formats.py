"""`open-token formats`: every reader, and where its conversations live."""

import json
from pathlib import Path

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
        definition = load_reader(name).definition
        mark = " (experimental)" if definition.is_experimental else ""
        assert f"{name:20}{definition.title}{mark}" in rows
    assert "                      ~/.claude/projects/*/*.jsonl" in rows
    assert any(row.strip().startswith("$CODEX_HOME/") for row in rows)


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "open-token/formats/1"
    assert [item["reader"] for item in answer["formats"]] == list(READERS)
    keys = ["reader", "title", "places", "checked", "experimental"]
    assert all(list(item) == keys for item in answer["formats"])
    experimental = [item["reader"] for item in answer["formats"] if item["experimental"]]
    assert experimental == [
        name for name in READERS if load_reader(name).definition.is_experimental
    ]


def test_an_export_by_an_experimental_reader_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Path(__file__).resolve().parents[1] / "golden"
    result = {}
    for case in ("amp/basic", "codex/basic"):
        source = next((golden / case).glob("input*"))
        reader = case.split("/")[0]
        out = str(tmp_path / f"{reader}.html")
        assert main(["export", str(source), "--from", reader, "--to", "html", "-o", out]) == 0
        result[reader] = "experimental-reader:" in capsys.readouterr().err
        assert ("never checked on a real file" in Path(out).read_text()) == result[reader]
    assert result == {"amp": True, "codex": False}


@pytest.mark.parametrize("verb", ["export", "formats"])
def test_help_names_the_experimental_readers(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    words = capsys.readouterr().out.replace(",", " ").replace(".", " ").split()
    for name in READERS:
        if load_reader(name).definition.is_experimental:
            assert name.replace("_", "-") in words
