"""The server's store on PostgreSQL: durable events a second with eight connections, and what
telling other nodes adds.

    python bench/store_postgres.py

A throw-away instance that waits for the disk (fsync, synchronous_commit) on this machine, which
shares its cores with us. Every step is one transaction, and its writer waits for the commit. The
limit is what asyncpg does with the same events in batches and no rows: one insert, one commit."""

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.server.local_services import postgres, program, redis
from open_token.server.bus.interface import LogAppended
from open_token.server.bus.postgres import PostgresLink
from open_token.server.bus.redis import RedisLink
from open_token.server.bus.remote import RemoteBus
from open_token.server.store.postgres.store import PostgresStore
from open_token.server.store.rows import NewEntry, SessionRow, SessionWrite, TurnRow, User

AT = "2026-01-31T08:00:00.000Z"
USER = "user_bench"
CONNECTIONS, WRITERS, SECONDS, ROUNDS = 8, 16, 3.0, 3
BODY = msgspec.json.encode(
    {"id": "entry_1", "blocks": [{"type": "text", "content": "x" * 350}], "status": "streaming"}
)
DATA = {"turn_id": "turn_1", "text_delta": "x" * 150, "patch": 1}


def row() -> SessionRow:
    return SessionRow(
        intent="Mend the build", status="running", created_at=AT, updated_at=AT, body=BODY
    )


async def writing(
    store: PostgresStore, session_id: str, per_step: int, has_rows: bool, took: list[float]
) -> int:
    turn = TurnRow(id="entry_0", turn_id="turn_0", sequence=0, patch_sequence=1, body=BODY)
    entries = [NewEntry(kind="text.delta", at=AT, data=DATA) for _ in range(per_step)]
    rows = {"turns": [turn], "session": row()} if has_rows else {"is_projected": False}
    step = SessionWrite(owner=USER, session_id=session_id, entries=entries, **rows)  # type: ignore[arg-type]
    written, deadline = 0, time.perf_counter() + SECONDS
    while (started := time.perf_counter()) < deadline:
        await store.append(step)
        took.append(time.perf_counter() - started)
        written += per_step
    return written


async def appends(store: PostgresStore) -> None:
    for number in range(WRITERS):
        await store.append(
            SessionWrite(owner=USER, session_id=f"sess_{number}", expected=0, session=row())
        )
    for has_rows, per_step in itertools.product((False, True), (1, 5, 20, 100)):
        best, line = 0.0, ""
        for _ in range(ROUNDS):
            took: list[float] = []
            started, used = time.perf_counter(), time.process_time()
            calls = (writing(store, f"sess_{n}", per_step, has_rows, took) for n in range(WRITERS))
            count = sum(await asyncio.gather(*calls))
            rate = count / (time.perf_counter() - started)
            if rate > best:
                cpu = (time.process_time() - used) / count * 1e6
                p50, p99 = (
                    statistics.median(took) * 1e3,
                    statistics.quantiles(took, n=100)[98] * 1e3,
                )
                best, line = (
                    rate,
                    f"{rate:8.0f}/s   p50 {p50:.1f} ms  p99 {p99:.1f} ms   {cpu:.0f} µs of our CPU each",
                )
        title = (
            f"ours, {'with turn and session' if has_rows else 'streamed words'}, {per_step} a step"
        )
        print(title.ljust(52) + line, flush=True)


async def limit(url: str, per_batch: int) -> None:
    """Bare inserts of the same events on eight connections."""
    pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    await pool.execute(
        "CREATE TABLE bare (session int, seq int, at text, kind text, data text, PRIMARY KEY (session, seq))"
    )
    text = msgspec.json.encode(DATA).decode()
    sql = """INSERT INTO bare SELECT $1, $2 + place, at, kind, data
        FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS entry (at, kind, data, place)"""

    async def one(session: int) -> int:
        written, deadline = 0, time.perf_counter() + SECONDS
        columns = ([AT] * per_batch, ["text.delta"] * per_batch, [text] * per_batch)
        while time.perf_counter() < deadline:
            await pool.execute(sql, session, written, *columns)
            written += per_batch
        return written

    started = time.perf_counter()
    count = sum(await asyncio.gather(*(one(session) for session in range(WRITERS))))
    print(
        f"limit: asyncpg, {per_batch} a commit, no rows".ljust(52)
        + f"{count / (time.perf_counter() - started):8.0f}/s"
    )
    await pool.execute("DROP TABLE bare")
    await pool.close()


async def measure_bus(name: str, links: list[PostgresLink] | list[RedisLink]) -> None:
    """How long it takes until another node hears of a commit."""

    async def heads(_: object) -> dict[str, tuple[str, int]]:
        return {}

    one, other = (RemoteBus(link, heads) for link in links)
    await one.start()
    await other.start()
    took: list[float] = []
    heard = asyncio.Event()
    other.listen("sess_1", lambda _: heard.set())
    await asyncio.sleep(0.5)
    for last in range(1, 501):
        heard.clear()
        started = time.perf_counter()
        one.publish(LogAppended("sess_1", USER, last, last))
        await heard.wait()
        took.append(time.perf_counter() - started)
    print(
        f"another node hears over {name}".ljust(52)
        + f"p50 {statistics.median(took) * 1e3:.2f} ms  p99 {statistics.quantiles(took, n=100)[98] * 1e3:.2f} ms"
    )
    await one.close()
    await other.close()


async def main() -> None:
    url = f"postgresql://test@127.0.0.1:{postgres(True).port}/postgres"
    for per_batch in (1, 20):
        await limit(url, per_batch)
    with tempfile.TemporaryDirectory() as name:
        store = PostgresStore(url, Path(name) / "data", CONNECTIONS)
        await store.add_user(User(id=USER, name="Bench", role="owner", created_at=AT))
        await appends(store)
        await store.close()
    await measure_bus("PostgreSQL", [PostgresLink(url), PostgresLink(url)])
    if program("redis-server") is not None:
        address = f"redis://127.0.0.1:{redis().port}/0"
        await measure_bus("Redis", [RedisLink(address), RedisLink(address)])


if __name__ == "__main__":
    if program("initdb") is None:
        print("skipped: PostgreSQL is not installed; `make test-full` does it")
    else:
        asyncio.run(main())
