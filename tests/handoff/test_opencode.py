"""Files for `opencode import`."""

import json
from pathlib import Path

from helpers.handoff_conversation import CWD, SMALL, hand_over, summarize
from open_token.handoff import HandoffDestination, build_conversation, load_handoff_module


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("opencode", conversation, tmp_path)
    assert sorted(map(str, summarize(back)[:-1])) == sorted(map(str, summarize(conversation)))
    path = f"{CWD}/{session.id}.json"
    assert [str(place) for place in session.files] == [path]
    assert session.commands == [["opencode", "import", path], ["opencode", "--session", session.id]]


def test_the_times_say_the_order() -> None:
    session = load_handoff_module("opencode").build_session(
        build_conversation(SMALL), HandoffDestination(CWD, Path("/home/sam"), {})
    )
    made = json.loads(next(iter(session.files.values())))
    times = [message["info"]["time"]["created"] for message in made["messages"]]
    assert times == sorted(set(times))
    assert made["info"]["id"].startswith("ses_")
    names = [[part["id"] for part in message["parts"]] for message in made["messages"]]
    assert names == [sorted(parts) for parts in names]
    assert len({name for parts in names for name in parts}) == 6


def test_a_failed_call_is_an_error() -> None:
    session = load_handoff_module("opencode").build_session(
        build_conversation(SMALL), HandoffDestination(CWD, Path("/home/sam"), {})
    )
    made = json.loads(next(iter(session.files.values())))
    states = [
        part["state"]
        for message in made["messages"]
        for part in message["parts"]
        if part["type"] == "tool"
    ]
    assert [state["status"] for state in states] == ["error", "completed"]
    assert states[0]["error"] == "1 failed"
