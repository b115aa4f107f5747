"""The checker of histories sees what is planted, and finds nothing in what stores do."""

import asyncio
import random
from pathlib import Path

import pytest

from helpers.server.store_history import History
from helpers.server.stores import ANNA, KINDS, STORES, URL_FILE, at, create_session, open_store
from open_token.server.store.interface import Store
from open_token.server.store.postgres.store import PostgresStore
from open_token.server.store.rows import NewEntry, SessionWrite

LOG = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def sound() -> History:
    history = History()
    history.acknowledged("s", ["a", "b"], 1)
    history.read("s", 0, LOG[:2], history.known("s"))
    history.acknowledged("s", ["c"], 3)
    history.read("s", 1, LOG[1:3], history.known("s"))
    history.read("s", 0, LOG[:1], history.known("s"), is_whole=False)
    return history


def test_a_sound_history_has_no_fault() -> None:
    assert sound().faults({"s": LOG}) == []
    assert sound().faults({"s": LOG, "other": []}) == []


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ([(1, "a"), (2, "b")], "acknowledged at 3 is not there"),
        ([], "acknowledged at 1 is not there"),
        ([(1, "a"), (2, "b"), (4, "d")], "gaps"),
        ([(1, "a"), (2, "b"), (3, "c"), (4, "c")], "twice"),
        ([(1, "b"), (2, "a"), (3, "c")], "acknowledged at 1 is not there"),
        ([(2, "b"), (1, "a"), (3, "c")], "out of order"),
        ([(1, "a"), (2, "x"), (3, "c")], "no part of the log"),
    ],
)
def test_a_log_that_is_spoilt_is_seen(log: list[tuple[int, str]], words: str) -> None:
    assert any(words in fault for fault in sound().faults({"s": log}))


def test_reads_that_are_spoilt_are_seen() -> None:
    for after, seen, words in (
        (0, LOG[:2], "did not see what was acknowledged at 3"),
        (0, [LOG[0], LOG[2]], "no part"),
        (1, LOG[:3], "no part"),
        (4, [(5, "e")], "no part"),
    ):
        history = sound()
        history.read("s", after, seen, history.known("s"))
        assert [fault for fault in history.faults({"s": LOG}) if words in fault]


async def write(store: Store, history: History, session: str, writer: int) -> None:
    for number in range(25):
        names = [f"{writer}/{number}/{part}" for part in range(1 + number % 3)]
        entries = [NewEntry(kind="noted", at=at(0), data={"name": name}) for name in names]
        result = await store.append(SessionWrite(owner=ANNA, session_id=session, entries=entries))
        history.acknowledged(session, names, result.first)


async def read(store: Store, history: History, sessions: list[str], rng: random.Random) -> None:
    for _ in range(40):
        session, after = rng.choice(sessions), rng.randrange(20)
        known = history.known(session)
        log = await store.read_log(ANNA, session, after, 10_000)
        history.read(
            session, after, [(entry.seq, entry.data["name"]) for entry in log], max(known, 0)
        )
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stores_do_with_many_writers_and_readers_is_sound(tmp_path: Path, kind: str) -> None:
    first = open_store(tmp_path / "data", kind)
    sessions = ["sess_0", "sess_1"]
    for name in sessions:
        create_session(first, name)
    first.close()

    async def whole() -> None:
        history, rng = History(), random.Random(5)
        if kind == "postgres":
            url = (tmp_path / "data" / URL_FILE).read_text()
            stores: list[Store] = [PostgresStore(url, tmp_path / "data", 4) for _ in range(2)]
        else:
            stores = [STORES[kind](tmp_path / "data")]
        writers = [write(stores[n % len(stores)], history, sessions[n % 2], n) for n in range(8)]
        await asyncio.gather(
            *writers, *(read(store, history, sessions, rng) for store in stores * 2)
        )
        logs = {
            name: [
                (entry.seq, entry.data["name"])
                for entry in await stores[0].read_log(ANNA, name, 0, 10_000)
            ]
            for name in sessions
        }
        assert sum(len(log) for log in logs.values()) == 8 * sum(
            1 + number % 3 for number in range(25)
        )
        assert history.faults(logs) == []
        assert len(history.reads) >= 80
        for store in stores:
            await store.close()

    asyncio.run(whole())
