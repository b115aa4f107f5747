"""Every live example of the protocol, as clients of both dialects hear it."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.live_events import (
    ANNA,
    RecordingClient,
    append_events,
    create_session,
    ended,
    fold_turns,
    opened,
    read_stored_turns,
    run,
    run_services_in,
    summarize_turns,
    word,
)
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import (
    ContentBlock,
    UiCard,
    build_meta_blocks,
    from_builtins,
    split_meta,
    to_builtins,
)
from open_token.model.session_types import ToolCallProjection as Call
from open_token.session import SessionState, actions, branches

RUN: NewEvent = ("run.started", {"run_id": "run_1"})


def done(**more: Any) -> NewEvent:
    return "run.ended", {"run_id": "run_1", **more}


def called(name: str, turn: str = "turn_1", **call: Any) -> NewEvent:
    return "tool.called", {"turn_id": turn, "call": {"id": name, "tool_name": "Bash", **call}}


def result(name: str, value: Any, turn: str = "turn_1") -> NewEvent:
    return "tool.result", {"turn_id": turn, "tool_call_id": name, "result": value}


def said(text: str = "hello", turn: str = "turn_0") -> list[NewEvent]:
    return actions.send_user_message(
        turn, actions.build_text_blocks(text), checkpoint_id=f"cp_{turn}"
    )


class Heard:
    """What both kinds of clients heard of some steps."""

    def __init__(self, old: RecordingClient, new: RecordingClient) -> None:
        self.old, self.new = old, new
        self.events = [(frame.name, frame.payload) for frame in old.frames]
        self.items = [(item["type"], item["payload"]) for item in new.items()]

    def names(self) -> list[str]:
        """The events in order; a patch is named by its kind."""
        return [payload.get("patch_type", name) for name, payload in self.items]

    def of(self, name: str) -> list[Json]:
        return [
            payload for known, payload in self.items if name in (known, payload.get("patch_type"))
        ]


def heard(folder: Path, *parts: Any) -> Heard:
    """Write steps, or what is made of the state, part by part; both kinds of clients have the turns
    of the log."""
    found: list[Heard] = []

    async def test() -> None:
        async with run_services_in(folder) as services:
            await create_session(services)
            old, new = RecordingClient(), RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "legacy", None, old)
            await services.feed.subscribe(ANNA, "sess_1", "raw", None, new)
            for part in parts:
                make = part if callable(part) else lambda state, part=part: part
                await services.journal.write(ANNA, "sess_1", make)
            await append_events(services, ("notice.given", {"message": "the end"}))
            for ears in (old, new):
                await ears.until(lambda ears=ears: "the end" in str(ears.frames[-1:]))
                assert (
                    summarize_turns(ears.mirror.branch())
                    == await fold_turns(services)
                    == await read_stored_turns(services)
                )
            found.append(Heard(old, new))

    run(test())
    return found[0]


@pytest.mark.spec("turn-events", "type-turn-projection")
def test_the_order_of_one_exchange(tmp_path: Path) -> None:
    first = [opened(), word("I look. "), called("tc_1"), result("tc_1", "a.txt"), ended()]
    second = [
        opened("turn_2"),
        word("There is a.txt", "turn_2"),
        ended("turn_2"),
        done(output="There is a.txt"),
    ]
    reported = heard(tmp_path, [RUN, *said()], first, second)
    turn = ["turn:start", "turn:end"]
    assert reported.names() == [
        *["chat:start", *turn],
        *["turn:start", "add_content", "add_tool_call", "tool_result", "turn:end"],
        *["turn:start", "add_content", "turn:end", "chat:end", "system:notification"],
    ]
    assert [turn["sequence"] for turn in reported.of("turn:start")] == [0, 1, 2]
    assert [turn["role"] for turn in reported.of("turn:start")] == [
        "user",
        "assistant",
        "assistant",
    ]
    assert [patch["sequence"] for patch in reported.of("turn:patch")] == [1, 2, 3, 1]
    assert reported.of("turn:end")[1]["tool_calls"][0]["status"] == "done"
    assert [name for name, _ in reported.events if name != "turn:patch"] == [
        name for name, _ in reported.items if name != "turn:patch"
    ]


@pytest.mark.spec("turn-events")
def test_older_clients_hear_what_a_session_was_made_from(tmp_path: Path) -> None:
    changes = {"changes": {"solution_id": "sol_1", "template_id": "report.daily"}}
    reported = heard(tmp_path, [("session.changed", changes), *said()])
    turns = [payload for name, payload in reported.events if name in ("turn:start", "turn:end")]
    assert [(turn["solution_id"], turn["template_id"]) for turn in turns] == [
        ("sol_1", "report.daily")
    ] * 2
    assert all("template_id" not in payload for payload in reported.of("turn:start"))


@pytest.mark.spec("ask-user-question")
def test_a_question_and_its_answer(tmp_path: Path) -> None:
    questions = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]

    def answers(state: SessionState) -> list[NewEvent]:
        given = actions.normalize_answer(state.questions["tc_1"], {"selections": {"0": [1]}})
        block = ContentBlock(type="ask_user_answer", content=given, tool_call_id="tc_1")
        said = actions.send_user_message("turn_2", [block])
        return [
            *said,
            *actions.answer_question(state, "tc_1", given),
            result("tc_1", given["answers"]),
        ]

    asked = [RUN, opened(), called("tc_1", tool_name="AskUserQuestion", status="awaiting_answer")]
    reported = heard(
        tmp_path,
        [*said(), *asked],
        lambda state: actions.ask_question(state, "turn_1", "tc_1", questions),
        [("turn.ended", {"turn_id": "turn_1", "status": "paused"}), done()],
        answers,
    )
    end = reported.of("chat:end")[0]
    assert reported.of("add_tool_call")[0]["data"]["status"] == "awaiting_answer"
    assert reported.of("turn:end")[1]["status"] == "paused"
    assert (end["status"], end["session_status"]) == ("completed", "waiting_for_input")
    assert reported.of("tool_result")[0]["data"]["result"] == ["B"]
    assert reported.of("turn:start")[2]["blocks"][0]["content"]["answers"] == ["B"]


@pytest.mark.spec("subagent-turns", "type-pending-question-ref")
def test_a_subagent_and_its_question(tmp_path: Path) -> None:
    child = opened("turn_2", loop_id="loop_1", parent_fork_tool_call_id="tc_1")
    reported = heard(
        tmp_path,
        [RUN, opened(), called("tc_1", tool_name="Agent"), child, called("tc_2", "turn_2")],
        lambda state: actions.ask_question(
            state, "turn_2", "tc_2", [{"question": "Sure?", "options": []}]
        ),
        [("turn.ended", {"turn_id": "turn_2", "status": "paused"})],
    )
    start = reported.of("turn:start")[1]
    assert (start["loop_id"], start["parent_fork_tool_call_id"]) == ("loop_1", "tc_1")
    waits = [
        patch["data"] for patch in reported.of("set_tool_status") if patch["turn_id"] == "turn_1"
    ]
    assert waits[0]["pending_question_ref"] == {
        "child_loop_name": "loop_1",
        "child_tool_call_id": "tc_2",
        "description": "Sure?",
    }


@pytest.mark.spec("headless-run")
@pytest.mark.parametrize(
    ("ending", "raw", "legacy"),
    [
        (
            {"output": "text"},
            {"result": "text"},
            {"result": "text", "output": "text", "schema": None},
        ),
        (
            {"output": {"a": 1}, "schema": {"type": "object"}},
            {"a": 1},
            {"a": 1, "output": {"a": 1}, "schema": {"type": "object"}},
        ),
        ({"status": "failed", "error": "no JSON"}, {"err_msg": "no JSON"}, {"err_msg": "no JSON"}),
    ],
)
def test_headless_results(tmp_path: Path, ending: Json, raw: Json, legacy: Json) -> None:
    reported = heard(tmp_path, [RUN, done(**ending)])
    assert reported.of("chat:end")[0]["result"] == raw
    assert dict(reported.events)["chat:end"]["result"] == legacy


@pytest.mark.spec("planning-mode")
def test_planning(tmp_path: Path) -> None:
    plan = {"type": "plan_status", "content": {"status": "ready", "plan": "1. look"}}
    blocks = [{"type": "planning_enter"}, plan, {"type": "planning_exit"}]
    added: list[NewEvent] = [
        ("block.added", {"turn_id": "turn_1", "block": block}) for block in blocks
    ]
    reported = heard(
        tmp_path,
        [opened(), ("mode.changed", {"turn_id": "turn_1", "to": "planning"}), *added, ended()],
    )
    found = [patch["data"]["type"] for patch in reported.of("add_content")]
    assert found == ["mode_change", "planning_enter", "plan_status", "planning_exit"]
    assert reported.of("add_content")[0]["data"]["content"] == {
        "from": "executing",
        "to": "planning",
    }


@pytest.mark.spec("whatif-branch")
def test_whatif_and_rewind(tmp_path: Path) -> None:
    reported = heard(
        tmp_path,
        [*said("one"), opened(), ended(), *said("two", "turn_2")],
        lambda state: [branches.start_whatif(state, 1, ["quote"], [])],
        [opened("turn_3"), ended("turn_3")],
        lambda state: [branches.rewind(state, "cp_turn_0")],
    )
    moved = reported.of("session:updated")
    assert [(item["head"], item["reason"]) for item in moved] == [
        ("entry_0", "whatif"),
        (None, "rewind"),
    ]
    assert reported.of("turn:start")[-1]["parent_id"] == "entry_0"


@pytest.mark.spec("compaction-turn")
def test_compaction(tmp_path: Path) -> None:
    facts = {
        "compaction_id": "c",
        "summary_full": "short",
        "tokens_before": 100,
        "tokens_after": 10,
    }
    facts |= {
        "saved_ratio": 0.9,
        "trigger": "forced_retry",
        "archived_count": 4,
        "summary_preview": "sh",
    }
    reported = heard(
        tmp_path,
        [
            opened(kind="compaction", role="system"),
            ("compacted", {"turn_id": "turn_1", **facts}),
            ended(),
        ],
    )
    end = reported.of("turn:end")[0]
    assert end["kind"] == "compaction"
    assert facts.items() <= end.items()


@pytest.mark.spec("tool-result-meta")
def test_what_a_tool_has_for_the_page(tmp_path: Path) -> None:
    card = {"resourceHTML": "<b>hi</b>", "target": "inline", "height": 200, "title": "Card"}
    given = {
        "text": "shown",
        "_meta": {"bridge": {"action": "addContext", "payload": {"a": 1}}, "ui": card},
    }
    bare, meta = split_meta(given)
    call = from_builtins({"id": "tc_1", "tool_name": "Bash"}, Call)
    blocks = [to_builtins(block) for block in build_meta_blocks(meta, call)]
    added: list[NewEvent] = [
        ("block.added", {"turn_id": "turn_1", "block": block}) for block in blocks
    ]
    reported = heard(tmp_path, [opened(), called("tc_1"), result("tc_1", bare), *added, ended()])
    assert reported.of("tool_result")[0]["data"]["result"] == {"text": "shown"}
    bridge, ui = [patch["data"] for patch in reported.of("add_content")]
    assert (bridge["type"], bridge["content"]["action"], bridge["tool_call_id"]) == (
        "tool_bridge",
        "addContext",
        "tc_1",
    )
    assert ui["type"] == "tool_ui"
    assert from_builtins(ui["content"], UiCard).height == 200


def test_a_stop_keeps_what_was_said(tmp_path: Path) -> None:
    reported = heard(
        tmp_path, [RUN, opened(), word("half a "), called("tc_1")], actions.interrupt_run
    )
    end, status = reported.of("turn:end")[0], reported.of("set_tool_status")[0]
    assert (end["status"], end["blocks"][0]["content"]) == ("interrupted", "half a ")
    assert status["data"] == {"tool_call_id": "tc_1", "status": "cancelled"}
    assert reported.of("chat:end")[0]["status"] == "interrupted"


@pytest.mark.spec("replay-mismatch", "replay-speeds")
def test_a_replay(tmp_path: Path) -> None:
    state = {
        "source_session_id": "sess_0",
        "speed": 2,
        "status": "playing",
        "position": 1,
        "total": 9,
    }
    reported = heard(tmp_path, [("replay.changed", {"replay_state": state})])
    assert reported.of("session:updated")[0]["replay_state"] == state
