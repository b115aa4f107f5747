"""`open-token search` and `open-token index`: what they print, and where."""

import json
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from library.index.sessions import SessionFile
from open_token.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    session = SessionFile(tmp_path, "aaaaaaaa-0000-4000-8000-000000000001", cwd=str(tmp_path))
    session.ask("Why does the tide table jump?")
    session.call("Bash", {"command": "pytest"}, "clock \x1b[31mjumps\x1b[0m\u202e", fails=True)
    for number in range(5):
        session.answer(f"The clock changes, attempt {number}.")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_in_a_pipe_every_event_is_a_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "search", "clock")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[2] for row in rows] == ["output"] + ["agent"] * 5
    assert rows[0][0] == "aaaaaaaa-0000-4000-8000-000000000001"
    assert rows[0][3] == "Bash"
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert err.endswith("Read one: open-token show aaaaaaaa --at 4\n")


def test_on_a_screen_events_are_grouped_by_session(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        assert main(["search", "clock"]) == 0
    rows = [row for row in terminal.seen.split("\r\n") if row]
    assert rows[0] == "Why does the tide table jump?"
    assert rows[1].startswith("aaaaaaaa  claude-code  ")
    assert rows[2].startswith("  #4     output   Bash: clock \\x1b[31mjumps")
    assert rows[5] == "  and 3 more: --all"
    assert max(map(len, rows)) <= 70


def test_a_match_far_in_a_line_is_on_the_screen(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SessionFile(home, "dddddddd-0000-4000-8000-000000000004").ask(f"{'lorem ' * 30}zebra and more")
    with Terminal(monkeypatch, columns=60, stdout=True) as terminal:
        main(["search", "zebra"])
    assert "zebra" in terminal.seen


def test_words_of_the_query_are_colored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        main(["search", "clock", "--color", "always"])
    assert "The \x1b[33mclock\x1b[0m changes" in terminal.seen


def test_json_has_event_ids(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "search", "clock", "--role", "output", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["schema"] == "open-token/search/1"
    assert result["is_complete"] is True
    (session,) = result["sessions"]
    assert session["title"] == "Why does the tide table jump?"
    assert session["branch"] == "main"
    (hit,) = session["hits"]
    assert (hit["seq"], hit["event_id"], hit["tool"]) == (4, "evt_000004", "Bash")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["tide table"], 1),
        (["table", "tide"], 1),
        (["table tide"], 0),  # quoted in the shell: a phrase
        (["clock", "-attempt"], 1),
        (["clock", "--not", "attempt"], 1),
        (["jum*", "--role", "person"], 1),
        (["clock", "--regex", "attempt [34]"], 2),
        (["--here", "--tool", "bash"], 2),
        (["clock", "--until", "2026-10-01"], 0),
        (["clock", "--agent", "claude-code"], 6),
        (["clock", "--agent", "codex"], 0),
    ],
)
def test_words_and_filters(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], count: int
) -> None:
    code, out, _ = run(capsys, "search", *words)
    assert len(out.splitlines()) == count
    assert code == (0 if count else 1)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-only"],
        ["x", "--role", "nobody"],
        ["x", "--regex", "("],
        ["x", "--limit", "0"],
        ["x", "--since", "soon"],
        ["x", "--agent", "nobody"],
    ],
)
def test_invalid_usage_says_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, out, err = run(capsys, "search", *words)
    assert (code, out) == (2, "")
    assert "help:" in err


def test_nothing_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "search", "zebra")
    assert (code, out) == (1, "")
    assert err.startswith("nothing found;")


def test_without_an_update_new_sessions_are_not_found(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "index")
    SessionFile(home, "bbbbbbbb-0000-4000-8000-000000000002").ask("a zebra")
    assert run(capsys, "search", "zebra", "--no-update")[0] == 1
    assert run(capsys, "search", "zebra")[0] == 0


def test_the_index_can_be_checked_rebuilt_and_removed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "index", "--status")[0] == 1
    code, out, _ = run(capsys, "index")
    assert code == 0
    assert out.startswith("1 session, 10 events, ")
    broken = SessionFile(home, "cccccccc-0000-4000-8000-000000000003")
    broken.path.write_text("no json\nat all\n")
    _, _, err = run(capsys, "index", "--rebuild")
    assert err == "1 session could not be read; see `open-token index --status`\n"
    _, out, _ = run(capsys, "index", "--status", "--json")
    status = json.loads(out)
    assert (status["sessions"], status["failed"]) == (2, 1)
    assert status["failures"][0]["path"] == str(broken.path)
    assert run(capsys, "index", "--remove")[2] == "removed the index\n"
    assert not Path(status["path"]).exists()
    assert run(capsys, "index", "--remove", "--status")[0] == 2
