"""The list of sessions, and a session as a page."""

import re
from pathlib import Path

import pytest

from helpers.web_client import WebClient
from library.index.sessions import SessionFile
from open_token.web.reading import Reading

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"
SECOND = "22222222-bbbb-4bbb-8bbb-222222222222"


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    first = SessionFile(tmp_path, FIRST)
    first.ask("Why does the tide table fail?")
    first.call("Bash", {"command": "make test"}, "1 failed", fails=True)
    first.call("Edit", {"file_path": "/x.py", "old_string": "a\n", "new_string": "b\nc\n"}, "ok")
    first.answer("The zone was wrong.", tokens=1000)
    second = SessionFile(tmp_path, SECOND, cwd="/home/sam/other", branch="fix")
    second.ask("Rename the command")
    first.touch(1)
    second.touch(2)
    web = WebClient(tmp_path)
    web.index()
    return web


def list_titles(client: WebClient, line: str = "") -> list[str]:
    answer = client.get(f"/web/sessions?filter={line.replace(' ', '%20')}")
    assert answer.status == 200, answer.text
    return [row["title"] for row in answer.json["sessions"]]


def test_the_newest_session_comes_first(client: WebClient) -> None:
    titles = list_titles(client)
    assert titles == ["Rename the command", "Why does the tide table fail?"]


def test_a_row_has_the_facts_of_its_session(client: WebClient) -> None:
    row = client.get("/web/sessions").json["sessions"][1]
    assert row["agent"] == "claude-code"
    assert row["cwd"] == "/home/sam/tide"
    assert row["branch"] == "main"
    assert (row["prompts"], row["calls"], row["failures"]) == (1, 2, 1)
    assert (row["added"], row["removed"]) == (2, 1)
    assert row["cost"] > 0
    assert row["tokens"] == 2000


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("agent:claude-code", 2),
        ("agent:codex", 0),
        ("project:tide", 1),
        ("branch:fix", 1),
        ("failed:>0", 1),
        ("failed:0", 1),
        ("cost:>5", 0),
        ("touched:x.py", 1),
        ("since:2026-11-03", 1),
        ("until:2026-11-02", 1),
        ("is:archived", 0),
        ("tide", 1),
        ('"tide table"', 1),
        ("rename fix", 1),
        ("http://x", 0),
    ],
)
def test_the_filter_line(client: WebClient, line: str, count: int) -> None:
    assert len(list_titles(client, line)) == count


@pytest.mark.parametrize("line", ["failed:many", "since:soon", "is:odd"])
def test_a_filter_that_makes_no_sense_is_explained(client: WebClient, line: str) -> None:
    answer = client.get(f"/web/sessions?filter={line}")
    assert answer.status == 400
    assert "for example" in answer.json["help"]


def test_rows_come_in_parts(client: WebClient) -> None:
    answer = client.get("/web/sessions?offset=1&limit=1").json
    assert answer["total"] == 2
    assert [row["id"] for row in answer["sessions"]] == [FIRST]


def find_key(client: WebClient, session_id: str = FIRST) -> str:
    rows = client.get("/web/sessions").json["sessions"]
    return str(next(row["key"] for row in rows if row["id"] == session_id))


def test_an_unknown_session_is_an_error_in_words(client: WebClient) -> None:
    for path in ("/web/sessions/0000", "/web/sessions/0000/page"):
        answer = client.get(path)
        assert answer.status == 404
        assert answer.json["error"] == "there is no such session"


def test_a_page_has_the_rows_of_an_exported_page(client: WebClient) -> None:
    page = client.get(f"/web/sessions/{find_key(client)}/page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert '<details class="row tool k-shell bad"' in page.text
    assert "The zone was wrong." in page.text
    # Style and script come from the application: the policy allows none inside the page.
    assert not re.search(r"<script(?! (type=\"module\" )?src=)", page.text)
    assert "<style" not in page.text


def test_a_page_is_redacted(tmp_path: Path) -> None:
    session = SessionFile(tmp_path, FIRST)
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    session.ask(f"my token is {token}")
    client = WebClient(tmp_path)
    client.index()
    assert token not in client.get(f"/web/sessions/{find_key(client)}/page").text
    assert token not in client.get("/web/sessions").text


def test_a_session_that_grows_is_noticed_without_a_search(client: WebClient) -> None:
    assert client.workspace.poll() == (False, False)
    key = find_key(client)
    path = client.workspace.find(key).session.path
    with path.open("a") as out:
        out.write("\n")
    assert client.workspace.poll() == (True, False)
    assert client.workspace.list_entries()[0].key == key


def test_a_new_session_is_noticed_by_its_folder(client: WebClient, tmp_path: Path) -> None:
    client.workspace.poll()
    SessionFile(tmp_path, "33333333-cccc-4ccc-8ccc-333333333333").ask("A new one")
    _, has_new = client.workspace.poll()
    assert has_new
    client.index()
    assert "A new one" in list_titles(client)


def test_only_what_has_changed_is_sent_again(client: WebClient, tmp_path: Path) -> None:
    key = find_key(client)
    reading = Reading()
    entry = client.workspace.find(key)
    context = client.workspace.build_context()
    session = SessionFile(tmp_path, FIRST)
    for number in range(60):
        session.answer(f"Step {number}")
    client.workspace.poll()
    entry = client.workspace.find(key)
    before = reading.open(key, entry.session, context)
    version = reading.remember_version(before)
    assert reading.describe_change(before, version) is None
    session.answer("One more step")
    client.workspace.poll()
    entry = client.workspace.find(key)
    after = reading.open(key, entry.session, context)
    change = reading.describe_change(after, version)
    assert change is not None
    sent = [block.html for block in change.blocks if block.html is not None]
    assert len(change.blocks) > 1
    assert len(sent) == 1
    assert "One more step" in sent[0]
