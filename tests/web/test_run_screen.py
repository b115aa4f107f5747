"""Run: rows of live sessions, cards, and sessions of this machine for the server to continue."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.web_client import HOST, Answer, WebClient, call
from library.index.sessions import SessionFile
from open_token.server.config import ServerConfig
from open_token.server.mounting import run_mounted
from open_token.web.cards import CardShelf

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    session = SessionFile(tmp_path, FIRST)
    session.ask("Why does the tide table fail?")
    session.call("Bash", {"command": "make test"}, "1 failed in tide.py", fails=True)
    session.answer("The zone was wrong.")
    web = WebClient(tmp_path)
    web.index()
    return web


def render(client: WebClient, **part: Any) -> str:
    answer = client.post("/web/run/rows", {"parts": [part]})
    assert answer.status == 200, answer.text
    (row,) = answer.json["rows"]
    return str(row)


def test_a_text_is_rendered_as_on_a_page(client: WebClient) -> None:
    row = render(client, kind="say", text="It **works**.")
    assert row.startswith('<div class="ev say')
    assert "<strong>works</strong>" in row


def test_a_thought_is_folded(client: WebClient) -> None:
    assert render(client, kind="thought", text="Hm.").startswith('<details class="row think"')


@pytest.mark.parametrize(
    ("status", "classes", "outcome"),
    [("done", "row tool k-shell", "ok"), ("error", "row tool k-shell bad", "1 failed")],
)
def test_a_call_has_the_row_of_a_page(
    client: WebClient, status: str, classes: str, outcome: str
) -> None:
    row = render(
        client, kind="call", tool="Bash", arguments='{"command":"make"}', result=outcome,
        status=status,
    )  # fmt: skip
    assert f'<details class="{classes}"' in row
    assert '<span class="w" dir="auto">make</span>' in row
    assert outcome in row


def test_a_cancelled_call_has_no_result(client: WebClient) -> None:
    row = render(client, kind="call", tool="Bash", arguments="{", status="cancelled")
    assert "row tool" in row
    assert " gone" in row


@pytest.mark.parametrize("kind", ["say", "thought", "call"])
def test_no_tag_of_an_agent_becomes_an_element(client: WebClient, kind: str) -> None:
    row = render(
        client, kind=kind, text=HOSTILE, tool=HOSTILE, arguments=HOSTILE, result=[HOSTILE],
        status="done",
    )  # fmt: skip
    assert "<script" not in row
    assert "<img" not in row


@pytest.mark.parametrize("body", [{}, {"parts": 1}, {"parts": [{"kind": "odd"}]}])
def test_a_wrong_request_is_an_error_in_words(client: WebClient, body: object) -> None:
    answer = client.post("/web/run/rows", body)
    assert answer.status == 400
    assert answer.json["error"] == "the request is not valid"


def test_a_card_can_do_nothing(client: WebClient) -> None:
    path = client.post("/web/run/cards", {"html": HOSTILE}).json["path"]
    card = client.get(path)
    assert HOSTILE in card.text
    policy = card.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy
    assert client.send(path, cookie="").status == 401


def test_the_last_cards_are_kept() -> None:
    shelf = CardShelf()
    names = [shelf.add(f"<p>{number}</p>") for number in range(41)]
    assert shelf.get(names[0]) is None
    assert shelf.get(names[1]) == "<p>1</p>"


def test_an_unknown_card_is_an_error_in_words(client: WebClient) -> None:
    assert client.get("/web/run/cards/0000").status == 404


def test_the_screen_is_there_only_with_the_server(client: WebClient) -> None:
    assert client.get("/run").status == 404
    client.app.state.has_server = True
    assert 'data-screen="run"' in client.get("/run").text


def test_a_session_of_this_machine_is_continued(client: WebClient, tmp_path: Path) -> None:
    key = client.get("/web/sessions").json["sessions"][0]["key"]
    document = client.get(f"/web/run/sessions/{key}")
    assert document.status == 200

    async def import_document() -> tuple[Answer, Answer]:
        async with run_mounted(ServerConfig(data=tmp_path / "data"), {}) as server:
            kind = {"host": HOST, "content-type": "multipart/form-data; boundary=part"}
            form = (
                b'--part\r\ncontent-disposition: form-data; name="file"; filename="a.ndjson"\r\n\r\n'
                + document.body
                + b"\r\n--part--\r\n"
            )
            imported = await call(server, "/api/sessions/import", "POST", form, kind)
            path = f"/api/sessions/{imported.json['session_id']}/messages"
            return imported, await call(server, path, "GET", b"", {"host": HOST})

    imported, turns = asyncio.run(import_document())
    assert imported.json["intent"] == "Why does the tide table fail?"
    texts = msgspec.json.encode(turns.json).decode()
    assert "The zone was wrong." in texts
    assert "1 failed in tide.py" in texts


def test_an_unknown_session_cannot_be_continued(client: WebClient) -> None:
    answer = client.get("/web/run/sessions/0000")
    assert answer.status == 404
    assert answer.json["error"] == "there is no such session"
