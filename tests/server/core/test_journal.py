"""The one way into a session's log."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from open_token.errors import StoreError
from open_token.model.log_events import LogEntry, LogError, NewEvent
from open_token.model.session_types import ContentBlock, encode
from open_token.server.bus.interface import LogAppended
from open_token.server.bus.local import LocalBus
from open_token.server.clock import Clock
from open_token.server.core.journal import Journal, extract_text
from open_token.server.store.interface import ConflictError, NotFoundError, Store
from open_token.server.store.rows import Fence, NewRun, RunEnd, User
from open_token.server.store.sqlite.store import open_sqlite
from open_token.session import SessionState, fold_log
from open_token.session.actions import build_text_blocks, send_user_message

OWNER = "user_1"


class Bench:
    """A journal over a store, and what its bus said."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.bus = LocalBus()
        self.journal = Journal(store, self.bus, Clock(), max_sessions=4)
        self.heard: list[LogAppended] = []

    async def session(self, name: str = "sess_1") -> str:
        self.bus.listen(name, self.heard.append)
        await self.journal.create(OWNER, {"id": name, "intent": "a session"})
        return name

    async def log(self, name: str) -> list[LogEntry]:
        return await self.store.read_log(OWNER, name, limit=10_000)


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    store = open_sqlite(folder)
    try:
        await store.add_user(User(id=OWNER, name="ada", role="owner", created_at=Clock().now()))
        yield Bench(store)
    finally:
        await store.close()


