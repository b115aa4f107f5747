"""Runs survive what happens to their workers: crashes, lost leases, a server that stops in the
middle."""

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import (
    AgentSession,
    FakeTool,
    ScriptedModel,
    Time,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.errors import StoreError
from open_token.server.agent import runner
from open_token.server.clock import format_timestamp, parse_timestamp
from open_token.server.config import Limits
from open_token.server.core import runs
from open_token.server.core.runs import LEASE, Runner
from open_token.server.errors import ApiError
from open_token.server.store.rows import Fence
from open_token.server.store.sqlite.store import SqliteStore

Fakes = Callable[..., None]


class Killed(BaseException):
    """The process dies here: nothing more is written."""


async def died(room: AgentSession) -> None:
    """Until a worker has begun, and is gone."""
    while not room.services.runner._tasks:
        await asyncio.sleep(0)
    while room.services.runner._tasks:
        await asyncio.wait(list(room.services.runner._tasks.values()))


async def another(room: AgentSession, after: float = LEASE + 1) -> None:
    """Another worker takes over when the lease has run out."""
    room.time.skip(after)
    room.services.runner = Runner(room.services)
    await room.services.runner.start()
    await room.rest()


@pytest.mark.parametrize(
    "after", [LEASE + 1, 3600.0, -3600.0]
)  # also when the clock was set meanwhile
def test_a_crash_in_an_answer_keeps_its_words(tmp_path: Path, fakes: Fakes, after: float) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["half " * 300, "lost", Killed()], "whole")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await died(room)
            assert room.mirror.session["status"] == "running"
            await another(room, after)
            assert [turn["status"] for turn in room.turns()] == [
                "completed",
                "interrupted",
                "completed",
            ]
            assert room.texts() == ["go", "half " * 300, "whole"]
            last = model.requests[-1].messages
            assert [message.role for message in last] == ["system", "user", "assistant", "user"]
            await room.check()
            await room.services.runner.close()

    run(scenario())


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_crash_in_a_tool(tmp_path: Path, fakes: Fakes, is_idempotent: bool) -> None:
    async def scenario() -> None:
        deaths = [Killed()]

        def does(_: Any) -> str:
            if deaths:
                raise deaths.pop()
            return "worked"

        tool = FakeTool("Work", does, is_idempotent=is_idempotent)
        other = FakeTool("Other", lambda _: "too")
        fakes(
            ScriptedModel(
                [*build_call_pieces("Work", "c1"), *build_call_pieces("Other", "c2")], "end"
            ),
            tool,
            other,
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await died(room)
            await another(room)
            first, second = room.turns()[1]["tool_calls"]
            if is_idempotent:
                assert (first["status"], first["result"], len(tool.called)) == ("done", "worked", 2)
            else:
                assert (first["status"], len(tool.called)) == ("error", 1)
                assert "interrupted" in first["result"]["error"]
            assert second["result"] == "too"
            assert room.texts()[-1] == "end"
            await room.check()
            await room.services.runner.close()

    run(scenario())


def test_attempts_have_an_end(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel(*([Killed()] for _ in range(20)))
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await died(room)
            for _ in range(runner.MAX_ATTEMPTS):
                room.time.skip(LEASE + 1)
                room.services.runner.wake()
                await died(room)
            assert len(model.requests) == runner.MAX_ATTEMPTS
            assert room.mirror.session["status"] == "failed"
            assert "gave up" in room.mirror.ended["result"]["err_msg"]
            runs = await room.services.store.runs(room.caller.user.id, room.id)
            assert [row.status for row in runs] == ["failed"]
            await room.check()

    run(scenario())


def test_stop_of_a_run_whose_process_died(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(["half " * 300, Killed()], "next"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await died(room)
            assert (await room.services.chat.stop(room.caller, room.id))["stopped"]
            assert room.mirror.session["status"] == "interrupted"
            await room.send("again")
            assert room.texts()[1:] == ["half " * 300, "again", "next"]
            await room.check()

    run(scenario())


def test_a_worker_that_lost_its_run_writes_nothing_more(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            await gate.wait()

        fakes(ScriptedModel(["one ", hang, "two"], "three"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await begun.wait()
            slow = room.services.runner
            await another(room)
            gate.set()
            await asyncio.wait(list(slow._tasks.values()))
            assert [turn["status"] for turn in room.turns()] == [
                "completed",
                "interrupted",
                "completed",
            ]
            assert room.texts()[-1] == "three"
            assert "two" not in "".join(room.texts())
            await room.check()
            await slow.close()

    run(scenario())


def test_after_a_store_that_failed_workers_have_time_to_keep_their_runs(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            await gate.wait()

        monkeypatch.setattr(runs, "_POLL", 3600.0)  # the worker itself does not look either
        fakes(ScriptedModel(["one ", hang, "two"]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await begun.wait()
            room.time.skip(LEASE + 1)
            other = Runner(room.services)
            other._note_store_failure()
            assert not await other._claim_one()
            assert other._store_failed_at is not None
            other._store_failed_at -= LEASE
            assert other._expired_before("now") == "now"
            gate.set()
            await room.rest()
            assert room.texts() == ["go", "one two"]

    run(scenario())


class Failing:
    """A store whose writes to logs fail for a while, as when the disk is full or the database
    away."""

    def __init__(self, room: AgentSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failed = 0
        self.is_failing = asyncio.Event()
        self._left = 0
        self._code = ""
        store = room.services.store
        append = store.append

        async def failing(step: Any) -> Any:
            if self._left:
                self._left -= 1
                self.failed += 1
                self.is_failing.set()
                raise StoreError("the disk is full", code=self._code)
            return await append(step)

        monkeypatch.setattr(store, "append", failing)
        monkeypatch.setattr(runs, "_RETRY_PAUSE", 0.0)

    async def begin(self, count: int, code: str) -> None:
        self._left, self._code = count, code

    def end(self) -> None:
        self._left = 0


@pytest.mark.parametrize("code", ["store.full", "store.away"])
def test_a_store_that_fails_for_a_while_is_waited_for(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            failing = Failing(room, monkeypatch)
            model = ScriptedModel(
                ["half " * 300, lambda: failing.begin(5, code), "lost " * 300, "behind"], "whole"
            )
            fakes(model)
            await room.send("go")
            assert failing.failed == 5
            assert [turn["status"] for turn in room.turns()] == [
                "completed",
                "interrupted",
                "completed",
            ]
            assert room.texts() == ["go", "half " * 300, "whole"]
            assert room.mirror.session["status"] == "completed"
            (done,) = await room.services.store.runs(room.caller.user.id, room.id)
            assert (done.status, done.attempts, done.error) == ("completed", 1, None)
            await room.check()

    run(scenario())


def test_the_model_is_not_asked_again_before_an_answer_would_fit(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is nearly full has room for a lease and for a few words, and still none for an
    answer."""

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            monkeypatch.setattr(runs, "_RETRY_PAUSE", 0.0)
            monkeypatch.setattr(runs, "_MAX_RETRY_PAUSE", 0.0)
            store = room.services.store
            assert isinstance(store, SqliteStore)
            writer, try_out = store.database.writer, Runner._probe_store
            tried = 0

            def pages(more: int) -> Any:
                def set_most(db: sqlite3.Connection) -> None:
                    (there,) = db.execute("PRAGMA page_count").fetchone()
                    db.execute(f"PRAGMA max_page_count = {there + more}")

                return writer.submit(set_most)

            async def counted(self: Runner, letters: int) -> None:
                nonlocal tried
                tried += 1
                if tried == 5:
                    assert len(model.requests) == 1
                    await pages(1 << 20)
                await try_out(self, letters)

            monkeypatch.setattr(Runner, "_probe_store", counted)
            model = ScriptedModel(["half ", lambda: pages(8), "lost " * 20_000, "behind"], "whole")
            fakes(model)
            await room.send("go")
            assert (tried, len(model.requests)) == (5, 2)
            assert room.texts()[-1] == "whole"
            assert await store.setting("runs.trial") is None
            await room.check()

    run(scenario())


def test_a_store_that_will_not_come_back_is_not_waited_for(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            failing = Failing(room, monkeypatch)
            fakes(
                ScriptedModel(
                    ["half " * 300, lambda: failing.begin(10**9, "store.full"), "lost " * 300]
                )
            )
            asking: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            async def broken(*_: Any) -> bool:
                if not asking.done():
                    asking.set_result(asyncio.current_task())
                raise StoreError("the database is damaged", code="store.damaged")

            monkeypatch.setattr(room.services.store, "renew_lease", broken)
            await room.send("go", wait=False)
            with pytest.raises(StoreError) as caught:
                await (await asking)
            assert caught.value.code == "store.damaged"

    run(scenario())


def test_a_fault_of_the_store_that_does_not_pass_is_reported(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            failing = Failing(room, monkeypatch)
            fakes(
                ScriptedModel(
                    ["half " * 300, lambda: failing.begin(1, "store.value"), "lost " * 300]
                )
            )
            await room.send("go")
            assert room.texts() == ["go", "half " * 300]
            (error,) = [payload for name, payload in room.heard if name == "system:error"]
            assert (error["code"], error["message"]) == ("store.value", "the disk is full")
            await room.check()

    run(scenario())


def test_a_stop_that_cannot_be_written_is_reported(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            failing = Failing(room, monkeypatch)
            fakes(
                ScriptedModel(
                    ["half " * 300, lambda: failing.begin(10**9, "store.full"), "lost " * 300],
                    "whole",
                )
            )
            await room.send("go", wait=False)
            await failing.is_failing.wait()
            with pytest.raises(StoreError):
                await room.services.chat.stop(room.caller, room.id)
            with pytest.raises(ApiError) as caught:  # nobody works on it any more
                await room.services.chat.stop(room.caller, room.id)
            assert (caught.value.status, caught.value.code) == (503, "store.full")
            failing.end()
            assert (await room.services.chat.stop(room.caller, room.id))["stopped"]
            assert room.mirror.session["status"] == "interrupted"

    run(scenario())


def test_a_server_that_stops_goes_on_at_the_next_start(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        time = Time()
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        fakes(ScriptedModel(["half ", hang], "and whole"))
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened()
            room.services.runner._grace = 0.01
            await room.send("go", wait=False)
            await begun.wait()
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened(room.id)
            await room.rest()
            assert room.texts() == ["go", "half ", "and whole"]
            assert room.mirror.session["status"] == "completed"

    run(scenario())


def test_a_run_is_put_down_by_the_clock_that_leases_count_by(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def behind(_: SqliteStore, now: str) -> str:
        return format_timestamp(parse_timestamp(now) - timedelta(seconds=20))

    async def scenario() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        fakes(ScriptedModel(["half ", hang]))
        monkeypatch.setattr(SqliteStore, "time", behind)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            store, now = room.services.store, room.services.clock.now()
            leases: list[str] = []
            renew = store.renew_lease

            async def noted(fence: Fence, until: str) -> bool:
                leases.append(until)
                return await renew(fence, until)

            monkeypatch.setattr(store, "renew_lease", noted)
            room.services.runner._grace = 0.01
            await room.send("go", wait=False)
            await begun.wait()
            await room.services.runner.close()
            assert leases[-1] < await store.time(now)

    run(scenario())


@pytest.mark.spec("ask-user-question")
def test_a_question_survives_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        time = Time()
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened()
            await room.send("subagent ask")
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened(room.id)
            child = next(iter((await room.state()).questions))
            await room.send(askuser_answer={"tool_call_id": child, "selections": {"0": [0]}})
            assert "Left" in room.texts()[-1]
            assert {turn["status"] for turn in room.turns()} == {"completed"}
            await room.check()

    run(scenario())


def test_a_deleted_session_takes_its_run_along(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            await gate.wait()

        fakes(ScriptedModel(["a", hang, "b"]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await begun.wait()
            await room.services.store.delete_session(room.caller.user.id, room.id)
            room.services.journal.evict(room.id)
            gate.set()
            await died(room)
            assert not await room.services.store.renew_lease(Fence(run_id="run", token=1), "2026")

    run(scenario())


def test_no_more_work_at_once_than_is_allowed(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        fakes(ScriptedModel([gate.wait, "a"], [gate.wait, "b"], [gate.wait, "c"]))
        async with open_agent_session(tmp_path, limits=Limits(runs=2)) as opened:
            several = [await opened() for _ in range(3)]
            for room in several:
                await room.send("go", wait=False)
            await several[1].until(lambda state: len(state.path) == 2)
            assert len(several[0].services.runner._tasks) == 2
            gate.set()
            for room in several:
                await room.rest()
            assert {room.texts()[-1] for room in several} == {"a", "b", "c"}

    run(scenario())


def test_a_node_that_is_no_worker_leaves_runs_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        time = Time()
        async with open_agent_session(tmp_path, time, role="gateway") as opened:
            room = await opened()
            await room.send("hello", wait=False)
            assert await room.services.chat.stop(room.caller, room.id) == {
                "status": "ok",
                "stopped": True,
            }
            await room.send("hello again", wait=False)
            assert room.services.runner._claiming is None
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened(room.id)
            await room.rest()
            assert [turn["role"] for turn in room.turns()] == ["user", "user", "assistant"]
            runs = await room.services.store.runs(room.caller.user.id, room.id)
            assert [row.status for row in runs] == ["interrupted", "completed"]

    run(scenario())


def test_stop_at_the_very_moment_of_the_claim(tmp_path: Path, fakes: Fakes) -> None:
    """A task that is cancelled before its first step hears nothing of it; the run is stopped all
    the same."""

    async def scenario() -> None:
        fakes(ScriptedModel("one", "two"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            runner = room.services.runner
            await runner.close()
            ack = await room.send("go", wait=False)
            assert await runner._claim_one()
            assert not await runner.stop(room.id, "another")
            assert await runner.stop(room.id, ack["chat_run_id"])
            assert room.mirror.session["status"] == "interrupted"
            runs = await room.services.store.runs(room.caller.user.id, room.id)
            assert [row.status for row in runs] == ["interrupted"]
            await room.check()

    run(scenario())


def test_stop_while_the_claim_is_under_way(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log ends the run at once; the worker sees that, calls no model and ends the row."""

    async def scenario() -> None:
        model = ScriptedModel("never said")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            store = room.services.store
            claim = store.claim_run

            async def claim_and_stop(*given: Any) -> Any:
                run = await claim(*given)
                assert (await stopping)["stopped"]
                return run

            async def list_before_the_claim(*_: Any) -> list[Any]:
                """The row as the one who stops reads it: nobody has claimed it yet."""
                return []

            await room.services.runner.close()
            await room.send("go", wait=False)
            with monkeypatch.context() as patched:
                patched.setattr(store, "claim_run", claim_and_stop)
                patched.setattr(store, "runs", list_before_the_claim)
                stopping = asyncio.ensure_future(room.services.chat.stop(room.caller, room.id))
                assert await room.services.runner._claim_one()
            await asyncio.wait(list(room.services.runner._tasks.values()))
            assert room.mirror.session["status"] == "interrupted"
            assert model.requests == []
            rows = await store.runs(room.caller.user.id, room.id)
            assert [row.status for row in rows] == ["interrupted"]
            await room.check()

    run(scenario())


def test_after_a_crash_a_run_goes_on_at_once(tmp_path: Path, fakes: Fakes) -> None:
    """The lock of the data folder proves that the process that held the lease is gone."""

    async def scenario() -> None:
        time = Time()
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def crash(_: object) -> None:
            """End without a trace, as after SIGKILL."""

        fakes(ScriptedModel(["half ", hang], "and whole"))
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened()
            room.services.runner._grace = 0.01
            await room.send("go", wait=False)
            await begun.wait()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(runs.AgentRun, "suspend", crash)
                await room.services.runner.close()
            (held,) = await room.services.store.runs(room.caller.user.id, room.id)
            assert held.status == "running"
            assert held.lease_until is not None
            assert held.lease_until > room.services.clock.now()
        async with open_agent_session(tmp_path, time) as opened:
            room = await opened(room.id)
            await room.rest()
            assert room.texts()[-1] == "and whole"

    run(scenario())
