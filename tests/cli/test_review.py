"""The review on a terminal: what is shown, what each key does, and that no value is ever on the screen."""

import pytest

from open_token.cli.console import Console
from open_token.cli.review import FALSE, KEEP, MASK, review, summary
from open_token.passes.findings import Finding, Place
from rule_holes import filled
from terminal import Terminal

SECRET = filled("ghp_{alnum:36}", "review")[0]


def finding(number: int, places: int = 1, kind: str = "github_token") -> Finding:
    made = [Place(f"evt_{place:06d} /content/text", f"before {number} ", " after") for place in range(places)]
    return Finding(kind, f"rule-{number}", "secrets", SECRET, places, made)


def decided(
    patch: pytest.MonkeyPatch, *keys: tuple[str, bytes], found: list[Finding] | None = None, lines: int = 24
) -> tuple[list[str] | None, Terminal]:
    chosen = [finding(1), finding(2), finding(3)] if found is None else found
    with Terminal(patch, *keys, lines=lines) as terminal:
        made = review(chosen, Console(env={"NO_COLOR": "1"}), lambda item: "so it is" if item.type == "locked" else "")
    assert terminal.missed == []
    assert terminal.restored
    assert SECRET not in terminal.seen
    assert SECRET[4:12] not in terminal.seen
    return made, terminal


@pytest.mark.parametrize(
    ("keys", "made"),
    [
        ([("1 of 3", b"w")], [MASK, MASK, MASK]),
        ([("1 of 3", b"k"), ("2 of 3", b"f"), ("3 of 3", b"m"), ("finds seen", b"w")], [KEEP, FALSE, MASK]),
        ([("1 of 3", b"n"), ("2 of 3", b"k"), ("3 of 3", b"w")], [MASK, KEEP, MASK]),
        ([("1 of 3", b"k"), ("2 of 3", b"p"), ("1 of 3", b"m"), ("2 of 3", b"w")], [MASK, MASK, MASK]),
        (
            [("1 of 3", b"\r \x1b[B"), ("finds seen", b"kf\x1b[A"), ("3 of 3", b"f"), ("seen", b"w")],
            [MASK, MASK, FALSE],
        ),
        ([("1 of 3", b"xyz\x1b[3~?"), ("1 of 3", b"w")], [MASK, MASK, MASK]),
        ([("1 of 3", b"kkk"), ("finds seen", b"q")], None),
        ([("1 of 3", b"\x1b")], None),
        ([("1 of 3", b"\x03")], None),
    ],
)
def test_keys(keys: list[tuple[str, bytes]], made: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decided(monkeypatch, *keys)[0] == made


def test_rule_place_shape_and_context_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = decided(monkeypatch, ("q quit", b"q"))
    for words in (
        "rule rule-1 (secrets)",
        "evt_000000 /content/text",
        "before 1 [github_token] after",
        "40 characters",
    ):
        assert words in terminal.seen


def test_what_must_be_masked_stays_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding(1, kind="locked")]
    made, terminal = decided(monkeypatch, ("1 of 1", b"kfw"), found=found)
    assert made == [MASK]
    assert "decision: mask: so it is" in terminal.seen


def test_many_places_fit_a_small_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = decided(monkeypatch, ("q quit", b"q"), found=[finding(1, places=40)], lines=12)
    assert "and 39 more places" in terminal.seen
    assert terminal.seen.count("\r\n") <= 12


def test_nothing_a_terminal_would_obey_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = Finding("email", "email", "pii", SECRET, 1, [Place("evt\x1b[2J", "a\x1b[31m\x07", "\u202eb")])
    _, terminal = decided(monkeypatch, ("q quit", b"q"), found=[hostile])
    assert "evt\\x1b[2J" in terminal.seen
    assert "a\\x1b[31m\\x07[email]\\u202eb" in terminal.seen


def test_the_screen_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = decided(monkeypatch, ("1 of 3", b"q"))
    assert terminal.seen.startswith("\x1b[?1049h")
    assert terminal.seen.endswith("\x1b[?1049l")


def test_a_summary_counts() -> None:
    assert summary([MASK, KEEP, KEEP]) == "1 masked, 2 kept"
    assert summary([FALSE]) == "0 masked, 1 false for good"
