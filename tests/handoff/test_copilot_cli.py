"""Sessions for GitHub Copilot CLI."""

from pathlib import Path

import yaml

from open_token.handoff import build_conversation
from talks import CWD, SMALL, handed, records, told


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = handed("copilot-cli", conversation, tmp_path)
    assert told(back)[:-1] == told(conversation)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.copilot/session-state/{session.id}/{name}"
        for name in ("events.jsonl", "workspace.yaml")
    ]
    assert session.commands == [["copilot", f"--resume={session.id}"]]


def test_events_are_a_chain(tmp_path: Path) -> None:
    lines = records(handed("copilot-cli", build_conversation(SMALL), tmp_path)[0])
    assert lines[0]["type"] == "session.start"
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]


def test_its_workspace_is_yaml(tmp_path: Path) -> None:
    session, _ = handed("copilot-cli", build_conversation(SMALL), tmp_path)
    about = yaml.safe_load(list(session.files.values())[1])
    assert (about["id"], about["cwd"], about["name"], about["user_named"]) == (
        session.id,
        CWD,
        "Tides",
        False,
    )
