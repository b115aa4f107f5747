"""The review on a terminal: what is shown, what each key does, and that no value is ever on the
screen."""

import tracemalloc
import unicodedata

import pytest

from helpers.terminal import Terminal
from open_token.cli.redact_review import FALSE_POSITIVE, KEEP, MASK, _Review, review, summarize
from open_token.cli.shared.console import Console
from open_token.redaction.findings import Finding, Place
from open_token.redaction.rule_catalogue import fill_placeholders

SECRET = fill_placeholders("ghp_{alnum:36}", "review")[0]


def finding(number: int, places: int = 1, kind: str = "github_token") -> Finding:
    made = [
        Place(f"evt_{place:06d} /content/text", f"before {number} ", " after")
        for place in range(places)
    ]
    return Finding(kind, f"rule-{number}", "secrets", SECRET, places, made)


def decided(
    patch: pytest.MonkeyPatch,
    *keys: tuple[str, bytes],
    found: list[Finding] | None = None,
    lines: int = 24,
) -> tuple[list[str] | None, Terminal]:
    chosen = [finding(1), finding(2), finding(3)] if found is None else found
    with Terminal(patch, *keys, lines=lines) as terminal:
        made = review(
            chosen,
            Console(env={"NO_COLOR": "1"}),
            lambda item: "so it is" if item.type == "locked" else "",
        )
    assert terminal.missed == []
    assert terminal.restored
    assert SECRET not in terminal.seen
    assert SECRET[4:12] not in terminal.seen
    return made, terminal


@pytest.mark.parametrize(
    ("keys", "made"),
    [
        ([("1 of 3", b"w")], [MASK, MASK, MASK]),
        (
            [("1 of 3", b"k"), ("2 of 3", b"f"), ("3 of 3", b"m"), ("findings seen", b"w")],
            [KEEP, FALSE_POSITIVE, MASK],
        ),
        ([("1 of 3", b"n"), ("2 of 3", b"k"), ("3 of 3", b"w")], [MASK, KEEP, MASK]),
        (
            [("1 of 3", b"k"), ("2 of 3", b"p"), ("1 of 3", b"m"), ("2 of 3", b"w")],
            [MASK, MASK, MASK],
        ),
        (
            [
                ("1 of 3", b"\r \x1b[B"),
                ("findings seen", b"kf\x1b[A"),
                ("3 of 3", b"f"),
                ("seen", b"w"),
            ],
            [MASK, MASK, FALSE_POSITIVE],
        ),
        ([("1 of 3", b"xyz\x1b[3~"), ("1 of 3", b"w")], [MASK, MASK, MASK]),
        (
            [("? help", b"?"), ("keys of the review", b"q"), ("1 of 3", b"kw")],
            [KEEP, MASK, MASK],
        ),
        (
            [("1 of 3", b"kf"), ("3 of 3", b"u"), ("2 of 3", b"u"), ("1 of 3", b"uw")],
            [MASK, MASK, MASK],
        ),
        (
            [("1 of 3", b"kfk"), ("findings seen", b"u"), ("3 of 3", b"w")],
            [KEEP, FALSE_POSITIVE, MASK],
        ),
        ([("1 of 3", b"K"), ("2 of 3", b"w")], [KEEP, MASK, MASK]),
        ([("1 of 3", b"kkk"), ("findings seen", b"q")], None),
        ([("1 of 3", b"\x1b")], None),
        ([("1 of 3", b"\x03")], None),
        ([("1 of 3", b"k\x04")], None),
    ],
)
def test_keys(
    keys: list[tuple[str, bytes]], made: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_all_of_a_rule_are_kept_but_those_that_must_be_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [finding(1), finding(2), finding(1), finding(1, kind="locked"), finding(1)]
    made, _ = decided(monkeypatch, ("1 of 5", b"K"), ("2 of 5", b"w"), found=found)
    assert made == [KEEP, MASK, KEEP, MASK, KEEP]
    made, _ = decided(
        monkeypatch, ("1 of 5", b"K"), ("2 of 5", b"u"), ("1 of 5", b"w"), found=found
    )
    assert made == [MASK] * 5


def test_a_value_is_shown_on_demand_and_hidden_by_the_next_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = "ab\x1b[2J" + SECRET + "\n" + "c" * 400
    shown = Finding("email", "email", "pii", value, 1, [Place("evt", "a", "b")])
    keys = (("1 of 1", b"v"), ("ab\\x1b[2J", b"v"), ("1 of 1", b"vn"), ("seen", b"w"))
    with Terminal(monkeypatch, *keys) as terminal:
        review([shown], Console(env={"NO_COLOR": "1"}), lambda item: "")
    pages = terminal.seen.split("\x1b[H\x1b[J")[1:]
    assert [SECRET[:20] in page for page in pages] == [False, True, False, True, False]
    assert max(page.count("\r\n") for page in pages) < 24
    assert "c..." in pages[1]


@pytest.mark.parametrize("columns", [80, 40])
def test_no_line_is_longer_than_the_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Finding(
        "phone",
        "phone-named",
        "pii",
        SECRET,
        1,
        [Place("évt " * 40, "電話番号は " * 40, " 東京 です" * 40)],
    )
    with Terminal(monkeypatch, ("1 of 1", b"q"), columns=columns) as terminal:
        review([wide], Console(env={"NO_COLOR": "1"}), lambda item: "")
    lines = terminal.seen.split("\x1b[J")[1].split("\x1b[?")[0].split("\r\n")
    assert all(
        sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in line) < columns
        for line in lines
    )
    assert "[phone]" in "".join(lines)


