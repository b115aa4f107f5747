"""Sessions for Claude Code."""

from pathlib import Path

import pytest

from helpers.handoff_conversation import CWD, SMALL, hand_over, read_records, summarize
from open_token.handoff import HandoffDestination, build_conversation, load_handoff_module


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("claude-code", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.claude/projects/-home-sam-tide-table/{session.id}.jsonl"
    ]
    assert session.commands == [["claude", "--resume", session.id]]


def test_records_are_a_chain_with_all_fields(tmp_path: Path) -> None:
    session, _ = hand_over("claude-code", build_conversation(SMALL), tmp_path)
    *lines, title = read_records(session)
    assert title == {"type": "custom-title", "customTitle": "Tides", "sessionId": session.id}
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    for line in lines:
        assert line["cwd"] == CWD
        assert line["sessionId"] == session.id
        assert line["timestamp"].endswith("Z")
        assert line["type"] == "user" or line["message"]["model"] == "some-model-1"


def test_session_is_written_where_the_user_keeps_sessions() -> None:
    session = load_handoff_module("claude-code").build_session(
        build_conversation(SMALL),
        HandoffDestination(CWD, Path("/home/sam"), {"CLAUDE_CONFIG_DIR": "/data/claude"}),
    )
    assert str(next(iter(session.files))).startswith("/data/claude/projects/")


@pytest.mark.parametrize("copy", [1, 2])
def test_one_more_copy_is_another_session(copy: int) -> None:
    agent, conversation = load_handoff_module("claude-code"), build_conversation(SMALL)
    destinations = [HandoffDestination(CWD, Path("/home/sam"), {}, number) for number in (0, copy)]
    first, other = (agent.build_session(conversation, destination) for destination in destinations)
    assert first.id != other.id
