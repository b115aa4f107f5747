"""SQL over a dataset."""

import json
from pathlib import Path

import pytest

from dataset.conftest import Build
from open_token.cli import main
from open_token.dataset.query import query
from open_token.errors import UsageError


def test_views_answer(sessions: Path, build: Build) -> None:
    folder = str(build("sessions"))
    counted = query("select count(*), sum(event_count) from sessions", folder).rows[0]
    assert counted[0] == len(list(sessions.rglob("*.json*")))
    assert query("select count(*) from events", folder).rows == [(counted[1],)]
    calls = query("select tool, arguments, output from calls where output is not null", folder)
    assert calls.columns == ["tool", "arguments", "output"]
    assert calls.rows
    assert query("select sum(output_tokens) from usage", folder).rows[0][0] > 0


def test_other_profiles_have_sessions(sessions: Path, build: Build) -> None:
    folder = str(build("sessions", "--to", "hf"))
    assert query("select count(*) from sessions where num_tool_calls >= 0", folder).rows[0][0]


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_text('{outside}')",
        "copy (select 1) to '{outside}'",
        "attach '{outside}' as other",
        "set enable_external_access = true",
        "install httpfs",
    ],
)
def test_a_statement_reaches_no_other_file(
    sessions: Path, build: Build, tmp_path: Path, statement: str
) -> None:
    folder = str(build("sessions"))
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    with pytest.raises(UsageError, match="query failed"):
        query(statement.format(outside=outside), folder)
    assert outside.read_text() == "private"


def test_the_command_prints_rows_csv_and_json(
    sessions: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(build("sessions"))
    statement = "select 'a\x1bb' as word, 1 as one"
    assert main(["query", statement, folder]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["query", "select 1 as one", folder, "--csv"]) == 0
    assert capsys.readouterr().out == "one\n1\n"
    assert main(["query", "select 1 as one", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"one": 1}]


def test_errors_say_what_to_do(
    sessions: Path, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    build("sessions")
    assert main(["query", "select"]) == 2
    assert main(["query", "select nope", "dataset"]) == 2
    assert "the query failed" in capsys.readouterr().err
    assert main(["query", "select 1", "sessions"]) == 2
    assert "no finished dataset" in capsys.readouterr().err