def test_a_terminal_without_a_size_is_a_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, ("q quit", b"q"), columns=0, lines=0) as terminal:
        review([finding(1)], Console(env={"NO_COLOR": "1"}), lambda item: "")
    assert "before 1 [github_token] after" in terminal.seen


def test_many_places_fit_a_small_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = decided(monkeypatch, ("q quit", b"q"), found=[finding(1, places=40)], lines=12)
    assert "1 to 1 of 40 places   o others" in terminal.seen
    assert terminal.seen.count("\r\n") <= 12


def test_every_place_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding(1, places=7), finding(2, places=7)]
    keys = (
        ("1 to 4 of 7", b"o"),
        ("5 to 7 of 7", b"o"),
        ("1 to 4 of 7", b"on"),
        ("2 of 2", b""),
        ("1 to 4 of 7", b"q"),
    )
    decided(monkeypatch, *keys, found=found, lines=22)


@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (40, 12), (24, 16)])
def test_every_key_is_reported_on_a_narrow_screen(
    columns: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Terminal(monkeypatch, ("1 of 1", b"q"), columns=columns, lines=lines) as terminal:
        review([finding(1, places=9)], Console(env={"NO_COLOR": "1"}), lambda item: "")
    page = terminal.seen.split("\x1b[J")[1].split("\x1b[?")[0].split("\r\n")
    assert len(page) <= lines
    assert page[0].startswith("review  1 of 1")
    result = "   ".join(page)
    keys = (
        "m mask",
        "k keep",
        "K keep all",
        "f false positive",
        "u undo",
        "v show",
        "w write",
        "q quit ",
    )
    assert [key for key in keys if key not in result] == []


def test_the_page_is_drawn_anew_when_the_terminal_has_another_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([(80, 24)])
    monkeypatch.setattr(
        "open_token.cli.redact_review._get_terminal_size", lambda: next(sizes, (40, 24))
    )
    decided(monkeypatch, ("digits, signs", b""), ("capita...", b"q"))


def test_what_one_side_of_a_value_leaves_the_other_has(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("evt", "use ", f" and {'w' * 45} end")
    found = [Finding("email", "email", "pii", SECRET, 1, [place])]
    _, terminal = decided(monkeypatch, ("1 of 1", b"q"), found=found)
    assert f"    use [email] and {'w' * 45} end\r\n" in terminal.seen


def test_thousands_of_decisions_take_little_memory() -> None:
    session = _Review(
        [finding(number) for number in range(3000)], Console(env={}), lambda item: "", ()
    )
    tracemalloc.start()
    for _ in range(3000):
        session.handle_key("k")
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 4_000_000
    for _ in range(3000):
        session.handle_key("u")
    assert session.decisions == [MASK] * 3000


def test_without_a_file_it_says_that_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, ("w done, writes nothing without -o", b"w")) as terminal:
        assert review(
            [finding(1)], Console(env={"NO_COLOR": "1"}), lambda item: "", writes=False
        ) == [MASK]
    assert terminal.missed == []


def test_nothing_a_terminal_would_obey_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = Finding(
        "email", "email", "pii", SECRET, 1, [Place("evt\x1b[2J", "a\x1b[31m\x07", "\u202eb")]
    )
    _, terminal = decided(monkeypatch, ("q quit", b"q"), found=[hostile])
    assert "evt\\x1b[2J" in terminal.seen
    assert "a\\x1b[31m\\x07[email]\\u202eb" in terminal.seen


def test_the_screen_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = decided(monkeypatch, ("1 of 3", b"q"))
    assert terminal.seen.startswith("\x1b[?1049h")
    assert terminal.seen.endswith("\x1b[?1049l")


def test_a_summary_counts() -> None:
    assert summarize([MASK, KEEP, KEEP]) == "1 masked, 2 kept"
    assert summarize([FALSE_POSITIVE]) == "0 masked, 1 false positive"
