"""A recorded session is played again: the same turns, in its rhythm, steered by the person, across
restarts."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given

from helpers.server.random_sessions import SessionLog, session_logs
from helpers.server.server_client import SESSION_EVENTS, ServerClient, open_server, run_with_server
from open_token.model.log_events import Json, LogEntry, NewEvent, merge_deltas
from open_token.model.session_types import to_builtins
from open_token.server.clock import Clock
from open_token.server.config import Limits
from open_token.server.core import replay, replay_player
from open_token.server.core.replay_script import MAX_PAUSE, Script, ScriptItem
from open_token.server.errors import ApiError
from open_token.session import SessionState, actions

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.json*"))

# As chat:send writes it: the run first, then the message. TALK has it the other way round; both are
# played.
MORE: list[NewEvent] = [
    ("run.started", {"run_id": "run_2"}),
    *actions.send_user_message(
        "turn_4", actions.build_text_blocks("Read  it,\nplease."), checkpoint_id="cp_2"
    ),
    ("turn.opened", {"turn": {"turn_id": "turn_5"}}),
    ("text.delta", {"turn_id": "turn_5", "text": "It says alpha."}),
    ("turn.ended", {"turn_id": "turn_5"}),
    ("run.ended", {"run_id": "run_2"}),
]


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def clock(self) -> Clock:
        return Clock(moment=lambda: self.moment)

    def move(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def with_pause(folder: Path, test: Callable[[ServerClient], Any]) -> Any:
    """A server on which the person thought for an hour between two messages of a session."""
    hands = Hands()

    async def whole() -> Any:
        async with open_server(folder, hands.clock()) as ask:
            await ask.create_session()
            hands.move(3600)
            await ask.services.journal.write(ask.owner, "sess_1", lambda state: MORE)
            return await asyncio.wait_for(test(ask), 60)

    return asyncio.run(whole())


async def until(ask: ServerClient, session_id: str, is_so: Callable[[Json], bool]) -> Json:
    """How a replay stands, as soon as something is so of it."""
    grown = asyncio.Event()
    unlisten = ask.services.bus.listen(session_id, lambda _: grown.set())
    try:
        while True:
            grown.clear()
            standing: Json = to_builtins((await ask.state(session_id)).session.replay_state)
            if is_so(standing):
                return standing
            await grown.wait()
    finally:
        unlisten()


def is_over(standing: Json) -> bool:
    return bool(standing["status"] == "finished")


def waits_at(position: int) -> Callable[[Json], bool]:
    return lambda standing: bool(standing["position"] == position)


async def begun(ask: ServerClient, session_id: str = "sess_1", speed: int = 1) -> str:
    answer = await ask("POST", f"/api/sessions/{session_id}/replay", json={"speed": speed})
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["session_id"]
    return name


async def shown(ask: ServerClient, session_id: str) -> list[Any]:
    """The turns of a session without what is its own: names and times."""
    return bare(await ask.state(session_id))


@pytest.mark.spec("replay-start", "replay-speeds", "type-replay-status")
def test_the_same_turns(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        await ask.create_session()
        session_id = await begun(ask, speed=5)
        standing = await until(ask, session_id, is_over)
        assert standing == {
            "source_session_id": "sess_1",
            "speed": 5,
            "status": "finished",
            "position": standing["total"],
            "total": standing["total"],
        }
        assert await shown(ask, session_id) == await shown(ask, "sess_1")
        state = await ask.state(session_id)
        assert (state.session.status, state.session.intent) == ("completed", "A session")
        assert len(state.checkpoints) == 1
        await asyncio.gather(*ask.services.replays._tasks)
        assert await ask.services.store.setting(replay.PENDING_KEY) is None

    run_with_server(tmp_path, test)


def test_only_the_current_branch_is_played(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        await ask.create_session(*MORE, ("branch.moved", {"head": "entry_3", "reason": "rewind"}))
        session_id = await begun(ask)
        await until(ask, session_id, is_over)
        assert await shown(ask, session_id) == await shown(ask, "sess_1")
        kinds = [
            entry.kind
            for entry in await ask.services.store.read_log(ask.owner, session_id, 0, 1000)
        ]
        assert kinds.count("run.started") == kinds.count("run.ended") == 1

    run_with_server(tmp_path, test)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_import_is_played(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("open_token.server.core.replay_script._PIECE_SECONDS", 0)
    monkeypatch.setattr("open_token.server.core.replay_script.MAX_PAUSE", 0)

    async def test(ask: ServerClient) -> None:
        answer = await ask(
            "POST", "/api/sessions/import", files={"file": (path.name, path.read_bytes())}
        )
        session_id = await begun(ask, answer.json()["session_id"])
        await until(ask, session_id, is_over)
        assert await shown(ask, session_id) == await shown(ask, answer.json()["session_id"])

    run_with_server(tmp_path, test)


@pytest.mark.spec("replay-start")
def test_pauses_are_those_of_the_recording(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        script = Script(ask.services, ask.owner, "sess_1", 1000, "sess_2")
        items = [item async for item in script.items(0)]
        outline = await script.outline()
        assert outline.total == len(items)
        for position in range(len(items)):
            assert [item async for item in script.items(position)] == items[position:]
        assert outline.find_next_input(0) == (0, "What is in the folder?")
        place = next(place for place, item in enumerate(items) if item.is_input and place)
        assert outline.find_next_input(1) == (place, "Read  it,\nplease.")
        assert outline.find_next_input(place + 1) is None
        return [item.pause for item in items if item.pause], items[place].pause

    assert with_pause(tmp_path, test) == ([MAX_PAUSE], MAX_PAUSE)


@pytest.mark.spec("replay-start")
@pytest.mark.parametrize("speed", replay.SPEEDS)
def test_pauses_are_shorter_by_the_speed(
    tmp_path: Path, speed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the player would wait for is noted, and not waited for."""
    waited: list[float] = []

    def none_at_all(seconds: float) -> asyncio.Timeout:
        waited.append(seconds)
        return asyncio.Timeout(0)

    async def test(ask: ServerClient) -> None:
        monkeypatch.setattr(
            replay_player, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": none_at_all})
        )
        monkeypatch.setattr("open_token.server.core.replay_script.MAX_PAUSE", 1000.0)
        session_id = await begun(ask, speed=speed)
        await until(ask, session_id, is_over)
        assert await shown(ask, session_id) == await shown(ask, "sess_1")

    with_pause(tmp_path, test)
    assert 500 / speed < max(waited) <= 1000 / speed