def run(folder: Path, test: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with bench(folder) as made:
            await asyncio.wait_for(test(made), 60)

    asyncio.run(whole())


def said(turn: str, text: str) -> list[NewEvent]:
    return send_user_message(turn, build_text_blocks(text), checkpoint_id=f"cp_{turn}")


def spoken(turn: str) -> Iterator[NewEvent]:
    yield "turn.opened", {"turn": {"turn_id": turn, "role": "assistant"}}
    yield "text.delta", {"turn_id": turn, "text": "so "}


async def agree(made: Bench, name: str) -> SessionState:
    """The log, the stored rows and the state in memory say the same."""
    state = fold_log(await made.log(name))
    stored = await made.store.session(OWNER, name)
    assert stored is not None
    assert stored.stream_sequence == state.seq
    assert (await made.journal.state(OWNER, name)).snapshot() == state.snapshot()
    if stored.projected_sequence == stored.stream_sequence:
        rows = await made.store.turns(OWNER, name, whole_tree=True)
        assert [row.body for row in rows] == [
            encode(turn.snapshot()) for turn in state.turns.values()
        ]
        assert [row.parent_id for row in rows] == [turn.parent_id for turn in state.turns.values()]
        assert stored.head == state.head
        assert stored.body == encode(state.session)
    return state


def test_what_is_written_is_in_the_log_in_the_rows_and_reported(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        written = await made.journal.write(OWNER, name, lambda state: said("turn_1", "hello there"))
        assert [entry.kind for entry in written.entries] == [
            "checkpoint.made",
            "turn.opened",
            "turn.ended",
        ]
        assert (written.first, written.last) == (2, 4)
        assert [(item.first, item.last) for item in made.heard] == [(1, 1), (2, 4)]
        assert [point.id for point in await made.store.checkpoints(OWNER, name)] == ["cp_turn_1"]
        assert (await made.store.sessions(OWNER, "hello")).total == 1
        await agree(made, name)

    run(tmp_path, test)


def test_rows_follow_streamed_words_later(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        await made.journal.write(OWNER, name, lambda state: spoken("turn_1"))
        await made.journal.write(
            OWNER, name, lambda state: [("text.delta", {"turn_id": "turn_1", "text": "far"})]
        )
        stored = await made.store.session(OWNER, name)
        assert stored is not None
        assert (stored.stream_sequence, stored.projected_sequence) == (4, 3)
        again = Bench(made.store)  # as after a crash
        await again.journal.write(
            OWNER, name, lambda state: [("turn.ended", {"turn_id": "turn_1"})]
        )
        await agree(again, name)
        assert b"so far" in (await made.store.turns(OWNER, name))[0].body

    run(tmp_path, test)


def test_a_step_that_does_not_fit_writes_nothing_and_spoils_nothing(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        bad: list[NewEvent] = [
            *said("turn_1", "hello"),
            ("text.delta", {"turn_id": "nobody", "text": "x"}),
        ]
        with pytest.raises(LogError):
            await made.journal.write(OWNER, name, lambda state: bad)
        assert len(await made.log(name)) == 1
        await made.journal.write(OWNER, name, lambda state: said("turn_1", "hello"))
        await agree(made, name)

    run(tmp_path, test)


def test_a_store_that_fails_leaves_no_trace_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()

        async def full(step: Any) -> Any:
            raise StoreError("the disk is full", code="store.full")

        with monkeypatch.context() as patch:
            patch.setattr(made.store, "append", full)
            with pytest.raises(StoreError):
                await made.journal.write(OWNER, name, lambda state: said("turn_1", "hello"))
        assert (await made.journal.state(OWNER, name)).turns == {}
        await made.journal.write(OWNER, name, lambda state: said("turn_1", "hello"))
        assert len(made.heard) == 2
        await agree(made, name)

    run(tmp_path, test)


def test_two_nodes_write_to_one_session_without_a_gap(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        nodes = [made, Bench(made.store), Bench(made.store)]
        await asyncio.gather(
            *(
                node.journal.write(
                    OWNER, name, lambda state, turn=f"turn_{place}_{count}": said(turn, "hi")
                )
                for place, node in enumerate(nodes)
                for count in range(10)
            )
        )
        state = await agree(made, name)
        assert len(state.turns) == 30
        assert [entry.seq for entry in await made.log(name)] == list(range(1, 92))

    run(tmp_path, test)


def test_one_who_is_cancelled_has_written_and_reported(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        before = asyncio.all_tasks()
        chance = random.Random(7)
        for count in range(30):
            writing = asyncio.ensure_future(
                made.journal.write(
                    OWNER, name, lambda state, turn=f"turn_{count}": said(turn, "hi")
                )
            )
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await asyncio.gather(*(asyncio.all_tasks() - before))
        state = await agree(made, name)
        assert made.heard[-1].last == state.seq
        assert sum(item.last - item.first + 1 for item in made.heard) == state.seq

    run(tmp_path, test)


def test_a_message_that_is_sent_twice_is_written_once(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        work = NewRun(id="run_1", at=Clock().now())
        first = await made.journal.write(
            OWNER, name, lambda state: said("turn_1", "hi"), client_message_id="m1", run=work
        )
        second = await made.journal.write(
            OWNER, name, lambda state: said("turn_2", "hi"), client_message_id="m1"
        )
        assert (second.first, second.last, second.run_id, second.repeated) == (
            first.first,
            first.last,
            "run_1",
            True,
        )
        assert len((await agree(made, name)).turns) == 1
        assert [run.id for run in await made.store.runs(OWNER, name)] == ["run_1"]

    run(tmp_path, test)


def test_a_run_is_queued_and_ended_with_the_entries(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name, now = await made.session(), Clock().now()
        begun: list[NewEvent] = [("run.started", {"run_id": "run_1"}), *said("turn_1", "hi")]
        await made.journal.write(OWNER, name, lambda state: begun, run=NewRun(id="run_1", at=now))
        taken = await made.store.claim_run("worker", now, Clock().now(plus=30))
        assert taken is not None
        await made.journal.write(
            OWNER,
            name,
            lambda state: [("run.ended", {"run_id": "run_1"})],
            fence=Fence(run_id="run_1", token=taken.fencing_token),
            run_end=RunEnd(status="completed", at=now),
        )
        assert [run.status for run in await made.store.runs(OWNER, name)] == ["completed"]
        assert (await agree(made, name)).session.status == "completed"

    run(tmp_path, test)


def test_what_is_not_there_or_not_ones_own_is_missing(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        name = await made.session()
        for owner, session in ((OWNER, "sess_none"), ("user_2", name)):
            with pytest.raises(NotFoundError):
                await made.journal.state(owner, session)
            with pytest.raises(NotFoundError):
                await made.journal.write(owner, session, lambda state: said("turn_1", "hi"))
        with pytest.raises((NotFoundError, ConflictError)):
            await made.journal.create(OWNER, {"id": name})
        await agree(made, name)

    run(tmp_path, test)


def test_only_some_sessions_are_held_in_memory(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        names = [await made.session(f"sess_{count}") for count in range(9)]
        for name in names:
            await made.journal.write(OWNER, name, lambda state: said("turn_1", "hi"))
        for name in names:
            await agree(made, name)
        made.journal.evict(names[-1])
        await made.store.delete_session(OWNER, names[-1])
        with pytest.raises(NotFoundError):
            await made.journal.state(OWNER, names[-1])

    run(tmp_path, test)


def test_long_sessions_are_held_as_long_as_there_is_room(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.journal = journal = Journal(
            made.store, made.bus, Clock(), max_sessions=100, max_bytes=30_000
        )
        names = [await made.session(f"sess_{count}") for count in range(9)]
        for name in names:
            await journal.write(OWNER, name, lambda state: said("turn_1", "x" * 8000))
            assert list(journal._cache)[-1] == name
            assert (
                journal._cached_bytes
                == sum(cached.size for cached in journal._cache.values())
                < 30_000
            )
        assert list(journal._cache) == names[-3:]
        await journal.write(OWNER, names[0], lambda state: said("turn_2", "x" * 50_000))
        assert list(journal._cache) == names[:1]
        for name in names:
            await agree(made, name)
        for name in names:
            journal.evict(name)
        assert journal._cached_bytes == 0

    run(tmp_path, test)


def test_the_words_of_a_turn_are_those_that_were_said() -> None:
    blocks = [
        ContentBlock(type="text", content="one"),
        ContentBlock(type="thinking", content="hidden"),
        ContentBlock(
            type="text", content=[{"type": "text", "text": "two"}, {"type": "image_url"}, 3]
        ),
        ContentBlock(type="text", content={"odd": 1}),
    ]
    assert extract_text(blocks) == "one\ntwo"
