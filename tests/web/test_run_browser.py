"""Run in Chromium: a chat with the demo model, wide and narrow, light and dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import DESKTOP, PHONE, ROOT, Window, run_application, start_browser
from helpers.page_checker import HOSTILE
from library.index.sessions import SessionFile

pytestmark = pytest.mark.full
PICTURES = ROOT / "docs" / "images"
SIZES = pytest.mark.parametrize(
    ("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["1440", "390"]
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with start_browser() as running:
        yield running


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("fastapi")
    monkeypatch.setenv("OPEN_TOKEN_DEMO_DELAY", "0.005")
    session = SessionFile(tmp_path, "11111111-aaaa-4aaa-8aaa-111111111111")
    session.ask("Why does the tide table fail?")
    session.call("Bash", {"command": "make test"}, "1 failed", fails=True)
    session.answer("The zone was wrong.")
    with run_application(tmp_path) as given:
        yield given


class Chat:
    """The screen as its user has it."""

    def __init__(self, window: Window) -> None:
        self.page = window.page
        window.open("/run/new")

    def send(self, text: str) -> None:
        self.page.fill("#run-message", text)
        self.page.keyboard.press("Enter")

    def wait_until_idle(self) -> None:
        self.page.wait_for_selector(".run-state:empty", state="attached")
        self.page.wait_for_selector(".streaming", state="detached")


@SIZES
def test_a_chat(browser: Any, link: str, size: dict[str, int], theme: str) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    chat = Chat(window)
    page.get_by_text("No model is configured").wait_for()
    chat.send("think list files subagent card bridge plan")
    page.get_by_text("Plan gave").wait_for()
    chat.wait_until_idle()
    assert page.locator("details.row.think").count() == 1
    assert page.locator("details.row.tool.k-search").count() == 2
    assert page.locator("details.row.span details.row.k-search").count() == 1
    assert page.locator(".plan li").count() == 3
    frame = page.locator("iframe")
    assert frame.get_attribute("sandbox") == ""
    page.frame_locator("iframe").get_by_text("A card of HTML").wait_for()

    chat.send("ask")
    page.get_by_label("Left By the river").check()
    page.get_by_role("button", name="Answer").click()
    page.wait_for_selector("form.question", state="detached")
    chat.wait_until_idle()

    chat.send("long")
    stop = page.get_by_role("button", name="Stop")
    stop.wait_for()
    chat.send("hello")
    page.get_by_text("waits hello").wait_for()
    stop.click()
    page.get_by_text("This is the demo").wait_for()
    page.wait_for_selector(".queue li", state="detached")
    chat.wait_until_idle()

    page.get_by_role("button", name="Go back to here").nth(1).click()
    page.get_by_label("Other branches").wait_for()
    assert page.input_value("#run-message") == "ask"
    assert page.get_by_text("This is the demo").count() == 0
    page.get_by_label("Other branches").select_option(label="hello")
    page.get_by_text("This is the demo").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.check()


@SIZES
def test_a_session_is_continued(
    browser: Any,
    link: str,
    size: dict[str, int],
    theme: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    window.open("/sessions")
    page.locator("a.session").first.wait_for()
    skip = page.get_by_role("button", name="Just look")
    if skip.count():
        skip.click()
    page.locator("a.session").first.click()
    page.get_by_role("link", name="Continue here").click()
    page.locator(".say").get_by_text("The zone was wrong.").wait_for()
    assert "make test" in page.locator("details.row.tool.bad").inner_text()
    page.fill("#run-message", "list files")
    page.keyboard.press("Enter")
    page.get_by_text("Glob gave").wait_for()
    page.wait_for_selector(".run-state:empty", state="attached")
    if size is DESKTOP:
        folder = PICTURES if request.config.option.accept else tmp_path
        window.take_picture("web-run", folder)
    window.check()


@SIZES
def test_approvals_and_a_run_that_fails(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    chat = Chat(window)
    page.get_by_label("Ask before each tool call").check()
    chat.send("list files")
    page.get_by_label("Deny").check()
    page.get_by_role("button", name="Answer").click()
    page.get_by_text("Glob failed").wait_for()
    chat.send("fail")
    page.get_by_text("The run failed: the demo fails").wait_for()
    window.check()


@SIZES
def test_schedules_memories_and_keys(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    add = page.get_by_role("button", name="Add", exact=True)
    window.open("/run/memories")
    page.get_by_label("Remember").fill("Prefers small commits")
    add.click()
    page.get_by_role("button", name="Disable: Prefers small commits").click()
    page.get_by_text("used 0 times, disabled").wait_for()
    window.open("/run/schedules")
    page.get_by_label("Title").fill("Report")
    page.get_by_label("Prompt").fill("Sum up")
    add.click()
    page.get_by_role("button", name="Pause: Report").click()
    page.get_by_text("UTC, paused").wait_for()
    window.open("/run/keys")
    page.get_by_label("Name").fill("laptop")
    add.click()
    page.get_by_text("it is shown only once").wait_for()
    window.check()


def test_no_words_of_an_agent_or_a_person_run(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    chat = Chat(window)
    chat.send(f"remember {' '.join(HOSTILE)[:400]}")
    window.page.get_by_text("Remember gave").wait_for()
    chat.send("\n".join(text for text in HOSTILE if text.isprintable()))
    window.page.get_by_text("This is the demo").wait_for()
    window.open("/run/memories")
    window.page.get_by_text("used 1 times").wait_for()
    window.check()


@SIZES
def test_there_is_no_serious_fault_of_accessibility(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    chat = Chat(window)
    window.page.get_by_text("No model is configured").wait_for()
    faults = window.find_accessibility_faults()
    chat.send("think list files subagent bridge plan ask")
    window.page.wait_for_selector("form.question")
    faults += window.find_accessibility_faults()
    for name in ("schedules", "memories", "keys"):
        window.open(f"/run/{name}")
        window.page.wait_for_selector(".panel-item")
        faults += window.find_accessibility_faults()
    assert faults == []


@SIZES
def test_files_of_the_workspace(
    browser: Any, link: str, size: dict[str, int], theme: str, tmp_path: Path
) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    chat = Chat(window)
    chat.send("hello")
    page.get_by_text("This is the demo").wait_for()
    chat.wait_until_idle()
    page.get_by_role("button", name="Files").click()
    panel = page.get_by_label("Files of the workspace", exact=True)
    page.wait_for_selector(".files-place .link")
    notes = tmp_path / "tide notes #1 <b>.md"
    notes.write_text("high water at noon\n")
    panel.locator("input[type=file]").set_input_files(notes)
    entry = panel.get_by_role("link", name=notes.name)
    entry.wait_for()
    with page.expect_download() as download:
        entry.click()
    assert Path(download.value.path()).read_text() == "high water at noon\n"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.remove_listener("dialog", window.take_dialog)
    page.once("dialog", lambda dialog: dialog.accept())
    panel.get_by_role("button", name=f"Delete {notes.name}").click()
    entry.wait_for(state="detached")
    window.check()
    assert window.find_accessibility_faults() == []


@SIZES
def test_a_session_is_replayed(browser: Any, link: str, size: dict[str, int], theme: str) -> None:
    window = Window(browser, link, size, theme)
    page = window.page
    chat = Chat(window)
    chat.send("list files")
    page.get_by_text("Glob gave").wait_for()
    chat.wait_until_idle()
    first = page.url
    page.get_by_role("button", name="Replay", exact=True).click()
    controls = page.get_by_role("group", name="Replay")
    controls.wait_for()
    assert page.url != first
    page.get_by_text("The replay is over").wait_for()
    page.get_by_text("Glob gave").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.check()
    assert window.find_accessibility_faults() == []
