"""Compare in Chromium: choose sessions, read two side by side, and several as a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import DESKTOP, PHONE, ROOT, Window, run_application, start_browser
from library.index.sessions import SessionFile

pytestmark = pytest.mark.full

PICTURES = ROOT / "docs" / "images"
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1440", "390"])
PROMPT = "The table of tides is an hour off in summer"


def write_sessions(home: Path) -> None:
    """Write three runs of one task, and a session of another folder."""
    ways = [
        ("offset = zone.offset()\n", ["make test"], "Done: the table follows the zone."),
        (
            "offset = zone.offset(day)\n",
            ["git log --oneline -3", "make test"],
            "The offset now depends on the day, and a test covers the change of the clock.",
        ),
        ("offset = 2\n", ["make test"], "The offset is 2 now."),
    ]
    for number, (new, commands, answer) in enumerate(ways):
        session = SessionFile(
            home,
            f"{number:08d}-aaaa-4aaa-8aaa-111111111111",
            cwd=f"{home}/tide",
            branch=f"try/{number}",
        )
        session.ask(PROMPT)
        session.call("Read", {"file_path": f"{home}/tide/app.py"}, "import zone\n" * 12)
        session.call("Bash", {"command": "make test"}, "1 failed, 12 passed", fails=True)
        for command in commands[:-1]:
            session.call("Bash", {"command": command}, "3f2a Follow the zone\n91bc Add tides")
        session.call(
            "Edit",
            {"file_path": f"{home}/tide/app.py", "old_string": "offset = 1\n", "new_string": new},
            "The file has been updated.",
        )
        session.call("Bash", {"command": commands[-1]}, "13 passed", fails=number == 2)
        session.answer(answer, tokens=21_000 + 9_000 * number)
    other = SessionFile(home, "00000009-aaaa-4aaa-8aaa-111111111111", cwd=f"{home}/harbor")
    other.ask("Add dark mode to the settings page")
    other.answer("Done.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with start_browser() as running:
        yield running


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    write_sessions(tmp_path)
    with run_application(tmp_path) as given:
        yield given


def open_compare(window: Window) -> None:
    window.page.wait_for_selector("a.session")
    window.page.wait_for_selector(".indexing", state="hidden")
    window.open("/compare")
    window.page.wait_for_selector(".candidate")


def choose(window: Window, *branches: str) -> None:
    """Choose sessions, which take turns with what they are compared on on a phone."""
    for branch in branches:
        back = window.page.get_by_role("button", name="Choose", exact=True)
        if back.is_visible():
            back.click()
        box = window.page.locator(".candidate", has_text=branch).locator("input")
        box.check()


@SIZES
def test_two_sessions_side_by_side(
    browser: Any, link: str, size: dict[str, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    window = Window(browser, link, size)
    page = window.page
    open_compare(window)
    page.get_by_text("Choose sessions").wait_for(state="attached")
    choose(window, "try/0")
    page.locator(".group-title", has_text="tide").wait_for()
    choose(window, "try/1")
    frame = window.frame
    frame.locator(".pair").first.wait_for()
    frame.get_by_text("the sessions part here").wait_for()
    page.wait_for_selector(".waiting", state="detached")
    for inner in page.frames:
        assert inner.evaluate("document.documentElement.scrollWidth <= innerWidth")
    folder = PICTURES if request.config.option.accept else tmp_path
    window.take_picture("web-compare" if size is DESKTOP else "web-compare-phone", folder)
    frame.get_by_role("button", name="Next difference").click()
    assert frame.locator(".pair.at").count() == 1
    page.get_by_role("link", name="Swap").click()
    frame.locator(".d-missing").first.wait_for()
    page.get_by_role("link", name="Read A").click()
    page.wait_for_url("**/sessions/**")
    window.check()


@SIZES
def test_three_sessions_are_a_table(browser: Any, link: str, size: dict[str, int]) -> None:
    window = Window(browser, link, size)
    page = window.page
    open_compare(window)
    choose(window, "try/0", "try/1", "try/2")
    page.wait_for_selector("table.compared-table")
    assert page.locator(".compared-table tbody tr").count() == 3
    assert page.locator(".sentences li").count() == 2
    page.get_by_role("link", name="A and C").click()
    window.frame.locator(".pair").first.wait_for()
    choose(window, "try/1")
    page.wait_for_selector("table.compared-table")
    if size is PHONE:
        page.get_by_role("button", name="Choose", exact=True).click()
    page.get_by_role("button", name="Do not compare").nth(2).click()
    window.frame.locator(".pair").first.wait_for()
    window.check()


def test_by_keyboard(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    open_compare(window)
    page.keyboard.press("j")
    page.keyboard.press("Space")
    page.locator(".chosen li").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    window.frame.locator(".pair").first.wait_for()
    assert page.locator(".candidate input:checked").count() == 2
    page.keyboard.press("/")
    page.keyboard.type("harbor")
    window.wait_until("document.querySelectorAll('.candidate').length === 1")
    assert "dark mode" in page.locator(".candidate").inner_text()
    window.check()


def test_a_session_is_compared_from_its_page(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    open_compare(window)
    window.open("/sessions")
    page.locator("a.session", has_text="try/2").click()
    page.get_by_role("toolbar").get_by_role("link", name="Compare").click()
    page.get_by_text("Choose another session").wait_for()
    assert page.locator(".chosen li").count() == 1
    window.check()


@SIZES
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_there_is_no_serious_fault_of_accessibility(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    open_compare(window)
    choose(window, "try/0")
    faults = window.find_accessibility_faults()
    choose(window, "try/1")
    window.frame.locator(".pair").first.wait_for()
    faults += window.find_accessibility_faults()
    choose(window, "try/2")
    window.page.wait_for_selector("table.compared-table")
    faults += window.find_accessibility_faults()
    assert faults == []
