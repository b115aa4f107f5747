"""Patches folded as a client does: places, pieces, repeats, snapshots, patches that say nothing."""

from typing import Any

from helpers.growth import grows_linearly
from open_token.model.patches import TurnPatcher


def patch(kind: str, number: int, **data: Any) -> dict[str, Any]:
    return {"turn_id": "t", "loop_id": "root", "sequence": number, "patch_type": kind, "data": data}


def folded(*patches: dict[str, Any]) -> dict[str, Any]:
    turns = TurnPatcher()
    for item in patches:
        assert turns.take(item)
    return turns.turn("t")


def test_pieces_by_place() -> None:
    turn = folded(
        patch("add_content", 1, type="text", text_delta="a", block_index=0),
        patch("add_content", 2, type="thinking", text_delta="b", block_index=1),
        patch("add_content", 3, type="text", text_delta="c", block_index=0),
        patch("add_content", 3, type="text", text_delta="c", block_index=0),
    )
    assert [block["content"] for block in turn["blocks"]] == ["ac", "b"]


def test_a_call_is_a_block_too_when_it_has_a_place() -> None:
    call = {"id": "c", "tool_name": "Bash", "display_name": "Run", "arguments": "{"}
    turn = folded(
        patch("add_tool_call", 1, **call, block_index=0),
        patch("set_tool_status", 2, tool_call_id="c", status="pending", arguments_delta="}"),
        patch("tool_result", 3, tool_call_id="c", status="done", result=1),
    )
    assert turn["tool_calls"] == [{**call, "arguments": "{}", "status": "done", "result": 1}]
    assert turn["blocks"][0]["content"] == {"id": "c", "tool_name": "Bash", "arguments": "{}"}
    assert folded(patch("add_tool_call", 1, **call))["blocks"] == []


def test_a_block_without_content_stays_so() -> None:
    turn = folded(patch("add_content", 1, type="planning_enter", content=None, block_index=0))
    assert turn["blocks"] == [{"type": "planning_enter", "content": None}]


def test_what_says_nothing_is_reported() -> None:
    odd: list[tuple[str, str]] = []
    turns = TurnPatcher(lambda place, kind: odd.append((place, kind)))
    turns.take(patch("sing", 1), "line 1")
    turns.take(patch("tool_result", 2, tool_call_id=None), "line 2")
    assert odd == [("line 1", "sing"), ("line 2", "")]
    assert not turns.take({"session_id": "s"})
    turns.change("unknown", memory_refs=[])


def test_long_streams_are_not_quadratic() -> None:
    def work(count: int) -> None:
        turns = TurnPatcher()
        for number in range(count):
            turns.take(patch("add_content", number, type="text", text_delta="word "))
        assert len(turns.turn("t")["blocks"][0]["content"]) == 5 * count

    assert grows_linearly(work, 2_000, 8)
