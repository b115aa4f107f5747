"""Which step a request asks for, and where a replay diverges from its recording."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from helpers.replay_clients import WIRES, Client, Turn, in_process, played, turns_of
from open_token.api import export
from open_token.errors import OpenTokenError
from open_token.replay.equivalence import Equivalence
from open_token.replay.player import ReplayRules, ReplaySession
from open_token.replay.recording import build_recording
from open_token.replay.report import build_report, to_json_object, to_junit
from open_token.replay.requests import Message, ModelRequest, Tool, ToolCall, ToolResult

EXAMPLES = sorted((ROOT / "examples").glob("*.json*"))
STRICT = ReplayRules(Equivalence(exact=True))
TOOLS = [Tool("bash", {})]
LARGEST = 3_000_000
NOT_SESSIONS = ("jcs", "jsontestsuite", "redaction")


@cache
def read(path: Path) -> Any:
    return export(path, redact="none")


def run_of(path: Path, rules: ReplayRules | None = None) -> tuple[Any, ReplaySession]:
    session = read(path)
    return session, ReplaySession(build_recording(session), rules or ReplayRules())


def build_session(*turns: tuple[str, str]) -> Any:
    """A session of prompts and answers; an answer that begins with $ is a command, and the next prompt
    its result."""
    events: list[dict[str, Any]] = []
    calls = 0
    for said, answer in turns:
        is_result = bool(events) and events[-1]["type"] == "tool_use"
        links = {"links": {"call_id": f"call_{calls}"}} if is_result else {}
        kind, role = ("tool_result", "tool") if is_result else ("message", "user")
        events.append({"type": kind, "role": role, "content": {"text": said}, **links})
        if answer.startswith("$"):
            calls += 1
            data = {"tool_name": "bash", "arguments": {"command": answer[1:]}}
            links = {"links": {"call_id": f"call_{calls}"}}
            events.append(
                {"type": "tool_use", "role": "assistant", "content": {"data": data}, **links}
            )
        else:
            events.append({"type": "message", "role": "assistant", "content": {"text": answer}})
    return {"events": [{**event, "seq": place} for place, event in enumerate(events, 1)]}


def asks(*items: Any, tools: list[Tool] = TOOLS, **more: Any) -> ModelRequest:
    return ModelRequest(
        "chat",
        "m",
        False,
        [Message("user", item) if isinstance(item, str) else item for item in items],
        tools,
        **more,
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_same_report_three_times(path: Path) -> None:
    made = set()
    for _ in range(3):
        session, run = run_of(path)
        assert played(in_process(run), session, "anthropic", stream=True) == 0
        report = build_report(run, str)
        made.add((str(to_json_object(report, "session")), to_junit(report, run, "session")))
    assert len(made) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_changed_anywhere_is_found_exactly_there(path: Path, wire: str) -> None:
    session, _ = run_of(path)
    turns = turns_of(session)
    for number, turn in enumerate(turns, 1):
        for changed, where in changes(turn):
            _, run = run_of(path)
            assert (
                played(in_process(run), session, wire, stream=False, changed={number: changed})
                == number
            )
            report = build_report(run, str)
            assert report.divergence is not None
            recorded = [step for step in run.recording.steps if not step.lane][number - 1]
            assert (report.divergence.step, report.divergence.where.split(" of ")[0]) == (
                recorded.number,
                where,
            )
            assert report.served == number - 1


def changes(turn: Turn) -> list[tuple[Turn, str]]:
    """One change each: a word of what a person typed, a word of what a call gave back."""
    found = []
    if turn.prompts:
        found.append(
            (turn._replace(prompts=[*turn.prompts[:-1], turn.prompts[-1] + " now"]), "the prompt")
        )
    for name, result in turn.results.items():
        found.append(
            (turn._replace(results={**turn.results, name: result + "\nand more"}), "the result")
        )
    return found


@pytest.mark.parametrize("wire", WIRES)
def test_a_changed_argument_is_found(wire: str) -> None:
    session, _ = run_of(ROOT / "examples" / "claude_code.jsonl")
    turns = turns_of(session)
    tools = sorted({call[0] for turn in turns for call in turn.called})
    for number in (2, 3, 4):
        _, run = run_of(ROOT / "examples" / "claude_code.jsonl")
        client = Client(in_process(run), wire, stream=False, tools=tools)
        for turn in turns[: number - 1]:
            spoken = client.ask(turn)
        before = WIRES[wire].answer(spoken)
        other = WIRES[wire].answer(
            spoken._replace(calls=[c._replace(arguments={"x": 1}) for c in spoken.calls])
        )
        client.history[-len(before) :] = other
        client.ask(turns[number - 1])
        report = build_report(run, str)
        assert client.status == 400
        assert report.divergence is not None
        assert (report.divergence.step, report.divergence.where[:13]) == (number, "the arguments")


def test_the_next_of_equal_steps_and_one_that_is_asked_again() -> None:
    run = ReplaySession(
        build_recording(build_session(("go on", "one"), ("go on", "two"), ("go on", "three"))),
        ReplayRules(),
    )
    first = run.ask(asks("go on"))
    again = run.ask(asks("go on"))
    second = run.ask(asks("go on", Message("model", "one"), "go on"))
    once_more = run.ask(asks("go on", Message("model", "one"), "go on"))
    third = run.ask(
        asks("go on", Message("model", "one"), "go on", Message("model", "two"), "go on")
    )
    output = [
        (verdict.outcome, verdict.answer.text)
        for verdict in (first, again, second, once_more, third)
    ]
    assert output == [
        ("matched", "one"),
        ("repeated", "one"),
        ("matched", "two"),
        ("repeated", "two"),
        ("matched", "three"),
    ]
    assert run.is_complete
    assert run.ask(asks("go on", Message("model", "three"), "more")).outcome == "missed"
    report = build_report(run, str)
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.where) == (None, "the end of the recording")
    assert b"after the last step" in to_junit(report, run, "session")


def test_steps_out_of_order() -> None:
    session = build_session(("first", "one"), ("second", "two"))
    assert (
        ReplaySession(build_recording(session), ReplayRules()).ask(asks("second")).outcome
        == "missed"
    )
    run = ReplaySession(build_recording(session), ReplayRules(any_order=True))
    assert [run.ask(asks(word)).answer.text for word in ("second", "first")] == ["two", "one"]
    assert build_report(run, str).is_same


def test_subagents_have_lanes_of_their_own() -> None:
    session, run = run_of(ROOT / "examples" / "open_token.json")
    task = [Tool("Task", {}), Tool("Read", {})]
    first = run.ask(asks(session["events"][0]["content"]["text"], tools=task))
    assert [call.name for call in first.answer.calls] == ["Task"]
    child = run.ask(asks("Find the sowing time of beans", tools=task))
    (call,) = child.answer.calls
    assert call.name == "Read"
    result = ToolResult(call.id, "", "beans: after the last frost, mid May")
    asked = asks(
        "Find the sowing time of beans",
        ToolCall(call.id, call.name, call.arguments),
        result,
        tools=task,
    )
    assert run.ask(asked).answer.text == "After the last frost: mid May."
    assert build_report(run, str).divergence.step == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked",
    [
        asks("Where is it?", tools=[], system="You are a title generator."),
        asks("Where is it?", tools=[], system="Generate a short title for this."),
        asks(
            "Where is it?",
            tools=[],
            wants_json=True,
            schema={"type": "object", "properties": {"score": {"type": "number"}}},
        ),
        asks("quota", limit=1),
        asks("Where is it?", tools=[]),
        asks("Something else", tools=[]),
    ],
)
def test_titles_routers_and_probes_are_outside_the_conversation(asked: ModelRequest) -> None:
    run = ReplaySession(
        build_recording(build_session(("Where is it?", "$ls"), ("here", "Here."))), ReplayRules()
    )
    verdict = run.ask(asked)
    assert (verdict.outcome, run.served) == ("aside", 0)
    assert verdict.answer.text in ("ok", '{"score":1}')
    assert run.ask(asks("Where is it?")).outcome == "matched"


def test_a_conversation_without_tools_is_asked_without_tools() -> None:
    run = ReplaySession(
        build_recording(build_session(("Good day", "Hello."), ("Bye", "Bye."))), ReplayRules()
    )
    assert run.ask(asks("Good night", tools=[])).outcome == "missed"
    assert run.ask(asks("Good day", tools=[])).answer.text == "Hello."


def test_a_stub_for_what_is_missing() -> None:
    run = ReplaySession(
        build_recording(build_session(("Good day", "Hello."))), ReplayRules(stub=True)
    )
    verdict = run.ask(asks("Good night"))
    assert (verdict.outcome, verdict.answer.text, verdict.answer.error) == ("missed", "ok", "")
    assert run.ask(asks("Good day")).outcome == "matched"
    assert not build_report(run, str).is_same


def test_results_may_differ_on_request() -> None:
    session = build_session(("Where is it?", "$ls"), ("here", "Here."))
    for any_results, outcome in ((False, "missed"), (True, "matched")):
        run = ReplaySession(build_recording(session), ReplayRules(any_results=any_results))
        (call,) = run.ask(asks("Where is it?")).answer.calls
        output = asks(
            "Where is it?",
            ToolCall(call.id, "bash", {"command": "ls"}),
            ToolResult(call.id, "", "there"),
        )
        assert run.ask(output).outcome == outcome


def test_strict_forgives_nothing() -> None:
    session = build_session(("Where is it?", "$ls"), ("took 0.3 s", "Here."))
    for rules, outcome in ((ReplayRules(), "matched"), (STRICT, "missed")):
        run = ReplaySession(build_recording(session), rules)
        (call,) = run.ask(asks("Where is it?")).answer.calls
        output = asks(
            "Where is it?",
            ToolCall(call.id, "bash", {"command": "ls"}),
            ToolResult(call.id, "", "took 0.4 s"),
        )
        assert run.ask(output).outcome == outcome
    assert (
        ReplaySession(build_recording(session), ReplayRules())
        .ask(asks("<note>x</note>", "Where is it?"))
        .outcome
        == "matched"
    )
    assert (
        ReplaySession(build_recording(session), STRICT)
        .ask(asks("<note>x</note>", "Where is it?"))
        .outcome
        == "missed"
    )


def test_a_tool_that_is_not_offered_is_reported() -> None:
    run = ReplaySession(
        build_recording(build_session(("Where is it?", "$ls"), ("here", "Here."))), ReplayRules()
    )
    assert run.ask(asks("Where is it?", tools=[Tool("draw", {})])).missing_tools == ("bash",)


def test_a_long_run_is_not_slower_at_its_end() -> None:
    """Equal prompts all along: only so many steps are tried for each."""
    run = ReplaySession(
        build_recording(build_session(*[("go on", f"answer {number}") for number in range(400)])),
        ReplayRules(),
    )
    for number in range(400):
        before = [Message("model", f"answer {number - 1}")] if number else []
        assert run.ask(asks(*before, "go on")).outcome == "matched"
    assert build_report(run, str).is_same


@pytest.mark.full
@pytest.mark.parametrize("wire", ["anthropic", "responses", "chat", "gemini"])
def test_every_conversation_of_the_corpus(wire: str, corpus: Path) -> None:
    tried, parted = 0, []
    for path in sorted(
        path for path in corpus.rglob("*") if path.is_file() and path.stat().st_size < LARGEST
    ):
        if path.relative_to(corpus).parts[0] in NOT_SESSIONS:
            continue
        try:
            session, run = run_of(path)
        except OpenTokenError:
            continue
        if run.recording.steps:
            tried += 1
            if played(in_process(run), session, wire, stream=True):
                parted.append(str(path.relative_to(corpus)))
    assert parted == []
    assert tried > 50


def test_only_the_first_miss_keeps_its_content() -> None:
    run = ReplaySession(build_recording(build_session(("Hi", "Hello"))), ReplayRules())
    for _ in range(3):
        output = run.ask(asks("something else")).difference
        assert output is not None
        assert output.given == "something else"
    assert [verdict.difference and verdict.difference.given for verdict in run.verdicts] == [
        "something else",
        "",
        "",
    ]
