"""Subagents in all three layouts, inline, as references and left out."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from open_token.model.document import Event
from readers.claude_lines import (
    SESSION,
    File,
    Line,
    body,
    brief,
    call,
    events,
    read,
    summarize,
    task,
    text,
)


def agent(
    agent_id: str, *, prompt: str = "Look around.", session: str = SESSION, name: str = ""
) -> File:
    """What a subagent's file holds; its records have uuids of their own."""
    file = File(session=session, isSidechain=True, agentId=agent_id)
    file._prefix = f"{name or agent_id:x<8}"[:8]
    file.user(prompt)
    file.assistant(
        text(f"{agent_id} looks"),
        call(f"t_{agent_id}"),
        id=f"m_{agent_id}",
        model="claude-haiku-4-5",
    )
    file.result(f"t_{agent_id}", f"{agent_id} saw")
    return file


def parent(*agents: str) -> File:
    """A session that starts subagents and gets their answers."""
    file = File()
    file.user("Find out.")
    for agent_id in agents:
        file.assistant(task(f"task_{agent_id}"), id="m1")
    for agent_id in agents:
        file.result(
            f"task_{agent_id}",
            f"{agent_id} says so",
            side={"agentId": agent_id, "status": "completed"},
        )
    file.assistant(text("Found."))
    return file


def place(folder: Path, main: File, *files: tuple[str, File], meta: Line | None = None) -> Path:
    for name, file in files:
        path = file.write(folder / f"{name}.jsonl")
        if meta:
            path.with_suffix(".meta.json").write_text(json.dumps(meta))
    return main.write(folder / f"{SESSION}.jsonl")


INSIDE = [
    "span_start: subagent",
    "user: Look around.",
    "assistant: a1 looks",
    "tool_use: t_a1",
    "tool_result: a1 saw",
    "span_end: {}",
]
AROUND = [
    "user: Find out.",
    "tool_use: task_a1",
    *INSIDE,
    "tool_result: a1 says so",
    "annotation: result_facts",
    "assistant: Found.",
]


@pytest.mark.parametrize(
    "name",
    ["agent-a1", f"{SESSION}/subagents/agent-a1", f"{SESSION}/subagents/workflows/w1/agent-a1"],
)
def test_a_subagent_file_is_inserted_before_the_result(tmp_path: Path, name: str) -> None:
    path = place(
        tmp_path, parent("a1"), (name, agent("a1")), meta={"agentType": "scout", "spawnDepth": 1}
    )
    assert summarize(path) == AROUND
    record = read(path)
    made = {e["id"]: e for e in record.events}
    start = next(e for e in made.values() if e["type"] == "span_start")
    assert body(start) == {
        "kind": "subagent",
        "spawn_reason": "look around",
        "tooling_scope": "scout",
        "subagent_type": "scout",
        "agent_id": "a1",
        "spawn_depth": 1,
    }
    assert start["links"] == {"call_id": "call_000001", "span_id": "span_000001"}
    people = {p["actor_id"]: p for p in record.participants}
    answer = next(e for e in made.values() if brief(e) == "assistant: a1 looks")
    assert (answer["visibility"], answer["links"]["span_id"]) == ("internal", "span_000001")
    assert people[answer["actor_id"]] | {"actor_id": ""} == {
        "actor_id": "",
        "kind": "model",
        "name": "scout",
        "provider": "anthropic",
        "model": "claude-haiku-4-5",
        "instance_id": "a1",
    }
    prompt = next(e for e in made.values() if brief(e) == "user: Look around.")
    assert (people[prompt["actor_id"]]["name"], prompt["visibility"]) == ("assistant", "internal")


def inlined(agent_id: str | None) -> File:
    file = File()
    file.user("Find out.")
    file.assistant(task("task_a1", subagent_type="scout"))
    own = {"isSidechain": True} | ({"agentId": agent_id} if agent_id else {})
    file.user("Look around.", parentUuid=None, **own)
    file.assistant(text("a1 looks"), call("t_a1"), model="claude-haiku-4-5", **own)
    file.result("t_a1", "a1 saw", **own)
    file.result(
        "task_a1", "a1 says so", side={"totalToolUseCount": 1}, parentUuid=file.lines[1]["uuid"]
    )
    file.assistant(text("Found."))
    return file


@pytest.mark.parametrize("agent_id", ["a1", None])
def test_lines_in_the_same_file(agent_id: str | None) -> None:
    assert summarize(inlined(agent_id)) == AROUND


