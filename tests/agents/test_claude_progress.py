"""Subagents that progress records are about."""

from pathlib import Path
from typing import Any

import pytest

from readers.claude_lines import COUNTS, MODEL, SESSION, File, body, call, events, read, task, text

AGENT = "a1b2c3"


def user_message(uuid: str, content: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}}


def answer(uuid: str, block: Any, id: str = "msg_sub") -> dict[str, Any]:
    message = {"id": id, "role": "assistant", "model": MODEL, "content": [block], "usage": COUNTS}
    return {"type": "assistant", "uuid": uuid, "message": message}


def report(file: File, message: Any, parent: str = "toolu_1", **more: Any) -> None:
    data = {"type": "agent_progress", "agentId": AGENT, "message": message, **more}
    file.add("progress", data=data, parentToolUseID=parent)


def build_session() -> File:
    file = File()
    file.user("Look around.")
    file.assistant(task("toolu_1"))
    report(file, user_message("s1", [text("Look around.")]))
    report(file, answer("s2", call("toolu_s", "Read", file_path="a.py")))
    result = {"type": "tool_result", "tool_use_id": "toolu_s", "content": "x = 1"}
    report(file, user_message("s3", [result]))
    file.result("toolu_1", "a.py sets x", {"agentId": AGENT, "status": "completed"})
    return file


def list_types(file: File | Path, **options: str) -> list[str]:
    return [event["type"] for event in events(file, **options) if event["type"] != "annotation"]


def test_progress_becomes_a_span_at_the_call() -> None:
    made = events(build_session())
    start = next(event for event in made if event["type"] == "span_start")
    spawn = next(event for event in made if event["type"] == "tool_use")
    assert start["links"]["call_id"] == spawn["links"]["call_id"]
    assert body(start)["agent_id"] == AGENT
    assert list_types(build_session()) == [
        "message",
        "tool_use",
        "span_start",
        "message",
        "tool_use",
        "tool_result",
        "span_end",
        "tool_result",
    ]
    assert sum(event["usage"]["output_tokens"] for event in made if "usage" in event) == 14


def test_progress_is_not_reported_twice_beside_the_file_of_a_subagent(tmp_path: Path) -> None:
    path = build_session().write(tmp_path / f"{SESSION}.jsonl")
    own = File("a6e00000", sessionId=SESSION, isSidechain=True, agentId=AGENT)
    own.user("Look around.")
    own.assistant(call("toolu_s", "Read", file_path="a.py"), id="msg_sub")
    own.result("toolu_s", "x = 1")
    own.assistant(text("It sets x."))
    own.write(tmp_path / SESSION / "subagents" / f"agent-{AGENT}.jsonl")
    assert list_types(path).count("span_start") == 1
    assert list_types(path).count("tool_use") == 2
    assert "progress" in [note.detail.removeprefix("type ") for note in read(path).notes]


def test_messages_that_are_reported_again_are_read_once() -> None:
    file = File()
    file.assistant(task("toolu_1"))
    first = answer("s1", text("I look."))
    second = answer("s2", call("toolu_s", "Read"))
    report(file, second, normalizedMessages=[first, second])
    report(file, second, normalizedMessages=[first, second])
    assert list_types(file) == [
        "tool_use",
        "span_start",
        "message",
        "tool_use",
        "tool_result",
        "span_end",
        "tool_result",
    ]


def test_any_open_call_may_have_started_a_subagent() -> None:
    file = File()
    file.assistant(call("toolu_1", "Skill", skill="review"))
    report(file, user_message("s1", "Review it."))
    file.result("toolu_1", "reviewed")
    assert list_types(file) == ["tool_use", "span_start", "message", "span_end", "tool_result"]


@pytest.mark.parametrize(
    "data",
    [None, [], "agent_progress", {"type": "agent_progress"}, {"type": "bash_progress"}],
)
def test_other_progress_is_noted(data: Any) -> None:
    file = File()
    file.user("start")
    file.add("progress", data=data)
    assert list_types(file) == ["message"]
    assert [note.detail for note in read(file).notes] == ["type progress"]


def test_subagents_can_be_left_out() -> None:
    assert list_types(build_session(), subagents="none").count("tool_use") == 1
    assert list_types(build_session(), subagents="reference").count("span_start") == 1
    assert "subagent" in [note.code for note in read(build_session(), subagents="none").notes]


def test_what_a_command_printed_is_kept_where_its_result_is_cut() -> None:
    def run(output: str | None) -> list[Any]:
        file = File()
        file.assistant(call("toolu_1"))
        for printed in ("one", "one\ntwo\nthree"):
            data = {"type": "bash_progress", "output": printed, "fullOutput": printed}
            file.add("progress", data=data, parentToolUseID="toolu_1")
        if output is not None:
            file.result("toolu_1", output)
        return [body(event) for event in events(file) if event["type"] == "annotation"]

    kept = {"kind": "progress_output", "output": "one\ntwo\nthree"}
    assert run("three lines") == [kept]
    assert run(None) == [{**kept, "native_call_id": "toolu_1"}]
    assert run("one\ntwo\nthree\nfour") == []
