"""`open-token verify`."""

import json
from pathlib import Path

import pytest

from open_token.api import export_file
from open_token.cli import main

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}'


@pytest.mark.parametrize("mode", ["json", "ndjson"])
@pytest.mark.parametrize("integrity", ["hash", "tree", "source"])
def test_an_unchanged_file(
    tmp_path: Path, mode: str, integrity: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export_file(CHAT, tmp_path / "session", mode=mode, integrity=integrity)
    assert main(["verify", str(tmp_path / "session")]) == 0
    assert "unchanged since it was written, 2 events" in capsys.readouterr().out


@pytest.mark.parametrize("integrity", ["hash", "tree", "source"])
def test_a_changed_file(tmp_path: Path, integrity: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.json"
    export_file(CHAT, path, integrity=integrity)
    path.write_bytes(path.read_bytes().replace(b"hello", b"hullo"))
    assert main(["verify", str(path)]) == 1
    captured = capsys.readouterr()
    assert "FAIL  events_hash" in captured.out
    assert captured.out.endswith(f"FAIL  {path}  changed since it was written\n")
    assert "hullo" not in captured.out + captured.err


def test_a_changed_title_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.json"
    export_file(CHAT, path)
    path.write_bytes(path.read_bytes().replace(b'"kind": "human"', b'"kind": "model"'))
    assert main(["verify", str(path)]) == 1
    assert "FAIL  document_hash" in capsys.readouterr().out


def test_without_a_hash_there_is_nothing_to_verify(tmp_path: Path) -> None:
    export_file(CHAT, tmp_path / "session.json", integrity="none")
    assert main(["verify", str(tmp_path / "session.json")]) == 3
    (tmp_path / "other.json").write_text("[]")
    assert main(["verify", str(tmp_path / "other.json")]) == 3


def test_what_is_no_whole_export_is_reported_briefly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, half = tmp_path / "log.jsonl", tmp_path / "half.json"
    log.write_text('{"type":"user"}\n' * 100)
    export_file(CHAT, half)
    half.write_bytes(half.read_bytes()[:300])
    for path, lines in ((log, 21), (half, 1)):
        assert main(["verify", str(path)]) == 3
        captured = capsys.readouterr()
        assert len(captured.out.splitlines()) == lines
        assert "open-token export FILE" in captured.err
        assert "integrity=hash" not in captured.err


def test_json_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_file(CHAT, tmp_path / "session.json")
    assert main(["verify", "--json", str(tmp_path / "session.json")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "verified"
    assert {part["name"] for part in answer["parts"]} >= {"events_hash", "document_hash"}


def test_a_hash_of_another_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.json"
    export_file(CHAT, path)
    document = json.loads(path.read_text())
    document["integrity"]["events_hash"] = document["integrity"]["events_hash"].upper()
    del document["integrity"]["document_hash"]
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1


def test_a_document_hash_that_was_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "session.json"
    export_file(CHAT, path)
    document = json.loads(path.read_bytes())
    del document["integrity"]["document_hash"]
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1
    assert "document_hash was removed" in capsys.readouterr().out
    del document["integrity"]["profile"]  # now it may be the export of another program
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 0
    assert "events unchanged since they were written, all else unknown" in capsys.readouterr().out


def test_a_page_is_verified_by_its_own_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "session.html"
    export_file("examples/claude_code.jsonl", page, to="html")
    assert main(["verify", str(page)]) == 0
    assert "unchanged since it was written" in capsys.readouterr().out
    text = page.read_text()
    page.write_text(text.replace("<h1", "<h1 ", 1))
    assert main(["verify", str(page)]) == 1
    assert "page_hash" in capsys.readouterr().out
    # Cut at the end, and with something behind the end.
    for broken in (text[:-20], text + "<p>more</p>"):
        page.write_text(broken)
        assert main(["verify", str(page)]) == 3
    capsys.readouterr()


def test_a_page_has_no_signature_that_could_be_trusted(tmp_path: Path) -> None:
    page = tmp_path / "session.html"
    export_file("examples/claude_code.jsonl", page, to="html")
    assert main(["verify", str(page), "--signed"]) == 4
