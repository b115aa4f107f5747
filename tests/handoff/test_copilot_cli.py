"""Sessions for GitHub Copilot CLI."""

from pathlib import Path

import yaml

from helpers.handoff_conversation import CWD, SMALL, hand_over, read_records, summarize
from open_token.handoff import build_conversation


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("copilot-cli", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.copilot/session-state/{session.id}/{name}"
        for name in ("events.jsonl", "workspace.yaml")
    ]
    assert session.commands == [["copilot", f"--resume={session.id}"]]


def test_events_are_a_chain(tmp_path: Path) -> None:
    lines = read_records(hand_over("copilot-cli", build_conversation(SMALL), tmp_path)[0])
    assert lines[0]["type"] == "session.start"
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]


def test_its_workspace_is_yaml(tmp_path: Path) -> None:
    session, _ = hand_over("copilot-cli", build_conversation(SMALL), tmp_path)
    about = yaml.safe_load(list(session.files.values())[1])
    assert (about["id"], about["cwd"], about["name"], about["user_named"]) == (
        session.id,
        CWD,
        "Tides",
        False,
    )
