"""The list to choose from, driven through a terminal."""

from pathlib import Path

import pytest

from helpers.terminal import Terminal
from open_token.cli.shared.console import Console
from open_token.cli.shared.session_selection import filter_sessions, format_row, pick_session
from open_token.library.discovery import Session

NOW = 1_700_000_000.0


def session(name: str, title: str | None, **facts: str) -> Session:
    return Session(
        name, "claude_code", Path(f"/sessions/{name}.jsonl"), NOW - 120, 10, facts.get("cwd"), title
    )


FOUND = [
    session("aaaaaaaa-1111", "sow the beans", cwd="/home/ada/garden"),
    session("bbbbbbbb-2222", "count the beans"),
    session("cccccccc-3333", "bake bread"),
    session("dddddddd-4444", None),
]


def chosen(
    patch: pytest.MonkeyPatch,
    *keys: tuple[str, bytes],
    found: list[Session] | None = None,
    columns: int = 80,
) -> tuple[Session | None, Terminal]:
    with Terminal(patch, *keys, columns=columns) as terminal:
        taken = pick_session(FOUND if found is None else found, Console(env={"NO_COLOR": "1"}))
    assert terminal.missed == []
    assert terminal.restored
    return taken, terminal


@pytest.mark.parametrize(
    ("keys", "taken"),
    [
        ([("> aaaa", b"\r")], 0),
        ([("> aaaa", b"\n")], 0),
        ([("> aaaa", b"\x1b[B"), ("> bbbb", b"\r")], 1),
        ([("> aaaa", b"\x1bOB"), ("> bbbb", b"\x0e"), ("> cccc", b"\r")], 2),
        ([("> aaaa", b"\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\r")], 3),
        ([("> aaaa", b"\x1b[B"), ("> bbbb", b"\x1b[A"), ("> aaaa", b"\x10"), ("> aaaa", b"\r")], 0),
        ([("> aaaa", b"bread"), ("bread_   (1)", b"\r")], 2),
        ([("> aaaa", b"BEANS cou"), ("cou_   (1)", b"\r")], 1),
        (
            [
                ("> aaaa", b"zzz"),
                ("zzz_   (0)", b"\r"),
                ("zzz_", b"\x7f\x7f\x08"),
                ("> aaaa", b"\r"),
            ],
            0,
        ),
        ([("> aaaa", b"garden"), ("garden_   (1)", b"\r")], 0),
        ([("> aaaa", b"dddd-4444.jsonl"), ("(1)", b"\r")], 3),
        ([("> aaaa", b"\x1b[3~\x1b[5~\x1b[1;5C"), ("> aaaa", b"\r")], 0),
        ([("> aaaa", "é".encode()), ("é_   (0)", b"\x7f"), ("session? _", b"\r")], 0),
        ([("> aaaa", b"\x1b")], None),
        ([("> aaaa", b"\x03")], None),
        ([("> aaaa", b"zzz"), ("(0)", b"\x1b")], None),
    ],
)
def test_keys(
    keys: list[tuple[str, bytes]], taken: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(monkeypatch, *keys)[0] == (None if taken is None else FOUND[taken])


def test_a_long_list_scrolls(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [session(f"{n:08d}", f"session {n}") for n in range(100)]
    taken, terminal = chosen(
        monkeypatch, ("> 00000000", b"\x1b[B" * 50), ("> 00000050", b"\r"), found=found
    )
    assert taken == found[50]
    assert "00000012" not in terminal.seen.partition("> 00000001")[0]


def test_rows_fit_the_screen_with_any_content(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        session("aaaaaaaa", "種" * 200),
        session("bbbbbbbb", "x" * 200),
        session("\x1b[2J", "a\x07\u202eb"),
    ]
    _, terminal = chosen(monkeypatch, ("> aaaa", b"\r"), found=found, columns=50)
    rows = terminal.seen.split("\r\n")
    assert "種" * 6 + "..." in rows[1]
    assert "種" * 7 not in rows[1]
    assert rows[2].endswith("xxx...")
    assert len(rows[2]) <= 50
    assert "\\x1b[2J" in rows[3]
    assert "a\\x07\\u202eb" in rows[3]


def test_the_screen_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = chosen(monkeypatch, ("> aaaa", b"\x1b"))
    assert terminal.seen.endswith("\r\x1b[J")


def test_nothing_typed_is_everything() -> None:
    assert filter_sessions(FOUND, "  ") == FOUND
    assert filter_sessions(FOUND, "none") == []


def test_a_label_says_who_when_what() -> None:
    assert format_row(FOUND[0], 80, NOW) == "aaaaaaaa  claude_code    2min  sow the beans"