def test_two_at_once_in_the_same_file() -> None:
    file = File()
    file.assistant(task("t1", prompt="Go north."), task("t2", prompt="Go south."))
    south = file.user("Go south.", isSidechain=True, parentUuid=None)
    north = file.user("Go north.", isSidechain=True, parentUuid=None)
    file.assistant(text("cold"), isSidechain=True, parentUuid=north)
    file.assistant(text("warm"), isSidechain=True, parentUuid=south)
    file.result("t1", parentUuid=file.lines[0]["uuid"])
    file.result("t2")
    made = events(file)
    spans = {
        brief(e): e["links"]["span_id"]
        for e in made
        if "span_id" in e.get("links", {}) and e["type"] == "message"
    }
    assert (
        spans["user: Go north."]
        == spans["assistant: cold"]
        != spans["user: Go south."]
        == spans["assistant: warm"]
    )
    starts = {
        e["links"]["span_id"]: e["links"]["call_id"] for e in made if e["type"] == "span_start"
    }
    assert starts[spans["assistant: cold"]] == "call_000001"
    assert [brief(e) for e in made][-4:] == [
        "span_end: {}",
        "tool_result: done",
        "span_end: {}",
        "tool_result: done",
    ]


def test_each_is_a_participant_of_its_own_also_without_an_id() -> None:
    file = File()
    file.assistant(task("t1", prompt="Go north."), task("t2", prompt="Go south."))
    firsts = [
        file.user(f"Go {way}.", isSidechain=True, parentUuid=None) for way in ("north", "south")
    ]
    for first in firsts:
        file.assistant(text("gone"), isSidechain=True, parentUuid=first)
    record = read(file)
    people = {person["actor_id"]: person for person in record.participants}
    speakers = [people[e["actor_id"]] for e in record.events if brief(e) == "assistant: gone"]
    assert [person["name"] for person in speakers] == ["subagent", "subagent"]
    assert [person.get("instance_id") for person in speakers] == firsts


@pytest.mark.parametrize("layout", ["file", "lines"])
def test_references_only(tmp_path: Path, layout: str) -> None:
    path = (
        place(tmp_path, parent("a1"), ("agent-a1", agent("a1")))
        if layout == "file"
        else inlined("a1").write(tmp_path / "s.jsonl")
    )
    made = events(path, subagents="reference")
    assert [e["type"] for e in made] == [
        "message",
        "tool_use",
        "span_start",
        "span_end",
        "tool_result",
        "annotation",
        "message",
    ]
    assert (body(made[2]) | body(made[3]))["records"] == 3


@pytest.mark.parametrize("layout", ["file", "lines"])
def test_left_out(tmp_path: Path, layout: str) -> None:
    path = (
        place(tmp_path, parent("a1"), ("agent-a1", agent("a1")))
        if layout == "file"
        else inlined("a1").write(tmp_path / "s.jsonl")
    )
    record = read(path, subagents="none")
    assert not any("span_id" in e.get("links", {}) for e in record.events)
    assert [(note.code, note.count) for note in record.notes] == [("subagent", 1)]


def test_subagents_of_subagents(tmp_path: Path) -> None:
    one = agent("a1")
    one.assistant(task("task_a2", prompt="Deeper."))
    one.result("task_a2", "so deep", side={"agentId": "a2"})
    folder = f"{SESSION}/subagents/agent-"
    path = place(
        tmp_path, parent("a1"), (f"{folder}a1", one), (f"{folder}a2", agent("a2", prompt="Deeper."))
    )
    made = events(path)
    spans = [(e["type"], e["links"]["span_id"]) for e in made if e["type"].startswith("span")]
    assert spans == [
        ("span_start", "span_000001"),
        ("span_start", "span_000002"),
        ("span_end", "span_000002"),
        ("span_end", "span_000001"),
    ]


def test_a_circle_of_subagents_ends(tmp_path: Path) -> None:
    one, two = agent("a1"), agent("a2")
    one.result("x", side={"agentId": "a2"})
    two.result("y", side={"agentId": "a1"})
    path = place(tmp_path, parent("a1"), ("agent-a1", one), ("agent-a2", two))
    assert [e["type"] for e in events(path)].count("span_start") == 2