def test_words_of_an_import_come_in_pieces(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        events = [
            {
                "id": "evt_000001",
                "type": "message",
                "role": "user",
                "ts": "2026-01-01T00:00:00Z",
                "text": "Say much.",
            },
            {
                "id": "evt_000002",
                "type": "message",
                "role": "assistant",
                "ts": "2026-01-01T00:00:03Z",
                "text": "word " * 50,
            },
        ]
        for event in events:
            text = event.pop("text")
            event |= {
                "actor_id": "a",
                "visibility": "public",
                "content": {"mime": "text/plain", "text": text},
            }
        data = msgspec.json.encode({"open_token_version": "0.1", "events": events})
        answer = await ask("POST", "/api/sessions/import", files={"file": ("a.json", data)})
        script = Script(ask.services, ask.owner, answer.json()["session_id"], 1000, "sess_2")
        return [item async for item in script.items(0)]

    items = run_with_server(tmp_path, test)
    said = [item for item in items if item.step[0] in ("block.added", "text.delta")][1:]
    assert len(said) == 11
    assert (
        "".join(item.step[1].get("text") or item.step[1]["block"]["content"] for item in said)
        == "word " * 50
    )
    assert sum(item.pause for item in said) == pytest.approx(3.0)


def test_what_the_person_typed_is_waited_for_no_longer(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        session_id = await begun(ask)
        place = (
            await Script(ask.services, ask.owner, "sess_1", 1000, session_id).outline()
        ).find_next_input(1)
        assert place is not None
        await until(ask, session_id, waits_at(place[0]))
        assert (
            await ask.services.replays.match_input(ask.owner, session_id, "Read it, please.")
            == "match"
        )
        await until(ask, session_id, is_over)
        assert await shown(ask, session_id) == await shown(ask, "sess_1")

    with_pause(tmp_path, test)


@pytest.mark.spec("replay-control", "replay-speeds", "type-replay-status")
def test_autonomous_waits_for_nobody(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        session_id = await begun(ask)
        answer = await ask(
            "PATCH", f"/api/sessions/{session_id}/replay", json={"status": "autonomous"}
        )
        assert answer.json()["replay_state"]["status"] == "autonomous"
        await until(ask, session_id, is_over)

    with_pause(tmp_path, test)


@pytest.mark.spec("replay-control", "type-replay-state", "type-replay-status")
def test_pausing_and_going_on(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        session_id = await begun(ask)
        route = f"/api/sessions/{session_id}/replay"
        await until(ask, session_id, lambda standing: standing["position"] > 0)
        paused = (await ask("PATCH", route, json={"status": "paused"})).json()["replay_state"]
        assert paused["status"] == "paused"
        assert (await ask("PATCH", route, json={"speed": 2})).json()["replay_state"] == paused | {
            "speed": 2
        }
        assert to_builtins((await ask.state(session_id)).session.replay_state) == paused | {
            "speed": 2
        }
        gone_on = (await ask("PATCH", route, json={"status": None})).json()["replay_state"]
        assert gone_on["status"] == "playing"
        await ask("PATCH", route, json={"status": "autonomous"})
        await until(ask, session_id, is_over)
        assert (await ask("PATCH", route, json={"speed": 1})).status_code == 409

    with_pause(tmp_path, test)


@pytest.mark.spec("replay-mismatch", "replay-speeds", "type-replay-status")
@pytest.mark.parametrize("decision", ["keep_replay", "continue_replay", "keep", "go_on"])
def test_something_else_is_typed(tmp_path: Path, decision: str) -> None:
    async def test(ask: ServerClient) -> None:
        session_id = await begun(ask)
        await until(ask, session_id, lambda standing: standing["position"] > 0)
        caller = await ask.services.store.check_key(ask.keys["owner"], ask.services.clock.now())
        assert caller is not None
        payload: Json = {
            "session_id": session_id,
            "message": [{"type": "text", "text": "Delete it."}],
        }
        replays = ask.services.replays
        taken = await replays.handle_message(caller, payload, await ask.state(session_id))
        assert taken is not None
        assert taken["replay"] == "mismatch"
        standing = await until(ask, session_id, lambda standing: standing["status"] == "mismatch")
        log = await ask.services.store.read_log(ask.owner, session_id, 0, 1000)
        output = [entry.data for entry in log if entry.kind == "signal.sent"]
        assert output == [
            {
                "event": "replay:input_mismatch",
                "payload": {
                    "session_id": session_id,
                    "position": standing["position"],
                    "expected": "Read  it,\nplease.",
                    "actual": "Delete it.",
                },
            }
        ]
        assert (
            await ask("PATCH", f"/api/sessions/{session_id}/replay", json={"status": "playing"})
        ).status_code == 409
        with pytest.raises(ApiError):
            await ask.services.replays.decide(ask.owner, session_id, "maybe")
        answer = await replays.handle_message(
            caller, payload | {"replay_decision": decision}, await ask.state(session_id)
        )
        if decision in ("continue_replay", "go_on"):
            assert answer is None
            ended = to_builtins((await ask.state(session_id)).session.replay_state)
            assert ended == standing | {"status": "finished"}
            assert (
                await replays.handle_message(caller, payload, await ask.state(session_id)) is None
            )
            assert (await ask.state(session_id)).run is None
        else:
            assert answer is not None
            assert answer["replay"] == "keep_replay"
            await ask("PATCH", f"/api/sessions/{session_id}/replay", json={"status": "autonomous"})
            await until(ask, session_id, is_over)
            assert await shown(ask, session_id) == await shown(ask, "sess_1")
        with pytest.raises(ApiError):
            await ask.services.replays.decide(ask.owner, session_id, "keep")

    with_pause(tmp_path, test)


@pytest.mark.spec("replay-speeds")
def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    async def before(ask: ServerClient) -> str:
        session_id = await begun(ask)
        place = (
            await Script(ask.services, ask.owner, "sess_1", 1000, session_id).outline()
        ).find_next_input(1)
        assert place is not None
        await until(ask, session_id, waits_at(place[0]))
        return session_id

    session_id = with_pause(tmp_path, before)

    async def after(ask: ServerClient) -> None:
        await ask("PATCH", f"/api/sessions/{session_id}/replay", json={"speed": 5})
        assert (
            await ask.services.replays.match_input(ask.owner, session_id, "Read it, please.")
        ) == "match"
        await until(ask, session_id, is_over)
        assert await shown(ask, session_id) == await shown(ask, "sess_1")

    run_with_server(tmp_path, after)


def test_a_restart_goes_on_by_itself(tmp_path: Path) -> None:
    async def before(ask: ServerClient) -> str:
        session_id = await begun(ask)
        await until(ask, session_id, lambda standing: standing["position"] > 0)
        await ask.services.replays.close()
        await ask.services.journal.write(
            ask.owner,
            session_id,
            lambda state: [
                (
                    "replay.changed",
                    {
                        "replay_state": {
                            **to_builtins(state.session.replay_state),
                            "status": "autonomous",
                        }
                    },
                )
            ],
        )
        return session_id

    session_id = with_pause(tmp_path, before)
    run_with_server(tmp_path, lambda ask: until(ask, session_id, is_over))


def test_big_results_are_there_too(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        blob = await ask.services.store.put_blob(b'"x"', "application/json")
        held = {"blob": blob.sha256, "size": 3, "media_type": "application/json", "preview": "x"}
        odd = held | {"blob": "no hash"}
        made: list[NewEvent] = [("turn.opened", {"turn": {"turn_id": "turn_9"}})]
        for name, result in (("tc_8", held), ("tc_9", odd)):
            made.append(
                ("tool.called", {"turn_id": "turn_9", "call": {"id": name, "tool_name": "Read"}})
            )
            made.append(
                ("tool.result", {"turn_id": "turn_9", "tool_call_id": name, "result": result})
            )
        await ask.create_session()
        await ask.services.journal.write(
            ask.owner,
            "sess_1",
            lambda state: [*made, ("turn.ended", {"turn_id": "turn_9"})],
            blobs=[blob.sha256],
        )
        session_id = await begun(ask)
        await until(ask, session_id, is_over)
        assert await ask.services.store.read_blob(ask.owner, session_id, blob.sha256) == b'"x"'
        assert await shown(ask, session_id) == await shown(ask, "sess_1")

    run_with_server(tmp_path, test)


def test_a_recording_that_is_taken_away(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        session_id = await begun(ask)
        await until(ask, session_id, lambda standing: standing["position"] > 0)
        await ask("PATCH", f"/api/sessions/{session_id}/replay", json={"status": "paused"})
        await ask.services.store.delete_session(ask.owner, "sess_1")
        await ask("PATCH", f"/api/sessions/{session_id}/replay", json={"status": "autonomous"})
        await until(ask, session_id, lambda standing: standing["status"] == "paused")
        log = await ask.services.store.read_log(ask.owner, session_id, 0, 1000)
        assert [entry.kind for entry in log].count("notice.given") == 1

    with_pause(tmp_path, test)


def test_a_replay_that_is_stopped_or_deleted(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        stopped, deleted = await begun(ask), await begun(ask)
        for session_id in (stopped, deleted):
            await until(ask, session_id, lambda standing: standing["position"] > 0)
        await ask.services.journal.write(
            ask.owner,
            stopped,
            lambda state: [("run.started", {"run_id": "another"}), *actions.interrupt_run(state)],
        )
        await ask.services.store.delete_session(ask.owner, deleted)
        ask.services.journal.evict(deleted)
        await ask("PATCH", f"/api/sessions/{stopped}/replay", json={"status": "autonomous"})
        await until(ask, stopped, is_over)

    with_pause(tmp_path, test)


@pytest.mark.spec("replay-preview")
def test_what_cannot_be_played(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session(("run.started", {"run_id": "run_9"}))
        await ask.services.journal.create(ask.owner, {"id": "sess_2", "intent": "Nothing"})
        await ask.services.journal.create(ask.owner, {"id": "sess_3"}, lambda state: SESSION_EVENTS)
        found = {}
        for name in ("sess_1", "sess_2", "sess_3", "sess_none"):
            output = await ask("GET", f"/api/sessions/{name}/replay/preview", who="reader")
            made = await ask("POST", f"/api/sessions/{name}/replay")
            found[name] = (output.status_code, output.json().get("supported"), made.status_code)
        return found, (await ask("GET", "/api/sessions/sess_2/replay/preview")).json()

    found, output = run_with_server(tmp_path, test)
    assert found["sess_1"] == (200, False, 409)
    assert found["sess_2"] == (200, False, 409)
    assert found["sess_3"] == (200, True, 200)
    assert found["sess_none"] == (404, None, 404)
    assert output == {
        "session_id": "sess_2",
        "intent": "Nothing",
        "supported": False,
        "reason": "this session is empty",
    }


def test_not_too_many_at_once(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        services = ask.services
        services.config = msgspec.structs.replace(services.config, limits=Limits(runs=2))
        return [(await ask("POST", "/api/sessions/sess_1/replay")).status_code for _ in range(3)]

    assert with_pause(tmp_path, test) == [200, 200, 429]


class OnlyLog:
    """A store that has one log and nothing else."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self.store = self
        self.entries = entries

    async def read_log(
        self, owner: str, session_id: str, after: int = 0, limit: int = 100
    ) -> list[LogEntry]:
        return [entry for entry in self.entries if entry.seq > after][:limit]


@given(session_logs())
def test_any_session_is_played_as_it_was(session_log: SessionLog) -> None:
    async def items() -> list[ScriptItem]:
        script = Script(
            cast(Any, OnlyLog(session_log.entries)),
            "user",
            "sess_1",
            len(session_log.entries),
            "sess_2",
        )
        return [item async for item in script.items(0)]

    state = SessionState("sess_2")
    state.add("session.created", {"session": {}}, "2026-01-01T00:00:00Z")
    for kind, data in merge_deltas([item.step for item in asyncio.run(items())]):
        state.add(kind, data, "2026-01-01T00:00:00Z")
    assert bare(state) == bare(session_log.state)


def bare(state: SessionState) -> list[Any]:
    own = ("id", "turn_id", "started_at", "sequence")
    turns = []
    for turn in to_builtins(state.branch()):
        for attempt in turn.get("attempts", ()):
            del attempt["failed_at"]
        turns.append({name: value for name, value in turn.items() if name not in own})
    return turns
