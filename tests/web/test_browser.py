"""The web application in Chromium: every screen, wide and narrow, light and dark, by keyboard."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browser import DESKTOP, PHONE, ROOT, Window, run_application, start_browser
from helpers.xss import list_payloads
from library.index.sessions import SessionFile

pytestmark = pytest.mark.full

TIDE = "11111111-aaaa-4aaa-8aaa-111111111111"
LONG = "22222222-bbbb-4bbb-8bbb-222222222222"
PICTURES = ROOT / "docs" / "images"
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1440", "390"])


def write_sessions(home: Path) -> None:
    """Write the sessions that the pictures of the documentation show."""
    stories = [
        ("harbor", "main", "Add dark mode to the settings page", 3),
        ("harbor", "main", "Why is the build slow on the second run?", 2),
        ("tide", "fix/zone", "The table of tides is an hour off in summer", 5),
        ("tide", "main", "Rename the export command", 1),
        ("atlas", "main", "Write a migration for the new column", 4),
    ]
    for number, (project, branch, title, steps) in enumerate(stories):
        session = SessionFile(
            home,
            f"{number:08d}-aaaa-4aaa-8aaa-111111111111",
            cwd=f"{home}/{project}",
            branch=branch,
        )
        session.ask(title)
        for step in range(steps):
            session.call("Read", {"file_path": f"/home/sam/{project}/app.py"}, "import zone\n" * 12)
            session.call(
                "Edit",
                {
                    "file_path": f"/home/sam/{project}/app.py",
                    "old_string": "offset = 1\n",
                    "new_string": f"offset = zone.offset({step})\nassert offset\n",
                },
                "The file has been updated.",
            )
            fails = step == 1
            output = "1 failed, 12 passed" if fails else "13 passed"
            session.call("Bash", {"command": "make test"}, output, fails=fails)
            session.answer(f"Step {step + 1}: the offset now comes from the zone.", tokens=42_000)
        session.answer(
            "Done: the table follows the zone, and a test covers the change of the clock."
        )
        moment = time.time() - number * 40_000
        os.utime(session.path, (moment, moment))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_sessions(folder)
    return folder


@pytest.fixture(scope="module")
def story(home: Path) -> SessionFile:
    """A long session that nobody has written to for a year."""
    session = SessionFile(home, LONG, cwd="/home/sam/long", minute=10_000)
    session.ask("A long story")
    for number in range(300):
        session.answer(f"Paragraph {number} of the long story.")
    os.utime(session.path, (1_760_000_000, 1_760_000_000))
    return session


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with start_browser() as running:
        yield running


@pytest.fixture
def link(home: Path) -> Iterator[str]:
    with run_application(home) as given:
        yield given


def skip_greeting(window: Window) -> None:
    window.page.wait_for_selector("a.session")
    window.page.request.post(
        f"{window.origin}/web/settings/welcome", data={}, headers={"origin": window.origin}
    )
    window.open("/sessions")
    window.page.wait_for_selector("a.session")


@SIZES
def test_every_screen(
    browser: Any, link: str, size: dict[str, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    window = Window(browser, link, size)
    page = window.page
    skip_greeting(window)
    is_wide = size is DESKTOP
    folder = PICTURES if request.config.option.accept else tmp_path
    suffix = "" if is_wide else "-phone"
    page.get_by_text("hour off in summer").first.click()
    window.frame.locator(".row:visible").first.wait_for()
    page.wait_for_selector(".waiting", state="detached")
    window.take_picture(f"web-sessions{suffix}", folder)
    if not is_wide:
        page.get_by_role("button", name="Back").click()
    page.wait_for_selector("a.session", state="visible")

    page.keyboard.press("Control+k")
    page.locator("#search-words").fill("offset zone")
    page.wait_for_selector("a.hit")
    page.locator("a.hit").first.click()
    window.frame.locator(":target").wait_for()
    page.wait_for_selector(".waiting", state="detached")
    window.take_picture(f"web-search{suffix}", folder)

    window.open("/usage?since=")
    page.wait_for_selector("table.usage")
    window.take_picture(f"web-usage{suffix}", folder)

    window.open("/settings")
    page.wait_for_selector("#try-text")
    page.fill("#try-text", "password = correct-horse-battery-9")
    page.wait_for_selector(".try-result pre")
    window.take_picture(f"web-settings{suffix}", folder)
    for frame in page.frames:
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.check()


@SIZES
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_there_is_no_serious_fault_of_accessibility(
    browser: Any, link: str, size: dict[str, int], theme: str
) -> None:
    window = Window(browser, link, size, theme)
    window.page.wait_for_selector("a.session")
    faults = window.find_accessibility_faults()
    skip_greeting(window)
    window.page.locator("a.session").first.click()
    window.frame.locator(".row:visible").first.wait_for()
    faults += window.find_accessibility_faults()
    for path, selector in (
        ("/search?q=offset", "a.hit"),
        ("/usage?since=", "table.usage"),
        ("/settings", "#try-text"),
    ):
        window.open(path)
        window.page.wait_for_selector(selector, state="attached")
        faults += window.find_accessibility_faults()
    assert faults == []


def test_everything_by_keyboard(browser: Any, link: str) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    skip_greeting(window)
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.dataset.key")
    page.keyboard.press("j")
    second = page.evaluate("document.activeElement.dataset.key")
    assert first
    assert second not in (first, None)
    page.keyboard.press("Enter")
    window.frame.locator(".row:visible").first.wait_for()
    assert page.url.endswith(second)
    page.keyboard.press("[")
    page.wait_for_url(f"**/{first}")
    page.keyboard.press("/")
    page.keyboard.type("failed:>0")
    window.wait_until("document.querySelectorAll('a.session').length === 4")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("4")
    page.wait_for_selector("table.usage, .notice")
    assert "/usage" in page.url
    page.keyboard.press("Control+k")
    page.keyboard.type("dark mode")
    page.wait_for_selector("a.hit")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    window.frame.locator(":target").wait_for()
    window.frame.locator("body").press("Escape")
    page.wait_for_url("**/search?q=dark%20mode")
    page.keyboard.press("Escape")
    page.locator("#search-words").blur()
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    window.check()


def test_a_session_grows_while_it_is_read(
    browser: Any, home: Path, story: SessionFile, link: str
) -> None:
    window = Window(browser, link, DESKTOP)
    page = window.page
    skip_greeting(window)
    page.get_by_text("A long story").first.click()
    frame = window.frame
    frame.get_by_text("Paragraph 299 of").wait_for(state="attached")
    page.wait_for_timeout(500)
    inner = page.frames[1]
    inner.evaluate("scrollTo(0, 2000)")
    page.wait_for_timeout(200)
    before = inner.evaluate("document.querySelector('.at, .ev:nth-of-type(30)').id + scrollY")
    story.answer("A paragraph that came later.")
    frame.get_by_text("A paragraph that came later.").wait_for(state="attached")
    assert (
        inner.evaluate("document.querySelector('.at, .ev:nth-of-type(30)').id + scrollY") == before
    )
    frame.get_by_role("button", name="1 new row below").click()
    story.answer("And one more at the end.")
    frame.get_by_text("And one more at the end.").wait_for()
    assert inner.evaluate("innerHeight + scrollY > document.body.scrollHeight - innerHeight")
    # The list shows it first, with a dot.
    page.wait_for_selector("a.session .live")
    assert page.locator("a.session").first.inner_text().startswith("live")
    new = SessionFile(home, "99999999-aaaa-4aaa-8aaa-111111111111", cwd=f"{home}/new")
    new.ask("A session that has just begun")
    page.get_by_text("A session that has just begun").first.wait_for()
    new.path.unlink()
    window.check()


def test_a_person_without_sessions_reads_what_to_do(browser: Any, tmp_path: Path) -> None:
    with run_application(tmp_path) as link:
        window = Window(browser, link, DESKTOP)
        window.page.get_by_text("No sessions yet").wait_for()
        assert window.page.get_by_text("open-token formats").count()
        window.open("/usage")
        window.page.get_by_text("Nothing was used in this time").wait_for()
        window.open("/settings")
        window.page.get_by_text("No sessions of agents were found").wait_for()
        window.check()


def test_the_first_visit_offers_to_keep_sessions(browser: Any, tmp_path: Path) -> None:
    old = SessionFile(tmp_path, TIDE)
    old.ask("Something from four weeks ago")
    moment = time.time() - 27 * 86_400
    os.utime(old.path, (moment, moment))
    with run_application(tmp_path) as link:
        window = Window(browser, link, DESKTOP)
        window.page.get_by_text("1 will be deleted by their agent within 7 days").wait_for()
        window.page.get_by_role("button", name="Keep them").click()
        window.page.get_by_text("1 session archived").wait_for()
        window.page.locator(".badge", has_text="archived").wait_for()
        window.check()


PAYLOADS_PER_SESSION = 10


def write_hostile_sessions(home: Path, payloads: list[str]) -> None:
    """Write sessions with payloads in every field that a screen shows."""
    folder = home / ".claude" / "projects" / "-hostile"
    folder.mkdir(parents=True)
    for first in range(0, len(payloads), PAYLOADS_PER_SESSION):
        chosen = payloads[first : first + PAYLOADS_PER_SESSION]
        session_id = f"{first:08d}-cccc-4ccc-8ccc-333333333333"
        records: list[dict[str, Any]] = [
            {"type": "summary", "summary": f"hostile {chosen[0]}", "leafUuid": f"u{first}c"}
        ]
        for number, payload in enumerate(chosen, first):
            records += build_hostile_records(session_id, number, payload)
        lines = [json.dumps(record) for record in records]
        (folder / f"{session_id}.jsonl").write_text("\n".join(lines) + "\n")


def build_hostile_records(session_id: str, number: int, payload: str) -> list[dict[str, Any]]:
    """Build a prompt, a call and its result, in which everything is the payload."""
    common = {
        "sessionId": session_id,
        "cwd": f"/x/{payload}",
        "gitBranch": payload,
        "version": "2.1.40",
        "timestamp": "2026-11-01T10:00:00Z",
    }
    arguments = {"file_path": payload, "old_string": payload, "new_string": f"{payload} {number}"}
    calls = [
        {"type": "tool_use", "id": f"t{number}a", "name": payload, "input": {"x": payload}},
        {"type": "tool_use", "id": f"t{number}b", "name": "Edit", "input": arguments},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": payload} for call in calls
    ]
    usage = {"input_tokens": 5, "output_tokens": 5}
    answer = {"role": "assistant", "type": "message", "id": f"m{number}", "model": payload}
    asked = {"type": "user", "uuid": f"u{number}a", "message": {"role": "user", "content": payload}}
    content = [{"type": "text", "text": payload}, *calls]
    said = {
        "type": "assistant",
        "uuid": f"u{number}b",
        "parentUuid": f"u{number}a",
        "message": {**answer, "content": content, "usage": usage},
    }
    given = {
        "type": "user",
        "uuid": f"u{number}c",
        "parentUuid": f"u{number}b",
        "message": {"role": "user", "content": results},
    }
    return [{**common, **record} for record in (asked, said, given)]


def open_all_rows(window: Window) -> None:
    """Open every row of the page in the frame."""
    window.frame.locator(".row, .ev").first.wait_for(state="attached")
    inner = window.page.frames[1]
    inner.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert inner.evaluate("document.querySelectorAll('script:not([src^=\"/web/\"])').length") == 0


def test_no_session_runs_a_script_or_asks_for_anything(browser: Any, tmp_path: Path) -> None:
    payloads = list_payloads()
    assert len(payloads) >= 300
    write_hostile_sessions(tmp_path, payloads)
    with run_application(tmp_path) as link:
        window = Window(browser, link, DESKTOP)
        page = window.page
        skip_greeting(window)
        count = -(-len(payloads) // PAYLOADS_PER_SESSION)
        window.wait_until(f"document.querySelectorAll('.session .branch').length === {count}")
        rows = page.request.get(f"{window.origin}/web/sessions?limit=500").json()["sessions"]
        keys = [row["key"] for row in rows]
        assert len(keys) == count
        for key in keys:
            window.open(f"/sessions/{key}")
            open_all_rows(window)
        for key in keys[::6]:
            window.open(f"/share/{key}")
            open_all_rows(window)
        for first, second in zip(keys[::3], keys[1::3], strict=False):
            window.open(f"/compare/{first}/{second}")
            open_all_rows(window)
        window.open(f"/compare/{'/'.join(keys[:8])}")
        page.wait_for_selector("table.compared-table")
        for by in ("project", "model", "agent", "tool", "branch"):
            window.open(f"/usage?by={by}&since=")
            page.wait_for_selector("table.usage")
        window.open("/lines")
        page.wait_for_selector("#lines-folder", state="attached")
        type_each(window, "/search", "#search-words", [f"hostile {text}" for text in payloads])
        type_each(window, "/sessions", "#session-filter", payloads[::5])
        type_each(window, "/compare", "#compare-filter", payloads[::5])
        type_each(window, "/settings", "#try-text", payloads[::3])
        assert (
            page.evaluate("document.querySelectorAll('script:not([src^=\"/web/\"])').length") == 0
        )
        # A filter or a search that is none is answered with an error in words.
        window.problems = [text for text in window.problems if "400" not in text]
        window.check()


def type_each(window: Window, path: str, field: str, texts: list[str]) -> None:
    """Write each text into a field, and wait until the screen has asked for it."""
    window.open(path)
    window.page.wait_for_selector(field)
    for text in texts:
        window.page.fill(field, text.replace("\0", ""))
        window.page.wait_for_timeout(160)
