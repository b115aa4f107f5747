"""`open-token validate`."""

import json
from pathlib import Path

import pytest

from open_token.api import export_file
from open_token.cli import main
from open_token.validation.validate import CHECKS

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}'


@pytest.fixture
def export(tmp_path: Path) -> Path:
    export_file(CHAT, tmp_path / "session.json")
    return tmp_path / "session.json"


def broken(path: Path) -> Path:
    document = json.loads(path.read_text())
    document["events"][1]["seq"] = 9
    path.write_text(json.dumps(document))
    return path


def test_a_valid_file(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(export)]) == 0
    assert capsys.readouterr().out == f"ok  {export}  {len(CHECKS)} checks\n"


def test_a_stream_is_read_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_file(CHAT, tmp_path / "session.ndjson", mode="ndjson")
    assert main(["validate", str(tmp_path / "session.ndjson")]) == 0
    (tmp_path / "session.ndjson").write_bytes(
        (tmp_path / "session.ndjson").read_bytes().rsplit(b"\n", 2)[0] + b"\n"
    )
    assert main(["validate", str(tmp_path / "session.ndjson")]) == 0
    assert "warning: OT015" in capsys.readouterr().out
    assert main(["validate", "--strict", str(tmp_path / "session.ndjson")]) == 1


def test_a_breach_has_an_id_and_a_place(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(broken(export))]) == 1
    out = capsys.readouterr().out
    assert "error: OT104 events[1].seq: " in out
    assert f"FAIL  {export}" in out


def test_json_for_scripts(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(export.read_bytes())
    assert main(["validate", "--json", str(other), str(broken(export))]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    assert [file["valid"] for file in answer["files"]] == [True, False]
    assert "OT104" in {problem["id"] for problem in answer["files"][1]["problems"]}


def test_a_check_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--explain", "ot104"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("OT104 (error): ")
    assert "fix: " in out


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 2
    assert main(["validate", "--explain", "OT999"]) == 2
    assert main(["validate", "nowhere.json"]) == 3
    assert capsys.readouterr().out == ""


def test_garbage_is_invalid_not_a_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, raw in enumerate((b"", b"\xff\xfe", b"[" * 100000, b"null", b'{"a":1,"a":2}')):
        path = tmp_path / f"{number}.json"
        path.write_bytes(raw)
        assert main(["validate", str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err
