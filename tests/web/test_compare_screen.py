"""Compare: the page of two sessions, the table of several, and who may see them."""

from pathlib import Path

import pytest

from helpers.page_checker import HOSTILE
from helpers.web_client import WebClient
from library.index.sessions import SessionFile

IDS = [f"{number:08d}-aaaa-4aaa-8aaa-111111111111" for number in range(3)]
COMMANDS = ["make test", "make tides", "make all"]


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    for session_id, command in zip(IDS, COMMANDS, strict=True):
        session = SessionFile(tmp_path, session_id)
        session.ask("Fix the table of tides")
        session.call("Bash", {"command": command}, "13 passed", fails=command == "make all")
        session.answer(f"Done with {command}.", tokens=100)
    web = WebClient(tmp_path)
    web.index()
    return web


def find_keys(client: WebClient) -> list[str]:
    rows = client.get("/web/sessions").json["sessions"]
    keys = {row["id"]: row["key"] for row in rows}
    return [keys[session_id] for session_id in IDS]


def test_two_sessions_are_one_page(client: WebClient) -> None:
    a, b, _ = find_keys(client)
    answer = client.get(f"/web/compare/{a}/{b}/page")
    assert answer.status == 200
    assert "text/html" in answer.headers["content-type"]
    assert "the sessions part here" in answer.text
    assert "make <del>test</del><ins>tides</ins>" in answer.text
    assert '<script src="/web/assets/page.js">' in answer.text
    assert client.get("/web/assets/comparison.css").text.count(".pair") > 1
    # A comparison changes what it compares: the next one must not see that.
    assert client.get(f"/web/compare/{a}/{b}/page").text == answer.text
    assert "5 equal" not in client.get(f"/web/compare/{a}/{a}/page").text


def test_several_sessions_are_a_table_beside_the_first(client: WebClient) -> None:
    keys = find_keys(client)
    answer = client.get("/web/compare?" + "&".join(f"key={key}" for key in keys)).json
    first, second, third = answer["sessions"]
    assert [row["key"] for row in answer["sessions"]] == keys
    assert first["sentence"] == ""
    assert "diverge" in second["sentence"]
    assert (first["failed"], third["failed"]) == (0, 1)
    assert (first["steps"], first["calls"], first["output_tokens"]) == (3, 1, 100)
    assert client.get("/web/compare").json == {"sessions": []}


def test_what_cannot_be_compared_is_said(client: WebClient) -> None:
    key = find_keys(client)[0]
    assert client.get(f"/web/compare/{key}/nothing/page").status == 404
    assert client.get("/web/compare?key=nothing").status == 404
    many = "&".join(f"key={number}" for number in range(13))
    answer = client.get(f"/web/compare?{many}")
    assert (answer.status, "at most 12" in answer.json["error"]) == (400, True)


def test_only_the_browser_with_the_cookie_sees_a_comparison(client: WebClient) -> None:
    a, b, _ = find_keys(client)
    for path in (f"/web/compare/{a}/{b}/page", f"/web/compare?key={a}", "/compare"):
        assert client.send(path, cookie="").status == 401
        assert client.send(path, host="evil.test").status == 403
        assert client.send(path, origin="http://evil.test").status == 403
        assert client.send(path, sec_fetch_site="cross-site").status == 403


def test_nothing_that_a_session_says_is_markup(tmp_path: Path) -> None:
    for session_id, texts in zip(IDS, (HOSTILE, HOSTILE[::-1]), strict=False):
        session = SessionFile(tmp_path, session_id, branch=HOSTILE[0], cwd=f"/x/{HOSTILE[1]}")
        for text in texts:
            session.ask(text)
            session.call(text, {"command": text, "file_path": text}, text)
            session.answer(text)
    web = WebClient(tmp_path)
    web.index()
    keys = [row["key"] for row in web.get("/web/sessions").json["sessions"]]
    page = web.get(f"/web/compare/{keys[0]}/{keys[1]}/page").text
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "<base" not in page
