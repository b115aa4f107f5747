"""What a person can send to an agent, seen by a client: order, answers, queue, stop, whatif,
compact."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import (
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent import loop
from open_token.server.agent.model_interface import ModelError
from open_token.server.core.chat import COMPACTION
from open_token.server.errors import ApiError
from open_token.server.store.rows import Caller, KeyRow

Fakes = Callable[..., None]


@pytest.mark.spec("chat-send-fields", "turn-events")
def test_one_exchange_comes_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            ack = await room.send("hello", thinking_override=True)
            assert ack["status"] == "ok"
            assert not ack["queued"]
            names = [name for name in room.names() if not name.startswith("session:")]
            ends = ["turn:start", "turn:end"]
            assert names == [
                "chat:start",
                *ends,
                "turn:start",
                "add_content",
                "set_status",
                "turn:end",
                "chat:end",
            ]
            assert room.heard[1][1]["settings"] == {"thinking": True}
            assert room.turns()[0]["turn_id"] == ack["turn_id"]
            assert room.mirror.session["intent"] == "hello"
            assert [mark.turn_id for mark in (await room.state()).checkpoints.values()] == [
                ack["turn_id"]
            ]
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-send-queue")
def test_a_second_message_waits_and_then_has_its_own_run(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        fakes(ScriptedModel([gate.wait, "first"], "second"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("one", wait=False)
            store, kept = room.services.store, []
            keep = store.set_setting

            async def noted(key: str, value: str | None) -> None:
                kept.append((key, value is not None))
                await keep(key, value)

            monkeypatch.setattr(store, "set_setting", noted)
            ack = await room.send(
                "two", wait=False, client_message_id="m2", runtime_env={"A": "secret"}
            )
            again = await room.send(
                "two", wait=False, client_message_id="m2", runtime_env={"A": "secret"}
            )
            assert ack["queued"]
            assert again["queued"]
            (waiting,) = (await room.state()).queue
            assert kept[0] == (f"env/{room.id}/{waiting}", True)
            gate.set()
            await room.until(lambda state: state.run is None and not state.queue)
            assert room.texts() == ["one", "first", "two", "second"]
            assert room.names().count("chat:end") == room.names().count("chat:start") == 2
            assert [payload["model"] for name, payload in room.heard if name == "chat:start"] == [
                "demo",
                "demo",
            ]
            assert all("secret" not in str(entry) for entry in room.entries)
            assert not any(dict(kept).values()), "an environment stayed behind"
            late = await room.send("two", client_message_id="m2")
            assert late["turn_id"] == room.turns()[2]["turn_id"]
            assert len(room.turns()) == 4
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-send-queue")
def test_a_message_that_is_sent_twice_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            both = await asyncio.gather(
                *(room.send("hi", wait=False, client_message_id="m") for _ in range(3))
            )
            await room.rest()
            assert len({ack["turn_id"] for ack in both}) == 1
            assert [turn["role"] for turn in room.turns()] == ["user", "assistant"]

    run(scenario())


@pytest.mark.spec("ask-user-question")
@pytest.mark.parametrize(
    "answer",
    [
        {"tool_call_id": "{}", "selections": {"0": [1]}},
        {"prompt_id": "{}", "answer": "Right"},
        {"answer": "Right"},
    ],
)
def test_a_question_waits_for_its_answer(tmp_path: Path, answer: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("ask")
            assert room.mirror.session["status"] == "waiting_for_input"
            turn = room.turns()[-1]
            assert (turn["status"], turn["tool_calls"][0]["status"]) == (
                "paused",
                "awaiting_answer",
            )
            name = turn["tool_calls"][0]["id"]
            given = {key: name if value == "{}" else value for key, value in answer.items()}
            await room.send(askuser_answer=given)
            asked, said, last = room.turns()[-3:]
            assert (asked["status"], asked["tool_calls"][0]["status"]) == ("completed", "done")
            assert said["blocks"][0]["type"] == "ask_user_answer"
            assert said["blocks"][0]["content"]["answers"] == ["Right"]
            assert "Right" in last["blocks"][0]["content"]
            assert room.mirror.session["status"] == "completed"
            await room.check()

    run(scenario())


@pytest.mark.spec("ask-user-question")
def test_a_question_is_shown_whole_and_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("ask")
            turn = room.turns()[-1]
            (added,) = [
                payload["data"]
                for _, payload in room.heard
                if payload.get("patch_type") == "add_tool_call"
            ]
            assert added["status"] == "awaiting_answer"
            assert json.loads(added["arguments"])["questions"][0]["options"][1]["label"] == "Right"
            assert added["arguments"] == turn["tool_calls"][0]["arguments"]
            first = room.names().index("add_tool_call")
            rest = ["set_status", "set_tool_status", "set_status", "turn:end", "chat:end"]
            assert room.names()[first + 1 :] == [*rest, "session:updated"]
            assert room.heard[-4][1]["data"] == {"status": "paused"}
            assert room.heard[-2][1]["status"] == "completed"
            assert room.heard[-1][1]["status"] == "waiting_for_input"

    run(scenario())


ASK = '{"questions": [{"question": "Which?", "options": [{"label": "A"}]}]}'


@pytest.mark.spec("ask-user-question")
@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (
            [*build_call_pieces("Look", "c1"), *build_call_pieces("AskUserQuestion", "c2", ASK)],
            "pending",
        ),
        (
            [*build_call_pieces("AskUserQuestion", "c2", ASK), *build_call_pieces("Look", "c1")],
            "pending",
        ),
        ([*build_call_pieces("AskUserQuestion", "c2", ASK), "So which?"], "pending"),
        (build_call_pieces("AskUserQuestion", "c2", '{"questions": []}'), "pending"),
        (build_call_pieces("AskUserQuestion", "c2", "{"), "pending"),
        (build_call_pieces("AskUserQuestion", "c2", ASK), "awaiting_answer"),
    ],
)
def test_a_question_waits_only_when_it_is_one_and_comes_last(
    tmp_path: Path, fakes: Fakes, pieces: list[Any], shown: str
) -> None:
    """What runs before it may take long, and nobody can answer until it is asked."""

    async def scenario() -> None:
        fakes(ScriptedModel(pieces, "end"), FakeTool("Look", lambda _: "there"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            added = [
                payload["data"]
                for _, payload in room.heard
                if payload.get("patch_type") == "add_tool_call"
            ]
            assert [data["status"] for data in added if data["tool_name"] == "AskUserQuestion"] == [
                shown
            ]
            assert [data["id"] for data in added] == [
                call["id"] for call in room.turns()[1]["tool_calls"]
            ]
            if ASK in str(pieces):
                assert room.mirror.session["status"] == "waiting_for_input"
                await room.send("A")
            else:
                assert room.turns()[1]["tool_calls"][0]["status"] == "error"
            assert room.texts()[-1] == "end"
            await room.check()

    run(scenario())


@pytest.mark.spec("ask-user-question")
def test_an_answer_may_come_before_the_chat_has_ended(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("AskUserQuestion", "c1", ASK), "end"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            shown, answered = asyncio.Event(), asyncio.Event()
            settle = loop._execute_calls

            async def held(*given: Any) -> Any:
                shown.set()
                await answered.wait()
                return await settle(*given)

            chat = room.services.chat
            ended = chat.wait_for_run_end

            async def waited(*given: Any) -> None:
                answered.set()
                await ended(*given)

            monkeypatch.setattr(loop, "_execute_calls", held)
            monkeypatch.setattr(chat, "wait_for_run_end", waited)
            await room.send("go", wait=False)
            await shown.wait()
            ack = await room.send(wait=False, askuser_answer={"tool_call_id": "c1", "answer": "A"})
            assert (ack["status"], ack["queued"]) == ("ok", False)
            await room.rest()
            assert room.texts()[-1] == "end"
            await room.check()

    run(scenario())


@pytest.mark.parametrize("fails", [True, False])
def test_a_question_that_is_broken_off_stays_as_far_as_it_came(
    tmp_path: Path, fakes: Fakes, fails: bool
) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        end = ModelError("no more", "request") if fails else hang
        fakes(
            ScriptedModel(
                ["I ask. ", *build_call_pieces("AskUserQuestion", "c1", ASK[:20]), end], "again"
            )
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            if not fails:
                await begun.wait()
                await room.services.chat.stop(room.caller, room.id)
            await room.rest()
            (call,) = room.turns()[1]["tool_calls"]
            assert (call["status"], call["arguments"], room.texts()[1]) == (
                "cancelled",
                ASK[:20],
                "I ask. ",
            )
            assert room.turns()[1]["status"] == ("failed" if fails else "interrupted")
            await room.send("once more")
            assert room.texts()[-1] == "again"
            await room.check()

    run(scenario())


def test_a_question_that_was_stopped_before_it_was_asked(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("AskUserQuestion", "c1", ASK), "end"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            shown = asyncio.Event()

            async def held(*_: Any) -> None:
                shown.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(loop, "_execute_calls", held)
            await room.send("go", wait=False)
            await shown.wait()
            await room.services.chat.stop(room.caller, room.id)
            assert room.turns()[1]["tool_calls"][0]["status"] == "cancelled"
            assert (room.turns()[1]["status"], room.mirror.session["status"]) == (
                "interrupted",
                "interrupted",
            )
            monkeypatch.undo()
            fakes(ScriptedModel("on we go"))
            await room.send("go on")
            assert room.texts()[-1] == "on we go"
            await room.check()

    run(scenario())


@pytest.mark.spec("ask-user-answer")
def test_words_are_an_answer_to_a_single_question(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("ask")
            await room.send("straight on")
            assert room.turns()[-2]["blocks"][0]["content"]["custom"] == {"0": "straight on"}
            assert "straight on" in room.texts()[-1]
            await room.send("ask")
            await room.send([{"type": "text", "text": "hello"}])
            assert room.turns()[-3]["tool_calls"][0]["status"] == "cancelled"
            assert room.turns()[-3]["status"] == "interrupted"
            assert room.turns()[-1]["status"] == "completed"
            await room.check()

    run(scenario())


@pytest.mark.spec("ask-user-answer")
def test_answers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("ask")
            name = room.turns()[-1]["tool_calls"][0]["id"]
            for given in (
                {"tool_call_id": "other", "answer": "x"},
                {"tool_call_id": name},
                {"tool_call_id": name, "selections": {"0": [7]}},
                {"tool_call_id": name, "selections": {"0": [0, 1]}},
            ):
                with pytest.raises(ApiError) as refused:
                    await room.send(askuser_answer=given)
                assert refused.value.status in (409, 422)
            assert room.mirror.session["status"] == "waiting_for_input"

    run(scenario())


@pytest.mark.spec("chat-stop")
def test_stop_keeps_what_was_said(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            await never.wait()

        fakes(ScriptedModel(["half a ", "word", hang], "again"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await begun.wait()
            assert await room.services.chat.stop(room.caller, room.id) == {
                "status": "ok",
                "stopped": True,
            }
            assert room.texts() == ["go", "half a word"]
            assert (room.turns()[-1]["status"], room.mirror.session["status"]) == (
                "interrupted",
                "interrupted",
            )
            assert await room.services.chat.stop(room.caller, room.id) == {
                "status": "ok",
                "stopped": False,
            }
            await room.send("once more")
            assert room.texts()[-1] == "again"
            runs = await room.services.store.runs(room.caller.user.id, room.id)
            assert [row.status for row in runs] == ["interrupted", "completed"]
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-stop")
def test_stop_cancels_a_tool_and_lets_the_queue_go_on(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        model = ScriptedModel(build_call_pieces("Slow"), "next")
        fakes(model, FakeTool("Slow", lambda _: hang()))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await begun.wait()
            await room.send("and then", wait=False)
            await room.services.chat.stop(room.caller, room.id)
            await room.until(lambda state: state.run is None and not state.queue)
            assert room.turns()[1]["tool_calls"][0]["status"] == "cancelled"
            assert room.texts()[2:] == ["and then", "next"]
            results = [part for message in model.requests[-1].messages for part in message.parts]
            assert any(
                getattr(part, "content", None) == {"error": "cancelled by the person"}
                for part in results
            )
            await room.check()

    run(scenario())


@pytest.mark.spec("whatif-branch")
def test_whatif_goes_on_from_a_step_on_a_new_branch(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel("a1", "a2", "a3")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("q1")
            await room.send("q2")
            first = room.turns()[1]["id"]
            wish = {"from_step": 2, "quotes": ["a word"], "deprecate_entry_ids": [first]}
            await room.send("q3", whatif=wish)
            assert room.texts() == ["q1", "a1", "q3", "a3"]
            assert len(room.mirror.turns()) == 6
            said = [
                part.text for message in model.requests[-1].messages[1:] for part in message.parts
            ]
            assert said == ["q1", "> a word", "q3"]
            with pytest.raises(ApiError):
                await room.send("q4", whatif={"from_step": 0, "deprecate_entry_ids": ["unknown"]})
            await room.check()

    run(scenario())


@pytest.mark.spec("session-compact", "chat-compact")
def test_compact_makes_a_turn_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            with pytest.raises(ApiError, match="nothing to compact"):
                await room.services.chat.compact(room.caller, room.id)
            await room.send("long")
            ack = await room.services.chat.compact(room.caller, room.id)
            assert (ack["status"], ack["code"]) == ("ok", "compacted")
            turn = room.turns()[-1]
            assert (turn["kind"], turn["trigger"], turn["archived_count"]) == (
                "compaction",
                "manual",
                2,
            )
            assert ack["entry"] == {name: turn[name] for name in ack["entry"]}
            assert {name: ack[name] for name in COMPACTION} == {
                name: turn[name] for name in COMPACTION
            }
            assert turn["tokens_after"] < turn["tokens_before"]
            assert 0 < turn["saved_ratio"] < 1
            await room.check()

    run(scenario())


def test_what_is_not_ones_own_or_not_allowed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            key: KeyRow = room.caller.key
            reader = Caller(user=room.caller.user, key=KeyRow(**{**_fields(key), "scope": "read"}))
            for does in (
                room.services.chat.send(reader, {"session_id": room.id, "message": "x"}),
                room.services.chat.stop(reader, room.id),
                room.services.chat.compact(reader, room.id),
            ):
                with pytest.raises(ApiError) as refused:
                    await does
                assert refused.value.status == 403
            for name in ("sess_other", "", None, 3, "x" * 300):
                with pytest.raises(ApiError) as refused:
                    await room.services.chat.stop(room.caller, name)
                assert refused.value.status in (404, 422)
            with pytest.raises(ApiError) as refused:
                await room.send("hi", model="nobody:knows")
            assert refused.value.code == "no_model"
            assert room.turns() == []

    run(scenario())


def _fields(key: KeyRow) -> dict[str, Any]:
    return {name: getattr(key, name) for name in key.__struct_fields__}
