"""The terminal's manners: what is made visible, cut, coloured, and where it goes."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.terminal import Terminal
from open_token.cli.shared.console import (
    Console,
    TerminalStream,
    encode_pretty_json,
    escape_controls,
    format_age,
    format_size,
    pluralize,
    print_table,
    truncate_to_columns,
)
from open_token.errors import InputError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 種 😀", "plain é 種 😀"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\tc\rd\x7f\x9b", "a\\x0ab\\x09c\\x0dd\\x7f\\x9b"),
        ("\u202etxt.exe\u2066\u200f\u061c", "\\u202etxt.exe\\u2066\\u200f\\u061c"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@given(st.text(alphabet=st.characters()))
def test_nothing_shown_can_steer_a_terminal(text: str) -> None:
    shown = escape_controls(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert escape_controls(shown) == shown


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(1, 7))
def test_content_on_a_screen_cannot_steer_it(text: str, size: int) -> None:
    """Also if the bytes of a character come in two writes; JSON stays the same JSON."""
    stream = io.BytesIO()
    screen = TerminalStream(stream)
    data = json.dumps(text + "\x9b31m\u202e", ensure_ascii=False).encode()
    for position in range(0, len(data), size):
        assert screen.write(data[position : position + size]) == len(
            data[position : position + size]
        )
    screen.flush()
    shown = stream.getvalue().decode()
    assert json.loads(shown) == text + "\x9b31m\u202e"
    assert "\u202e" not in shown
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


def test_json_has_no_raw_controls() -> None:
    shown = encode_pretty_json({"title": "a\x9b31mb\x7f"})
    assert shown.isascii()
    assert json.loads(shown) == {"title": "a\x9b31mb\x7f"}


def test_an_export_on_a_screen_is_escaped_and_in_a_pipe_is_not(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    console = Console({})
    for is_terminal, shown in ((True, b"a\\u009b"), (False, b"a\xc2\x9b")):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        console.stdout.write(b"a\xc2\x9b")
        console.stdout.flush()
        assert capfdbinary.readouterr().out == shown


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc..."),
        ("種種種", 6, "種種種"),
        ("種種種種", 6, "種..."),
        ("e\u0301" * 6, 6, "e\u0301" * 6),
        ("", 6, ""),
    ],
)
def test_text_is_cut_by_columns(text: str, columns: int, shown: str) -> None:
    assert truncate_to_columns(text, columns) == shown


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (32_300_000, "32.3 MB"),
        (999_900, "1.0 MB"),
        (5 * 10**12, "5000.0 GB"),
    ],
)
def test_sizes(count: int, said: str) -> None:
    assert format_size(count) == said


def test_counts_and_ages() -> None:
    assert [pluralize(count, "call") for count in (0, 1, 5832)] == [
        "0 calls",
        "1 call",
        "5,832 calls",
    ]
    ages = [format_age(seconds) for seconds in (-5, 59, 7200, 86400 * 3, 86400 * 100, 86400 * 800)]
    assert ages == ["0min", "0min", "2h", "3d", "3mo", "2y"]


class TestColour:
    """Only as a second signal, and only where it is wanted."""

    @pytest.mark.parametrize(
        ("env", "wish", "terminal", "is_painted"),
        [
            ({}, "auto", True, True),
            ({}, "auto", False, False),
            ({"NO_COLOR": "1"}, "auto", True, False),
            ({"NO_COLOR": ""}, "auto", True, True),
            ({"TERM": "dumb"}, "auto", True, False),
            ({}, "never", True, False),
            ({"NO_COLOR": "1"}, "always", False, True),
        ],
    )
    def test_when(self, env: dict[str, str], wish: str, terminal: bool, is_painted: bool) -> None:
        console = Console(env=env)
        console.color = wish
        assert (console.style("error:", "red", terminal) == "\x1b[31merror:\x1b[0m") is is_painted

    @pytest.mark.parametrize(
        ("env", "shown"), [({}, "\x1b[31merror:\x1b[0m no"), ({"NO_COLOR": "1"}, "error: no")]
    )
    def test_errors_on_a_screen(
        self, env: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Terminal(monkeypatch) as terminal:
            Console(env=env).error("error: no")
        assert terminal.seen == shown + "\r\n"


class TestStreams:
    """Payload on stdout, words on stderr."""

    def test_who_goes_where(self, capsys: pytest.CaptureFixture[str]) -> None:
        console = Console(env={})
        console.print("payload")
        console.info("word")
        console.warn("careful")
        console.error("error: no")
        result = capsys.readouterr()
        assert result.out == "payload\n"
        assert result.err == "word\nwarning: careful\nerror: no\n"

    def test_quiet_leaves_warnings_and_errors(self, capsys: pytest.CaptureFixture[str]) -> None:
        console = Console(env={})
        console.quiet = True
        console.info("word")
        console.warn("careful")
        assert capsys.readouterr().err == "warning: careful\n"

    def test_json_output_is_always_utf8(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        Console(env={}).print_json({"name": "é\udcff"})
        assert json.loads(capsysbinary.readouterr().out) == {"name": "é\ufffd"}

    def test_payload_keeps_its_place_among_lines(
        self, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        console = Console(env={})
        console.print("a")
        console.stdout.write(b"b\n")
        console.print("c\udcff")
        assert capsysbinary.readouterr().out == b"a\nb\nc\\udcff\n"

    def test_terminals_are_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        console = Console(env={})
        with Terminal(monkeypatch, columns=52, stdout=True):
            assert (
                console.is_interactive,
                console.stdout_is_terminal,
                console.stderr_is_terminal,
            ) == (
                True,
                True,
                True,
            )
            assert console.width() == 52
        with Terminal(monkeypatch, columns=5, stdout=True):
            assert console.width() == 40
        with open(os.devnull, "w") as nowhere:
            monkeypatch.setattr("sys.stdout", nowhere)
            assert not console.stdout_is_terminal
            assert console.width() == 100


def test_home_is_where_the_environment_says() -> None:
    assert Console(env={"HOME": "/a"}).home == Path("/a")
    assert Console(env={"USERPROFILE": "/b"}).home == Path("/b")


def test_a_working_folder_that_is_gone_is_an_error_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="working directory"):
        Console(env={}).cwd  # noqa: B018 - asking is what fails


def test_a_table_has_tabs_in_a_pipe_and_columns_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[tuple[str, ...]] = [("a", "1", "x" * 200), ("bbbb", "22", "y")]
    print_table(("NAME", "N", "REST"), rows, Console())
    assert capsys.readouterr().out == f"a\t1\t{'x' * 200}\nbbbb\t22\ty\n"
    with Terminal(monkeypatch, stdout=True) as terminal:
        print_table(("NAME", "N", "REST"), rows, Console())
        print_table(("NAME",), [], Console())
    assert terminal.seen.split("\r\n") == [
        "NAME  N   REST",
        f"a      1  {'x' * 67}...",
        "bbbb  22  y",
        "",
    ]
