"""`open-token fidelity` and `export --report`."""

import json
from pathlib import Path

import pytest

from open_token.cli import main

LONG = "A sentence that is long enough to be text and not a name."


@pytest.fixture
def session(tmp_path: Path) -> Path:
    record = {"type": "user", "uuid": "u", "sessionId": "s", "slug": "brave-fox"}
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps({**record, "message": {"role": "user", "content": LONG}}) + "\n")
    return path


def test_all_is_there(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(session), "-o", str(tmp_path / "session.json"), "--quiet"]) == 0
    assert main(["fidelity", str(session), str(tmp_path / "session.json")]) == 0
    result = capsys.readouterr().out
    assert "said     100.00 % of 57 characters preserved" in result
    assert "slug  (1, first at line 1)" in result


def test_something_is_not(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", str(session), "-o", str(tmp_path / "session.json"), "--quiet"])
    session.write_text(
        session.read_text()
        + session.read_text().replace("sentence", "new sentence").replace('"u"', '"v"')
    )
    assert main(["fidelity", "--json", str(session), str(tmp_path / "session.json")]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["records"] == {"read": 2, "carried": 1}
    assert answer["said"]["percent"] < 50


def test_an_export_of_something_else(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, made = tmp_path / "other.json", tmp_path / "session.json"
    other.write_text('{"model":"m","messages":[{"role":"user","content":"hello"}]}')
    main(["export", str(other), "-o", str(made), "--quiet"])
    assert main(["fidelity", str(session), str(made)]) == 1
    assert "another session" in capsys.readouterr().err


def test_two_sources_are_an_error(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fidelity", str(session), str(session)]) == 3
    assert "not an Open-Token export" in capsys.readouterr().err


def test_the_report_of_an_export(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(session), "--report"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["events"]
    assert "said     100.00 %" in captured.err
    assert (
        main(["export", str(session), "--report", "--json", "-o", str(tmp_path / "session.json")])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["fidelity"]["said"]["percent"] == 100.0
