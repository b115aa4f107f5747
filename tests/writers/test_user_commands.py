"""Commands of the person on the pages: a step, or a prompt if the model answered."""

from pathlib import Path

import pytest

from open_token import export_file
from open_token.writers.overview import build_overview
from readers.claude_lines import File, read, text

SENT = "<command-name>/{0}</command-name><command-args>{1}</command-args>"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    file = File()
    file.user(SENT.format("clear", ""))
    file.user(SENT.format("review", "167"))
    file.assistant(text("The change is fine."))
    file.user("<bash-input>git status</bash-input>")
    file.user("Thank you.")
    return file.write(tmp_path / "session.jsonl")


def write(session: Path, to: str) -> str:
    page = session.with_suffix(".page")
    export_file(session, page, to=to)
    return page.read_text()


def test_only_an_answered_command_is_a_turn(session: Path) -> None:
    overview = build_overview(read(session).events)
    assert [turn.title for turn in overview.turns] == ["/review 167", "Thank you."]
    assert list(overview.turn_numbers.values()) == [1, 2]
    assert len(overview.index.commands) == 2


def test_html_shows_commands(session: Path) -> None:
    page = write(session, "html")
    for command in ("/clear", "git status"):
        assert f'<span class="k">command</span> <span class="w" dir="auto">{command}</span>' in page
    for event in read(session).events:
        assert f'id="{event["id"]}"' in page


def test_markdown_shows_commands(session: Path) -> None:
    page = write(session, "markdown")
    assert "<summary><b>command</b> /clear</summary>" in page
    assert "## 1. /review 167" in page
    assert "command-name" not in page


def test_the_brief_shows_commands(session: Path) -> None:
    page = write(session, "brief")
    assert "- `command` `git status`" in page
    assert "2 prompts" in page