def test_subagents_below_the_maximal_depth_are_at_the_end(tmp_path: Path) -> None:
    files = []
    for depth in range(20):
        file = agent(f"b{depth}")
        file.result("x", side={"agentId": f"b{depth + 1}"})
        files.append((f"agent-b{depth}", file))
    record = read(place(tmp_path, parent("b0"), *files))
    steps = [{"span_start": 1, "span_end": -1}.get(e["type"], 0) for e in record.events]
    assert steps.count(1) == steps.count(-1) == 20
    assert max(accumulate(steps)) == 16


def test_subagents_that_no_result_names_are_at_the_end(tmp_path: Path) -> None:
    main = File()
    main.user("Find out.")
    main.assistant(task("task_a1"))
    path = place(
        tmp_path,
        main,
        ("agent-a1", agent("a1")),
        ("agent-zz", agent("zz", session="another session")),
        (f"{SESSION}/subagents/agent-c3", agent("c3", prompt="Suggest something.")),
    )
    made = summarize(path)
    assert made[:2] == ["user: Find out.", "tool_use: task_a1"]
    assert "assistant: zz looks" not in made
    where = made.index("tool_result: {'missing_result': True}")
    assert made[where - 1] == "span_end: {}"
    assert made.count("span_start: subagent") == 2


def test_an_agent_file_alone_is_a_conversation(tmp_path: Path) -> None:
    path = agent("a1").write(tmp_path / "agent-a1.jsonl")
    path.with_suffix(".meta.json").write_text('{"agentType": "scout"}')
    agent("a2").write(tmp_path / "agent-a2.jsonl")
    record = read(path)
    assert summarize(path) == [
        "user: Look around.",
        "assistant: a1 looks",
        "tool_use: t_a1",
        "tool_result: a1 saw",
    ]
    assert record.conversation["id"] == "agent-a1"
    assert [(p["kind"], p["name"]) for p in record.participants][1:3] == [
        ("model", "parent agent"),
        ("model", "scout"),
    ]
    assert {e["visibility"] for e in record.events if e["type"] == "message"} == {"public"}


def test_a_subagent_of_a_dropped_branch_is_dropped(tmp_path: Path) -> None:
    main = File()
    start = main.user("start")
    main.user("first", parentUuid=start)
    main.assistant(task("task_a1"))
    main.result("task_a1", side={"agentId": "a1"})
    main.user("second", parentUuid=start)
    path = place(tmp_path, main, ("agent-a1", agent("a1")))
    assert summarize(path) == ["user: start", "user: second"]


def test_lines_of_a_subagent_in_a_dropped_branch_go_with_it() -> None:
    file = File()
    start = file.user("start")
    file.user("first", parentUuid=start)
    spawn = file.assistant(task("t1"))
    file.user("Look around.", isSidechain=True, parentUuid=None)
    file.assistant(text("looking"), isSidechain=True)
    file.result("t1", parentUuid=spawn)
    file.user("second", parentUuid=start)
    assert summarize(file) == ["user: start", "user: second"]


def test_usage_of_a_subagent_is_counted_once(tmp_path: Path) -> None:
    made = events(place(tmp_path, parent("a1"), ("agent-a1", agent("a1"))))
    assert [e["usage"]["output_tokens"] for e in made if "usage" in e] == [7, 7, 7]


def test_faults_of_an_agent_file_are_noted(tmp_path: Path) -> None:
    path = place(tmp_path, parent("a1"), ("agent-a1", agent("a1")))
    with (tmp_path / "agent-a1.jsonl").open("ab") as out:
        out.write(b'{"type":"mode"}\n{"type":"assis')
    assert [(note.code, note.place) for note in read(path).notes] == [
        ("skipped-record", "agent-a1 line 4"),
        ("half-line", "agent-a1 line 5"),
    ]


@pytest.mark.parametrize("odd", [None, 3, [], "", "../../x", {"a": 1}])
def test_odd_agents_break_nothing(tmp_path: Path, odd: Any) -> None:
    main = parent("a1")
    main.assistant(
        call("t5", "Task"), {"type": "tool_use", "id": "t6", "name": "Agent", "input": odd}
    )
    main.result("t5", side={"agentId": odd, "totalToolUseCount": odd})
    main.user("x", isSidechain=True, agentId=odd, parentUuid=odd)
    main.add(
        "assistant",
        isSidechain=True,
        agentId=odd,
        parentUuid=odd,
        message={"content": odd},
        uuid=odd,
    )
    made: list[Event] = events(
        place(tmp_path, main, ("agent-a1", agent("a1")), meta={"agentType": odd, "spawnDepth": odd})
    )
    assert brief(made[0]) == "user: Find out."
