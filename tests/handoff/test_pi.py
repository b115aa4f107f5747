"""Sessions for pi."""

from pathlib import Path

from helpers.handoff_conversation import SMALL, hand_over, read_records, summarize
from open_token.handoff import build_conversation


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("pi", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.pi/agent/sessions/--home-sam-tide_table--/2026-03-01T10-00-01-500Z_{session.id}.jsonl"
    ]
    assert session.commands == [["pi", "--session", session.id]]


def test_entries_are_a_chain_and_answers_have_a_usage(tmp_path: Path) -> None:
    head, *lines = read_records(hand_over("pi", build_conversation(SMALL), tmp_path)[0])
    assert (head["type"], head["version"]) == ("session", 3)
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]
    spoken = [
        line["message"] for line in lines if line.get("message", {}).get("role") == "assistant"
    ]
    assert spoken
    assert all(message["usage"]["totalTokens"] == 0 for message in spoken)
