"""The server's store: durable events a second with fifty writers beside a bare SQLite, and search
in many sessions.

    python bench/store.py [SESSIONS]

Every event comes with the rows that follow from it (its turn, its session), and its writer waits
for the commit. The limit is what plain sqlite3 does with the same events and no rows: one insert
for fifty of them, one commit."""

import asyncio
import itertools
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from open_token.server.store.interface import Store
from open_token.server.store.rows import NewEntry, SessionRow, SessionWrite, TurnRow, User
from open_token.server.store.sqlite.store import SqliteStore

AT = "2026-01-31T08:00:00.000Z"
USER = "user_bench"
WRITERS, EVENTS, ROUNDS = 50, 200, 3
BODY = msgspec.json.encode(
    {"id": "entry_1", "blocks": [{"type": "text", "content": "x" * 350}], "status": "streaming"}
)


def event(number: int) -> NewEntry:
    return NewEntry(
        kind="content_added",
        at=AT,
        data={"turn_id": "turn_1", "text_delta": "x" * 150, "patch": number},
    )


def row(intent: str = "Mend the build", second: int = 0) -> SessionRow:
    updated = f"2026-01-{1 + second // 86400 % 28:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.000Z"
    return SessionRow(intent=intent, status="running", created_at=AT, updated_at=updated, body=BODY)


async def write(store: Store, session_id: str, per_step: int, waits: list[float]) -> None:
    for number in range(0, EVENTS, per_step):
        turn = TurnRow(id="entry_0", turn_id="turn_0", sequence=0, patch_sequence=number, body=BODY)
        step = SessionWrite(
            owner=USER,
            session_id=session_id,
            entries=[event(number + part) for part in range(per_step)],
            turns=[turn],
            session=row(),
        )
        started = time.perf_counter()
        await store.append(step)
        waits.append(time.perf_counter() - started)


async def appends(store: Store) -> None:
    for number in range(WRITERS):
        await store.append(
            SessionWrite(owner=USER, session_id=f"sess_{number}", expected=0, session=row())
        )
    for per_step, targets in itertools.product((1, 5), ("a session each", "one session")):
        best, waits, cpu = 0.0, [0.0], 0.0
        for _ in range(ROUNDS):
            took: list[float] = []
            names = [
                f"sess_{number}" if targets == "a session each" else "sess_0"
                for number in range(WRITERS)
            ]
            started, used = time.perf_counter(), time.process_time()
            await asyncio.gather(*(write(store, name, per_step, took) for name in names))
            rate = WRITERS * EVENTS / (time.perf_counter() - started)
            if rate > best:
                best, waits, cpu = rate, took, (time.process_time() - used) / WRITERS / EVENTS
        p50, p99 = statistics.median(waits) * 1e3, statistics.quantiles(waits, n=100)[98] * 1e3
        print(
            f"ours, {WRITERS} writers, {targets}, {per_step} a step".ljust(52)
            + f"{best:8.0f}/s   p50 {p50:.1f} ms  p99 {p99:.1f} ms   {cpu * 1e6:.0f} µs of CPU each"
        )


def limit(folder: Path) -> None:
    db = sqlite3.connect(folder / "limit.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(
        """CREATE TABLE log (session INT, seq INT, at TEXT, kind TEXT, data TEXT,
        PRIMARY KEY (session, seq)) WITHOUT ROWID"""
    )
    data = msgspec.json.encode(event(1).data).decode()
    best = 0.0
    for played in range(ROUNDS):
        started = time.perf_counter()
        for number in range(EVENTS):
            rows = [
                (session, played * EVENTS + number, AT, "content_added", data)
                for session in range(WRITERS)
            ]
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            db.execute("COMMIT")
        best = max(best, WRITERS * EVENTS / (time.perf_counter() - started))
    db.close()
    print(f"limit: sqlite3, {WRITERS} a commit, no rows".ljust(52) + f"{best:8.0f}/s")
    print("limit: one write and fsync of 4 kB".ljust(52) + f"{sync_seconds(folder) * 1e3:8.2f} ms")


def sync_seconds(folder: Path) -> float:
    took = []
    with (folder / "sync").open("wb", buffering=0) as out:
        for _ in range(100):
            started = time.perf_counter()
            out.write(bytes(4096))
            os.fsync(out.fileno())
            took.append(time.perf_counter() - started)
    return statistics.median(took)


async def fill(store: Store, sessions: int) -> list[str]:
    """Many sessions of two turns with words as often as words are."""
    rng = random.Random(1)
    words = [
        "".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(3, 9))) for _ in range(20_000)
    ]
    weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))
    drawn = iter(lambda: rng.choices(words, cum_weights=weights, k=66 * 1000), None)
    stock = itertools.chain.from_iterable(drawn)

    async def some(numbers: range) -> None:
        for number in numbers:
            texts = [" ".join(itertools.islice(stock, size)) for size in (6, 20, 40)]
            turns = [
                TurnRow(id=f"e{place}", turn_id=f"t{place}", sequence=place, body=BODY, text=text)
                for place, text in enumerate(texts[1:])
            ]
            session = row(texts[0] + (" report" if number % 2 else ""), rng.randrange(2_400_000))
            await store.append(
                SessionWrite(
                    owner=USER,
                    session_id=f"many_{number}",
                    expected=0,
                    session=session,
                    turns=turns,
                )
            )

    started = time.perf_counter()
    await asyncio.gather(*(some(range(first, sessions, 200)) for first in range(200)))
    print(f"\n{sessions} sessions with two turns written in {time.perf_counter() - started:.0f} s")
    return words


async def searches(store: Store, words: list[str]) -> None:
    rng = random.Random(2)
    cases: dict[str, Callable[[], str | None]] = {
        "the list itself": lambda: None,
        "a rare word": lambda: rng.choice(words[5000:]),
        "a usual word": lambda: rng.choice(words[100:2000]),
        "two usual words": lambda: " ".join(rng.choices(words[100:1000], k=2)),
        "a word begun": lambda: rng.choice(words[100:2000])[:3],
        "a word of half the sessions": lambda: rng.choice(words[:10]),
        "a word of every other intent": lambda: "report",
    }
    print(f"{'':34}{'p50 ms':>8}{'p95 ms':>8}{'found':>8}")
    for title, draw in cases.items():
        took, found = [], []
        for _ in range(40):
            q = draw()
            started = time.perf_counter()
            page = await store.sessions(USER, q)
            took.append(time.perf_counter() - started)
            found.append(page.total)
        p50, p95 = statistics.median(took) * 1e3, statistics.quantiles(took, n=20)[18] * 1e3
        print(f"{title:34}{p50:8.1f}{p95:8.1f}{statistics.median(found):8.0f}")


async def main(sessions: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limit(folder)
        store = SqliteStore(folder / "data")
        await store.add_user(User(id=USER, name="Bench", role="owner", created_at=AT))
        await appends(store)
        words = await fill(store, sessions)
        await searches(store, words)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 100_000))
