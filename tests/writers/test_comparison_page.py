"""The page that shows two sessions side by side."""

import io
import re

import open_token
from helpers.page_checker import HOSTILE, check_page
from helpers.random_runs import build_document, build_message, call, calls
from open_token.comparison import Difference
from open_token.writers.html.comparison import write

START = [
    build_message("user", "Fix the table of tides."),
    calls(call("Bash", "3 passed", command="make test")),
    calls(call("Read", "a\nb", file_path="/home/sam/tide.py")),
]
A = build_document(
    [
        *START,
        calls(call("Edit", file_path="/home/sam/tide.py", old_string="x = 1", new_string="x = 2")),
        calls(call("Bash", "bad", failed=True, command="make test")),
        build_message("assistant", "It still fails."),
    ],
    cwd="/home/sam",
)
B = build_document(
    [
        *START,
        calls(
            call("Edit", file_path="/home/sam/tide.py", old_string="x = 1", new_string="x = zone()")
        ),
        calls(call("Grep", "2 hits", pattern="zone")),
        calls(call("Bash", "4 passed", command="make test")),
        build_message("assistant", "It passes now."),
    ],
    shift=100,
    cwd="/home/sam",
    title="Tides again",
)


def render(difference: Difference) -> str:
    out = io.BytesIO()
    assert write(difference, out) == len(out.getvalue())
    return out.getvalue().decode()


def test_equal_steps_are_folded_and_differences_stand_side_by_side() -> None:
    page = render(open_token.diff(A, B))
    check_page(page)
    assert "3 equal steps</summary>" in page
    assert page.count('<section class="pair') == 4
    assert "the sessions part here" in page
    assert "x = <del>2</del><ins>zone()</ins>" in page
    ids = re.findall(r'id="([ab])-evt_', page)
    assert set(ids) == {"a", "b"}
    assert "Last answers" in page
    assert "It still fails." in page
    assert "It passes now." in page


def test_totals_say_what_the_second_has_more_or_less() -> None:
    page = render(open_token.diff(A, B))
    totals = page.partition('<table class="totals">')[2].partition("</table>")[0]
    assert "Tides again" in totals
    assert "+1 <small>+17 %</small>" in totals
    assert "-1 <small>-100 %</small>" in totals
    assert "<code>tide.py</code>" in page


def test_equal_sessions_have_no_differences() -> None:
    page = render(open_token.diff(A, A))
    check_page(page)
    assert '<section class="pair' not in page
    assert "Next difference" not in page
    assert "Last answers" not in page


def test_nothing_that_a_session_says_is_markup() -> None:
    steps = [
        calls(call(text, text, command=text, file_path=text, old_string=text)) for text in HOSTILE
    ]
    words = [build_message(role, text) for text in HOSTILE for role in ("user", "assistant")]
    a = build_document([*words, *steps], title=HOSTILE[0], cwd=HOSTILE[0])
    b = build_document([*reversed(words), *reversed(steps)], shift=900, title=HOSTILE[1])
    for difference in (open_token.diff(a, b), open_token.diff(b, a, level="exact")):
        check_page(render(difference))
