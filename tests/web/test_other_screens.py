"""Search, Usage and Settings: what their modules receive."""

import sys
from pathlib import Path

import pytest

from helpers.web_client import WebClient
from library.index.sessions import SessionFile

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    session = SessionFile(tmp_path, FIRST)
    session.ask("Why does the tide table fail?")
    session.call("Bash", {"command": "make test"}, "1 failed in tide.py", fails=True)
    session.answer("The zone was wrong.", tokens=1000)
    session.touch(1)
    web = WebClient(tmp_path)
    web.index()
    return web


def test_a_search_finds_events_with_who_said_them(client: WebClient) -> None:
    answer = client.get("/web/search?q=tide").json
    (found,) = answer["sessions"]
    assert found["title"] == "Why does the tide table fail?"
    assert [hit["role"] for hit in found["hits"]] == ["person", "output"]
    page = client.get(f"/web/sessions/{found['key']}/page").text
    for hit in found["hits"]:
        assert f'id="{hit["event_id"]}"' in page


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("tide role:output", 1),
        ("role:command", 1),
        ("tool:Bash", 2),
        ("tide agent:codex", 0),
        ("tide since:2026-11-02", 0),
        ("regex:fail[ei]d", 1),
        ('"tide table"', 1),
        ("tide -table", 1),
        ("", 0),
    ],
)
def test_a_search_line_has_filters(client: WebClient, line: str, count: int) -> None:
    quoted = line.replace(" ", "%20").replace('"', "%22")
    sessions = client.get(f"/web/search?q={quoted}").json["sessions"]
    assert sum(len(found["hits"]) + found["more"] for found in sessions) == count


@pytest.mark.parametrize("line", ["role:nobody", "since:soon", "regex:(", "-only"])
def test_a_search_that_makes_no_sense_is_explained(client: WebClient, line: str) -> None:
    answer = client.get(f"/web/search?q={line}")
    assert answer.status == 400
    assert answer.json["help"]


@pytest.mark.parametrize(
    "by", ["day", "week", "month", "project", "model", "agent", "tool", "session", "branch"]
)
def test_usage_has_the_counts_of_stats(client: WebClient, by: str) -> None:
    answer = client.get(f"/web/usage?by={by}").json
    (row,) = answer["rows"]
    assert answer["total"]["calls"] == 1
    assert answer["total"]["failures"] == 1
    assert answer["total"]["cost"] > 0
    if by == "tool":
        assert row["counts"]["calls"] == 1
    else:
        assert row["counts"]["output"] == 1000
    (dearest,) = answer["dearest"]
    assert dearest["title"] == "Why does the tide table fail?"
    assert client.get(f"/web/sessions/{dearest['key']}").status == 200


def test_usage_by_five_hour_blocks(client: WebClient) -> None:
    (row,) = client.get("/web/usage?by=block").json["rows"]
    assert row["name"] == "2026-11-01 09:00 to 14:00"


def test_usage_by_an_unknown_group_is_explained(client: WebClient) -> None:
    assert client.get("/web/usage?by=mood").status == 400


def test_settings_say_what_doctor_says(client: WebClient) -> None:
    state = client.get("/web/settings").json
    (agent,) = state["agents"]
    assert agent["title"] == "Claude Code"
    assert agent["hook"] == "absent"
    assert sum(agent["places"].values()) == 1
    assert state["index"]["sessions"] == 1
    assert state["signers"]["names"] == []


@pytest.mark.parametrize(("level", "is_masked"), [("secrets", False), ("pii", True)])
def test_redaction_can_be_tried(client: WebClient, level: str, is_masked: bool) -> None:
    text = "write to nora.lind@fjordmail.no"
    answer = client.post("/web/settings/try", {"text": text, "level": level}).json
    assert ("[REDACTED:email" in answer["masked"]) == is_masked
    assert "".join(text for text, _ in answer["parts"]) == answer["masked"]
    assert any(is_marker for _, is_marker in answer["parts"]) == is_masked
    assert bool(answer["findings"]) == is_masked


@pytest.mark.parametrize("body", [{}, {"text": 1}, [], {"text": "x", "level": "some"}])
def test_a_wrong_request_is_an_error_in_words(client: WebClient, body: object) -> None:
    answer = client.post("/web/settings/try", body)
    assert answer.status == 400
    assert answer.json["error"]


def test_the_first_visit_is_greeted_once(client: WebClient) -> None:
    state = client.get("/web/settings/welcome").json
    assert (state["is_first"], state["sessions"], state["agents"]) == (True, 1, 1)
    client.post("/web/settings/welcome", {})
    assert client.get("/web/settings/welcome").json["is_first"] is False


def test_all_sessions_can_be_archived(client: WebClient) -> None:
    client.workspace.command = (sys.executable, "-P", "-m", "open_token")
    assert client.post("/web/settings/archive", {}).json == {"archived": 1}
    assert client.get("/web/sessions?filter=is:archived").json["total"] == 1


def test_an_archive_that_fails_is_an_error_in_words(client: WebClient) -> None:
    client.workspace.command = (sys.executable, "-c", "raise SystemExit(3)")
    answer = client.post("/web/settings/archive", {})
    assert answer.status == 422
    assert "open-token archive" in answer.json["help"]
