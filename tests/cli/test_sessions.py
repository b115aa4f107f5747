"""`open-token sessions`: a table on a screen, plain columns in a pipe, an object for scripts."""

import itertools
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from helpers import fake_format
from helpers.fake_format import write_fake_session
from helpers.fake_reader import add_reader
from helpers.terminal import Terminal
from open_token.builder.draft import Draft
from open_token.cli import main
from open_token.library import file_ends
from open_token.model.document import Found
from open_token.sources.source import Source


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations, one of them held in the folder `here`, where we stand."""
    fake_format.install_fake_format(monkeypatch)
    (tmp_path / "here").mkdir()
    write_fake_session(
        tmp_path / ".fake" / "a" / "aaaaaaaa-1111.jsonl",
        10,
        title="bake\tbread \x1b[2J\u202e",
        cwd="/elsewhere",
    )
    write_fake_session(
        tmp_path / ".fake" / "a" / "bbbbbbbb-2222.jsonl",
        20,
        title="sow beans " * 20,
        cwd=str(tmp_path / "here"),
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def run_sessions(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["sessions", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_in_a_pipe(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_sessions(capsys)
    rows = [line.split("\t") for line in out.splitlines()]
    path = home / ".fake" / "a" / "aaaaaaaa-1111.jsonl"
    assert code == 0
    assert rows[0] == [
        "aaaaaaaa-1111",
        "fake_session",
        "2023-11-14T22:13:10Z",
        str(path.stat().st_size),
        "/elsewhere",
        "bake bread \\x1b[2J\\u202e",
        str(path),
    ]
    assert rows[1][5] == "sow beans " * 7 + "sow..."
    assert err == "2 sessions.  Export one: open-token export ID\n"


def test_on_a_screen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        assert main(["sessions"]) == 0
    rows = terminal.seen.split("\r\n")
    assert rows[0].split() == ["ID", "AGENT", "AGE", "SIZE", "TITLE"]
    assert rows[1].startswith("aaaaaaaa  fake_session")
    assert "bake bread \\x1b[2J\\u202e" in rows[1]
    assert rows[2].endswith("...")
    assert max(map(len, rows)) <= 70
    assert rows[3].startswith("2 sessions.")
    assert "\x1b" not in terminal.seen


def test_ids_are_shown_long_enough_to_be_distinct(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fake_session(home / ".fake" / "a" / "aaaaaaaa-1122.jsonl", 30)
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        main(["sessions"])
    rows = terminal.seen.split("\r\n")
    assert [row.split()[0] for row in rows[1:4]] == ["aaaaaaaa-111", "bbbbbbbb-222", "aaaaaaaa-112"]
    assert max(map(len, rows)) <= 70


def test_long_ids_take_the_room_of_the_sizes_on_a_narrow_screen(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for end in "12":
        write_fake_session(
            home / ".fake" / "a" / f"{'c' * 35}{end}.jsonl", 30, title="sow beans " * 20
        )
    with Terminal(monkeypatch, columns=80, stdout=True) as terminal:
        main(["sessions"])
    rows = terminal.seen.split("\r\n")
    assert rows[0].split() == ["ID", "AGENT", "AGE", "TITLE"]
    assert "sow beans sow" in rows[3]
    assert max(map(len, rows)) <= 80


def test_the_heading_is_bold_where_colours_are_wanted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions"])
    assert terminal.seen.startswith("\x1b[1mID")


def test_many_on_a_screen_are_the_newest_thirty(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        write_fake_session(home / ".fake" / "b" / f"{number:08d}.jsonl", 100 + number)
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions"])
    rows = terminal.seen.split("\r\n")
    assert len([row for row in rows if "fake_session" in row]) == 30
    assert "30 of 42. List all: --all." in terminal.seen
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions", "--all"])
    assert terminal.seen.count("fake_session") == 42


def test_many_in_a_pipe_are_all(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(40):
        write_fake_session(home / ".fake" / "b" / f"{number:08d}.jsonl", 100 + number)
    assert run_sessions(capsys)[1].count("\n") == 42


def test_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_sessions(capsys, "--json")
    answer = json.loads(out)
    assert (code, answer["schema"]) == (0, "open-token/sessions/1")
    first = answer["sessions"][0]
    assert list(first) == [
        "id",
        "reader",
        "path",
        "modified",
        "bytes",
        "cwd",
        "title",
        "conversation",
        "messages",
    ]
    assert first["title"] == "bake bread \x1b[2J\u202e"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--here"], ["bbbbbbbb-2222"]),
        (["--folder", "."], ["bbbbbbbb-2222"]),
        (["--folder", "../here"], ["bbbbbbbb-2222"]),
        (["--folder", "/elsewhere"], ["aaaaaaaa-1111"]),
        (["--agent", "fake-session"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
        (["--agent", "fake_session", "--here"], ["bbbbbbbb-2222"]),
        (["--text", "bread"], ["aaaaaaaa-1111"]),
        (["--text", "BEANS sow"], ["bbbbbbbb-2222"]),
        (["--text", "elsewhere"], ["aaaaaaaa-1111"]),
        (["--text", "bbbb"], ["bbbbbbbb-2222"]),
        (["--text", "bread", "--limit", "5"], ["aaaaaaaa-1111"]),
        (["--limit", "1"], ["aaaaaaaa-1111"]),
        (["--since", "2023-11-14"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
        (["--until", "2023-11-14"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
        (["--since", "2023-11-14T22:13:10Z"], ["aaaaaaaa-1111"]),
        (["--until", "2023-11-14T23:13:00+01:00"], ["bbbbbbbb-2222"]),
        (["--since", "999999d"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
        (["--until", "2w", "--since", "2000-01-01"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
    ],
)
def test_filters(
    home: Path, words: list[str], ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_sessions(capsys, *words)
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ids


def test_all_filters_together(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fits = {
        "--agent": "fake_session",
        "--text": "beans",
        "--since": "2023-11-14",
        "--until": "2w",
        "--folder": ".",
    }
    misses = {
        "--agent": "open_token",
        "--text": "bread",
        "--since": "2d",
        "--until": "2023-11-13",
        "--folder": "/x",
    }
    code, out, _ = run_sessions(capsys, *itertools.chain(*fits.items()), "--limit", "9", "--json")
    assert (code, [session["id"] for session in json.loads(out)["sessions"]]) == (
        0,
        ["bbbbbbbb-2222"],
    )
    for option, word in misses.items():
        assert run_sessions(capsys, *itertools.chain(*(fits | {option: word}).items()))[:2] == (
            1,
            "",
        )


@pytest.mark.parametrize(
    "words",
    [
        ["--folder", "/nowhere"],
        ["--agent", "open_token"],
        ["--since", "2d"],
        ["--until", "2023-11-13"],
        ["--text", "bread beans"],
    ],
)
def test_none_is_the_answer_no(
    home: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_sessions(capsys, *words)
    assert (code, out) == (1, "")
    assert err.startswith("no match among ")
    code, out, _ = run_sessions(capsys, *words, "--json", "--quiet")
    assert code == 1
    assert json.loads(out)["sessions"] == []


@pytest.mark.parametrize(
    "words",
    [
        ["--agent", "nobody"],
        ["--here", "--folder", "."],
        ["extra"],
        ["--limit", "0"],
        ["--limit", "-1"],
        ["--limit", "x"],
        ["--limit", "5", "--all"],
        ["--since", "yesterday"],
        ["--since", "2d3h"],
        ["--since", "2026-13-01"],
        ["--until", "9999-12-31"],
        ["--since", "2026-01-01T00:00:00"],
        ["--until", ""],
    ],
)
def test_wrong_words(home: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_sessions(capsys, *words)
    assert (code, out) == (2, "")
    assert "help: " in err


def test_a_day_is_one_of_the_local_zone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert run_sessions(capsys, "--until", "2023-11-14")[0] == 1
    assert run_sessions(capsys, "--since", "2023-11-15")[0] == 0


def test_the_second_time_no_file_is_opened(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run_sessions(capsys)
    monkeypatch.setattr(file_ends, "read_ends", lambda *_: pytest.fail("a file was opened"))
    assert run_sessions(capsys) == before


def test_a_limit_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_sessions(capsys, "--limit", "1")[2]
        == "1 of 2. List all: --all.  Export one: open-token export ID\n"
    )


def test_the_working_folder_is_gone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "here").rmdir()
    code, out, _ = run_sessions(capsys)
    assert (code, out.count("\n")) == (0, 2)
    assert run_sessions(capsys, "--here")[0] == 3


def test_quiet_has_no_closing_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sessions(capsys, "-q")[2] == ""


def test_a_name_that_is_not_utf8(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_fake_session(home / ".fake" / "b" / "x.jsonl")
    os.rename(path, path.with_name(os.fsdecode(b"bad\xff.jsonl")))
    path.with_name(os.fsdecode(b"bad\xff.jsonl")).write_text("{}\n")
    code, out, _ = run_sessions(capsys)
    assert code == 0
    assert "bad\\udcff" in out
    assert run_sessions(capsys, "--json")[0] == 0


def test_one_of_several_in_a_file_is_exported_by_its_id(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(source: Source, draft: Draft) -> None:
        person = draft.get_actor("human", "user")
        for line in source.text.splitlines():
            name, _, words = line.partition(": ")
            if source.conversation in (None, name):
                draft.add_message("user", words, person)

    def conversations(source: Source) -> list[Found]:
        return [
            Found(name, title=f"of {name}")
            for name in dict.fromkeys(re.findall("(?m)^[^:]+", source.text))
        ]

    add_reader(
        monkeypatch,
        "diary",
        places=("*.diary",),
        read=read,
        list_conversations=conversations,
    )
    (home / "all.diary").write_text("monday: sow\ntuesday: reap\nmonday: rest\n")
    rows = [line.split("\t") for line in run_sessions(capsys, "--text", "day of")[1].splitlines()]
    assert [row[0] for row in rows] == ["tuesday", "monday"]
    assert main(["export", "monday", "-q"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["content"]["text"] for event in events] == ["sow", "rest"]


def test_what_cannot_be_read_is_counted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / ".codeium" / "windsurf" / "cascade"
    folder.mkdir(parents=True)
    (folder / "one.pb").write_bytes(b"\x01\x02")
    (folder / "two.pb").write_bytes(b"\x03")
    (folder / "empty.pb").write_bytes(b"")
    code, _, err = run_sessions(capsys)
    assert code == 0
    assert err.splitlines()[-1] == (
        "2 files with sessions of Windsurf in ~/.codeium/windsurf/cascade cannot be read: "
        "they are encrypted"
    )
    _, out, _ = run_sessions(capsys, "--json")
    assert json.loads(out)["unreadable"] == [
        {
            "agent": "windsurf",
            "title": "Windsurf",
            "folder": str(folder),
            "files": 2,
            "bytes": 3,
            "reason": "they are encrypted",
        }
    ]
    _, _, err = run_sessions(capsys, "--agent", "fake_session")
    assert "Windsurf" not in err


def test_an_unreadable_file_is_reported_where_there_is_nothing_else(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(home / ".fake")
    folder = home / ".gemini" / "antigravity" / "conversations"
    folder.mkdir(parents=True)
    (folder / "one.pb").write_bytes(b"\x01")
    code, _, err = run_sessions(capsys)
    assert code == 1
    assert "no sessions found" in err
    assert "1 file with sessions of Antigravity IDE" in err


@pytest.mark.parametrize(
    ("path", "title"),
    [
        (".kiro/sessions/work/sess_1/messages.jsonl", "Kiro CLI"),
        (
            ".config/Kiro/User/globalStorage/kiro.kiroagent/workspace-sessions/L3c/1-2-3.json",
            "Kiro IDE",
        ),
        (".config/github-copilot/iu/chat-sessions/1/copilot-chat-nitrite.db", "JetBrains"),
        (".gemini/antigravity/implicit/1.pb", "Antigravity IDE"),
        (".local/state/warp-terminal/warp.sqlite", "Warp"),
        (".augment/sessions/1.json", "Augment"),
        (".junie/sessions/session-1/events.jsonl", "Junie"),
        (".zencoder/sessions/1.jsonl", "Zencoder"),
    ],
)
def test_agents_without_a_reader(
    home: Path, capsys: pytest.CaptureFixture[str], path: str, title: str
) -> None:
    (home / path).parent.mkdir(parents=True)
    (home / path).write_bytes(b"x")
    _, _, err = run_sessions(capsys)
    assert err.count("cannot be read") == 1
    assert title in err
