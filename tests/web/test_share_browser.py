"""Share in Chromium: decide on findings, mark words, leave rows out, and save the file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import DESKTOP, PHONE, ROOT, Window, run_application, start_browser
from library.index.sessions import SessionFile
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.redaction.rule_catalogue import fill_placeholders

pytestmark = pytest.mark.full

TOKEN = fill_placeholders("ghp_{alnum:36}", "share")[0]
DATABASE = fill_placeholders("postgres://tide:{alnum:20}@db.example.net/tides", "share")[0]
PICTURES = ROOT / "docs" / "images"
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1440", "390"])


def write_session(home: Path) -> None:
    session = SessionFile(home, "00000002-aaaa-4aaa-8aaa-111111111111", cwd=f"{home}/tide")
    session.ask("The table of tides is an hour off in summer")
    session.call("Read", {"file_path": f"{home}/tide/app.py"}, "import zone\n" * 12)
    session.call("Bash", {"command": "cat .env"}, f"DATABASE_URL={DATABASE}\nGITHUB_TOKEN={TOKEN}")
    session.answer("The offset ignores the zone. I correct it for Harbor Works.")
    session.call(
        "Edit",
        {
            "file_path": f"{home}/tide/app.py",
            "old_string": "offset = 1\n",
            "new_string": "offset = zone.offset()\n",
        },
        "The file has been updated.",
    )
    session.call("Bash", {"command": f"curl -H 'Authorization: {TOKEN}' api.example.net"}, "ok")
    session.answer("Done: the table follows the zone, and a test covers the change of the clock.")
    session.ask("Push it, please")
    session.call("Bash", {"command": "git push"}, "1 file changed")
    session.answer("Pushed.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with start_browser() as running:
        yield running


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    write_session(tmp_path)
    with run_application(tmp_path) as given:
        yield given


def open_share(window: Window) -> None:
    page = window.page
    page.wait_for_selector("a.session")
    page.request.post(
        f"{window.origin}/web/settings/welcome", data={}, headers={"origin": window.origin}
    )
    window.open("/sessions")
    page.locator("a.session").first.click()
    page.get_by_role("link", name="Share").click()
    page.wait_for_selector("li.finding")


def show_page(window: Window) -> Any:
    """Show the page, which takes turns with the findings on a phone."""
    button = window.page.get_by_role("button", name="Page and publish")
    if button.is_visible():
        button.click()
    window.frame.locator("mark[data-finding]").first.wait_for(state="attached")
    return window.frame


def show_findings(window: Window) -> None:
    button = window.page.get_by_role("button", name="Findings")
    if button.is_visible():
        button.click()


def count(window: Window) -> str:
    return str(window.page.locator(".list-head .count").inner_text())


def save(window: Window, format: str) -> bytes:
    page = window.page
    show_page(window)
    page.get_by_label("Format").select_option(format)
    with page.expect_download() as download:
        page.get_by_role("button", name="Publish", exact=True).click()
    return Path(download.value.path()).read_bytes()


@SIZES
def test_a_session_is_shared(
    browser: Any, link: str, size: dict[str, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    window = Window(browser, link, size)
    page = window.page
    open_share(window)
    assert count(window) == "2 of 2 undecided"
    frame = show_page(window)
    assert frame.locator("mark.undecided").count() >= 2
    show_findings(window)
    assert TOKEN not in page.content()

    first = page.locator("li.finding").first
    first.get_by_role("button", name="Show value").click()
    first.locator(".value").wait_for()
    first.get_by_role("button", name="Hide value").click()
    first.get_by_role("button", name="Mask", exact=True).click()
    page.get_by_text("1 of 2 undecided").wait_for()
    page.get_by_label("A word to mask").fill("harbor works")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 3 undecided").wait_for()
    frame = show_page(window)
    frame.locator("mark", has_text="REDACTED:word").first.wait_for(state="attached")
    folder = PICTURES if request.config.option.accept else tmp_path
    suffix = "" if size is DESKTOP else "-phone"
    if size is PHONE:
        show_findings(window)
    window.take_picture(f"web-share{suffix}", folder, rows=540)

    # Publishing asks while something is undecided.
    show_page(window)
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_text("1 finding undecided").wait_for()
    page.get_by_role("button", name="Go back").click()
    show_findings(window)
    page.locator("li.undecided").get_by_role("button", name="Keep").click()
    page.get_by_text("0 of 3 undecided").wait_for()
    html = save(window, "html").decode()
    kept = TOKEN if TOKEN in html else DATABASE
    assert (TOKEN in html) != (DATABASE in html)
    assert "Harbor Works" not in html
    frame = show_page(window)
    frame.get_by_text(kept).first.wait_for(state="attached")
    document = save(window, "json")
    assert verify_bytes(document).status == VERIFIED
    assert save(window, "markdown").startswith(b"#")
    for inner in page.frames:
        assert inner.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.problems = [text for text in window.problems if "409" not in text]
    window.check()


def test_rows_words_and_ends_on_the_page_itself(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    open_share(window)
    frame = show_page(window)
    frame.locator("summary", has_text="git push").hover()
    frame.get_by_role("button", name="Leave out").click()
    frame.locator("summary", has_text="git push").wait_for(state="detached")
    page.locator(".chips li", has_text="assistant: Bash").wait_for()
    frame.locator("main").get_by_text("Pushed.").dblclick(position={"x": 20, "y": 12})
    frame.get_by_role("button", name="Mask these words").click()
    page.locator(".chips li", has_text="Pushed").wait_for()
    frame.locator("mark", has_text="REDACTED:word").first.wait_for(state="attached")
    page.get_by_label("End before").select_option(index=2)
    frame.locator("h2", has_text="Push it").wait_for(state="detached")
    page.keyboard.press("u")
    frame.locator("h2", has_text="Push it").wait_for(state="attached")
    page.locator(".chips li", has_text="assistant: Bash").get_by_role("button").click()
    frame.locator("summary", has_text="git push").wait_for()
    window.check()


def test_by_keyboard(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    open_share(window)
    show_page(window)
    page.locator("body").press("j")
    page.keyboard.press("p")
    page.get_by_text("1 of 2 undecided").wait_for()
    page.keyboard.press("m")
    page.get_by_text("0 of 2 undecided").wait_for()
    page.keyboard.press("u")
    page.get_by_text("1 of 2 undecided").wait_for()
    mark = window.frame.locator("mark[data-finding]").first
    mark.press("Enter")
    page.wait_for_selector("li.finding[aria-current]")
    page.keyboard.press("Escape")
    page.wait_for_url("**/sessions/**")
    window.check()


@SIZES
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_there_is_no_serious_fault_of_accessibility(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    open_share(window)
    window.page.locator("li.finding").first.get_by_role("button", name="Keep").click()
    window.page.get_by_text("1 of 2 undecided").wait_for()
    faults = window.find_accessibility_faults()
    show_page(window)
    faults += window.find_accessibility_faults()
    assert faults == []


def test_a_word_may_be_anything(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    open_share(window)
    words = ["<img src=x onerror=alert(1)>", "');alert(1)//", "(?i)[x", "\\C\\1", "{{7*7}}"]
    for number, word in enumerate(words, 1):
        page.get_by_label("A word to mask").fill(word)
        page.keyboard.press("Enter")
        window.wait_until(f"document.querySelectorAll('.chips li').length === {number}")
        page.wait_for_selector(".list:not([aria-busy])")
    assert page.locator(".share-part .chips bdi").all_inner_texts() == words
    window.check()
