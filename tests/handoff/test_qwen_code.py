"""Sessions for Qwen Code."""

from pathlib import Path

from helpers.handoff_conversation import SMALL, hand_over, read_records, summarize
from open_token.handoff import build_conversation


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("qwen-code", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.qwen/projects/-home-sam-tide-table/chats/{session.id}.jsonl"
    ]
    assert session.commands == [["qwen", "--resume", session.id]]


def test_records_are_a_chain(tmp_path: Path) -> None:
    lines = read_records(hand_over("qwen-code", build_conversation(SMALL), tmp_path)[0])
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
