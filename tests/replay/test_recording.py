"""A recorded conversation as responses, each with its input."""

from typing import Any

from conftest import ROOT
from open_token.api import export
from open_token.replay.recording import build_recording


def build_document(*events: Any) -> Any:
    people = [{"actor_id": "h", "kind": "human"}, {"actor_id": "s", "kind": "system"}]
    return {
        "participants": people,
        "events": [{"seq": place, **event} for place, event in enumerate(events, 1)],
    }


def says(role: str, text: str, actor: str = "h", **links: str) -> Any:
    return {
        "type": "message",
        "role": role,
        "actor_id": actor,
        "content": {"text": text},
        "links": links,
    }


def calls(
    name: str, tool: str, native: str | None = None, arguments: Any = None, **links: str
) -> Any:
    data = {"tool_name": tool, "arguments": arguments or {}, "native_call_id": native}
    return {
        "type": "tool_use",
        "role": "assistant",
        "content": {"data": data},
        "links": {"call_id": name, **links},
    }


def gives(name: str, text: str, **links: str) -> Any:
    return {
        "type": "tool_result",
        "role": "tool",
        "content": {"text": text},
        "links": {"call_id": name, **links},
    }


def test_an_example() -> None:
    recording = build_recording(export(ROOT / "examples" / "claude_code.jsonl", redact="none"))
    first, second, third, last = recording.steps
    assert (first.number, first.seq, len(first.prompts), [call.tool for call in first.calls]) == (
        1,
        3,
        1,
        ["Bash", "Read"],
    )
    assert [result.call.tool for result in second.results] == ["Bash", "Read"]
    assert second.previous is first
    assert third.prompts == []
    assert last.text.startswith("Fixed:")
    assert recording.folders == ["/home/sam/tide-table"]
    assert recording.has_calls
    assert not recording.has_markers


def test_what_a_runtime_said_in_the_persons_place_need_not_come_again() -> None:
    (step,) = build_recording(
        build_document(says("user", "<env/>", "s"), says("user", "Go"), says("assistant", "Gone"))
    ).steps
    assert (step.prompts, step.injected) == (["Go"], ["<env/>"])
    (step,) = build_recording(
        build_document(says("user", "Continue.", "s"), says("assistant", "Gone"))
    ).steps
    assert (step.prompts, step.injected) == (["Continue."], [])


def test_calls_of_providers_and_of_scripts_are_not_the_agents() -> None:
    recording = build_recording(
        build_document(
            says("user", "Go"),
            calls("1", "web_search", "srvtoolu_1"),
            gives("1", "found"),
            calls("2", "exec", "call_2"),
            calls("3", "shell", "exec-3"),
            gives("3", "inner"),
            gives("2", "outer"),
            calls("4", "shell", "exec-4"),
            gives("4", "late"),
            says("assistant", "Gone"),
        )
    )
    first, last = recording.steps
    assert [call.tool for call in first.calls] == ["exec"]
    assert [result.text for result in last.results] == ["outer"]


def test_ids_that_distinguish_nothing_are_replaced() -> None:
    events = [
        says("user", "Go"),
        calls("1", "a", "x"),
        gives("1", ""),
        calls("2", "a", "x"),
        gives("2", ""),
    ]
    recording = build_recording(build_document(*events, says("assistant", "Gone")))
    assert [call.id for step in recording.steps for call in step.calls] == [
        "call_000001",
        "call_000002",
    ]
    recording = build_recording(build_document(says("user", "Go"), calls("call_1", "a", "odd|id")))
    assert recording.steps[0].calls[0].id == "call_1"


def test_branches_and_subagents_without_a_prompt_are_left_behind() -> None:
    branch = {
        "type": "span_start",
        "content": {"data": {"kind": "abandoned_branch"}},
        "links": {"span_id": "b"},
    }
    child = {
        "type": "span_start",
        "content": {"data": {"kind": "subagent"}},
        "links": {"span_id": "c"},
    }
    events = [
        branch,
        says("assistant", "Never", span_id="b"),
        child,
        says("assistant", "Hm", span_id="c"),
    ]
    recording = build_recording(
        build_document(says("user", "Go"), *events, says("assistant", "Gone"))
    )
    assert [step.text for step in recording.steps] == ["Gone"]
    assert recording.skipped == {"branches": 1, "answers of subagents without a prompt": 1}


def test_redaction_and_truncation_markers_are_found() -> None:
    mark = "[REDACTED:password:" + "0" * 8 + "]"
    assert build_recording(
        build_document(says("user", f"It is {mark}"), says("assistant", "Good"))
    ).has_markers
    cut = says("user", "a…z")
    cut["content"]["data"] = {"truncated": True}
    recording = build_recording(build_document(cut, says("assistant", "Good")))
    assert recording.has_markers
    assert recording.steps[0].prompts == ["a[TRUNCATED]z"]


def test_unexpected_values_in_a_document() -> None:
    wrong: list[Any] = [None, 3, "x", [], {}]
    kinds = [
        "message",
        "tool_use",
        "tool_result",
        "span_start",
        "span_end",
        "annotation",
        "other",
        None,
    ]
    for value in wrong:
        events = [
            {"type": kind, "role": role, "content": value, "links": value, "actor_id": value}
            for kind in kinds
            for role in ("user", "assistant", "tool", None)
        ]
        steps = build_recording({"events": events}).steps  # type: ignore[typeddict-item]
        assert [(step.text, step.prompts) for step in steps] == [("", [])]
