"""`open-token sessions`: a table on a screen, plain columns in a pipe, an object for scripts."""

import json
import os
from pathlib import Path

import pytest

import fake_talk
from fake_talk import write
from open_token.cli import main
from terminal import Terminal


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations, one of them held in the folder `here`, where we stand."""
    fake_talk.install(monkeypatch)
    (tmp_path / "here").mkdir()
    write(tmp_path / ".fake" / "a" / "aaaaaaaa-1111.jsonl", 10, title="bake\tbread \x1b[2J\u202e", cwd="/elsewhere")
    write(tmp_path / ".fake" / "a" / "bbbbbbbb-2222.jsonl", 20, title="sow beans " * 20, cwd=str(tmp_path / "here"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["sessions", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_in_a_pipe(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys)
    rows = [line.split("\t") for line in out.splitlines()]
    path = home / ".fake" / "a" / "aaaaaaaa-1111.jsonl"
    assert code == 0
    assert rows[0] == [
        "aaaaaaaa-1111",
        "fake_talk",
        "2023-11-14T22:13:10Z",
        str(path.stat().st_size),
        "/elsewhere",
        "bake bread \\x1b[2J\\u202e",
        str(path),
    ]
    assert len(rows[1][5]) == 160
    assert err == "2 conversations.  Export one: open-token export ID\n"


def test_on_a_screen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        assert main(["sessions"]) == 0
    rows = terminal.seen.split("\r\n")
    assert rows[0].split() == ["ID", "AGENT", "AGE", "SIZE", "TITLE"]
    assert rows[1].startswith("aaaaaaaa  fake_talk")
    assert "bake bread \\x1b[2J\\u202e" in rows[1]
    assert rows[2].endswith("...")
    assert max(map(len, rows)) <= 70
    assert rows[3].startswith("2 conversations.")
    assert "\x1b" not in terminal.seen


def test_ids_are_shown_long_enough_to_tell_them_apart(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".fake" / "a" / "aaaaaaaa-1122.jsonl", 30)
    with Terminal(monkeypatch, columns=70, stdout=True) as terminal:
        main(["sessions"])
    rows = terminal.seen.split("\r\n")
    assert [row.split()[0] for row in rows[1:4]] == ["aaaaaaaa-111", "bbbbbbbb-222", "aaaaaaaa-112"]
    assert max(map(len, rows)) <= 70


def test_the_heading_is_bold_where_colours_are_wanted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions"])
    assert terminal.seen.startswith("\x1b[1mID")


def test_many_on_a_screen_are_the_newest_thirty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        write(home / ".fake" / "b" / f"{number:08d}.jsonl", 100 + number)
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions"])
    rows = terminal.seen.split("\r\n")
    assert len([row for row in rows if "fake_talk" in row]) == 30
    assert "30 of 42 shown. All: --all." in terminal.seen
    with Terminal(monkeypatch, stdout=True) as terminal:
        main(["sessions", "--all"])
    assert terminal.seen.count("fake_talk") == 42


def test_many_in_a_pipe_are_all(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(40):
        write(home / ".fake" / "b" / f"{number:08d}.jsonl", 100 + number)
    assert told(capsys)[1].count("\n") == 42


def test_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "--json")
    answer = json.loads(out)
    assert (code, answer["schema"]) == (0, "open-token/sessions/1")
    first = answer["sessions"][0]
    assert list(first) == ["id", "reader", "path", "modified", "bytes", "cwd", "title"]
    assert first["title"] == "bake bread \x1b[2J\u202e"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--here"], ["bbbbbbbb-2222"]),
        (["--folder", "."], ["bbbbbbbb-2222"]),
        (["--folder", "../here"], ["bbbbbbbb-2222"]),
        (["--folder", "/elsewhere"], ["aaaaaaaa-1111"]),
        (["--agent", "fake-talk"], ["aaaaaaaa-1111", "bbbbbbbb-2222"]),
        (["--agent", "fake_talk", "--here"], ["bbbbbbbb-2222"]),
    ],
)
def test_filters(home: Path, words: list[str], ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, *words)
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ids


@pytest.mark.parametrize("words", [["--folder", "/nowhere"], ["--agent", "open_token"]])
def test_none_is_the_answer_no(home: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, *words)
    assert (code, out) == (1, "")
    assert "no conversation was found" in err
    code, out, _ = told(capsys, *words, "--json", "--quiet")
    assert code == 1
    assert json.loads(out)["sessions"] == []


@pytest.mark.parametrize("words", [["--agent", "nobody"], ["--here", "--folder", "."], ["extra"]])
def test_wrong_words(home: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, *words)
    assert (code, out) == (2, "")
    assert "help: " in err


def test_quiet_has_no_closing_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "-q")[2] == ""


def test_a_name_that_is_not_utf8(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(home / ".fake" / "b" / "x.jsonl")
    os.rename(path, path.with_name(os.fsdecode(b"bad\xff.jsonl")))
    path.with_name(os.fsdecode(b"bad\xff.jsonl")).write_text("{}\n")
    code, out, _ = told(capsys)
    assert code == 0
    assert "bad\\udcff" in out
    assert told(capsys, "--json")[0] == 0
