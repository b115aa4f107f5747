"""A conversation as frames for a terminal."""

from typing import Any

from conftest import ROOT
from open_token.api import export
from open_token.replay.frames import build_frames


def test_an_example() -> None:
    frames = build_frames(export(ROOT / "examples" / "claude_code.jsonl", redact="none"))
    assert [frame.kind for frame in frames[:3]] == ["prompt", "answer", "tool_use"]
    assert frames[0].lines[0].startswith("you test_dst")
    assert frames[2].lines == ["  > Bash  pytest -q tests/test_tides.py::test_dst"]
    assert [frame.seq for frame in frames if frame.is_error] == [6]
    assert frames[0].at == 0
    times = [frame.at for frame in frames if frame.at is not None]
    assert times == sorted(times)


def test_long_results_and_system_prompts_are_shortened() -> None:
    events: list[dict[str, Any]] = [
        {"seq": 1, "type": "message", "role": "system", "content": {"text": "a\nb"}},
        {"seq": 2, "type": "tool_result", "role": "tool", "content": {"text": "x\n" * 30}},
        {
            "seq": 3,
            "type": "tool_result",
            "role": "tool",
            "content": {"data": {"missing_result": True}},
        },
        {
            "seq": 4,
            "type": "tool_use",
            "content": {"data": {"tool_name": "t", "arguments": {"command": ["a", "b"]}}},
        },
        {
            "seq": 5,
            "type": "tool_use",
            "content": {"data": {"tool_name": "t", "arguments": "z" * 9000}},
        },
        {"seq": 6, "type": "annotation", "content": {"data": {"kind": "context"}}},
        {
            "seq": 7,
            "type": "tool_result",
            "content": {"text": '{"output":"a\\nb","metadata":{"exit_code":0}}'},
        },
    ]
    frames = build_frames({"events": events})  # type: ignore[typeddict-item]
    assert frames[0].lines == ["# system prompt, 2 lines"]
    assert (len(frames[1].lines), frames[1].lines[0], frames[1].lines[-1]) == (
        14,
        "    = 30 lines",
        "      ... 18 more",
    )
    assert frames[2].lines == ["    = no result"]
    assert frames[3].lines == ["  > t  a b"]
    assert len(frames[4].lines[0]) < 420
    assert frames[5].lines == ["    = 2 lines", "      a", "      b"]
    assert len(frames) == 6


def test_unexpected_values_in_a_document() -> None:
    for value in (None, 3, "x", [], {}):
        kinds = ["message", "tool_use", "tool_result", "span_start", "span_end", "annotation"]
        events: list[Any] = [
            {"type": kind, "content": value, "links": value, "ts": value} for kind in kinds
        ]
        assert all(
            type(line) is str for frame in build_frames({"events": events}) for line in frame.lines
        )


def build(*events: dict[str, Any]) -> list[Any]:
    return build_frames(
        {"events": [{"seq": n, "id": f"e{n}", **event} for n, event in enumerate(events, 1)]}
    )  # type: ignore[typeddict-item]


def called(name: str) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "content": {"data": {"tool_name": f"T{name}"}},
        "links": {"call_id": name},
    }


def test_result_says_whose_it_is_where_that_is_not_the_call_before_it() -> None:
    results = [
        {"type": "tool_result", "content": {"text": name}, "links": {"call_id": name}}
        for name in ("a", "b", "c")
    ]
    frames = build(called("a"), called("b"), *results[:2], called("c"), results[2])
    assert [frame.lines[0] for frame in frames if frame.kind == "tool_result"] == [
        "    = 1 line of Ta", "    = 1 line of Tb", "    = 1 line",
    ]  # fmt: skip


def test_only_human_prompts_are_shown_as_you() -> None:
    stopped = {
        "type": "message",
        "role": "user",
        "visibility": "internal",
        "content": {"text": "[stopped]\nmore"},
    }
    frames = build(
        stopped,
        {"type": "annotation", "content": {"data": {"kind": "api_error", "message": "busy\nnow"}}},
        {"type": "annotation", "content": {"data": {"kind": "usage", "text": "x"}}},
        {
            "type": "tool_result",
            "content": {"data": [{"media_type": "image/png", "base64": "aaaa"}]},
        },
        {
            "type": "annotation",
            "links": {"parent_id": "e4"},
            "content": {"data": {"kind": "result_facts", "rejected": True}},
        },
    )
    assert [(frame.kind, *frame.lines) for frame in frames] == [
        ("system", "  # [stopped] ... 1 more"),
        ("annotation", "  # api error  busy now"),
        ("tool_result", "    = an image or a file"),
    ]
    assert [frame.is_error for frame in frames] == [False, False, True]
