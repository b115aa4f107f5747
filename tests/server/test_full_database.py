"""The whole disk of PostgreSQL is full in the middle of runs: it ends itself, and all goes on when
there is room."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import asyncpg
import httpx2
import pytest

from helpers.full_disk import fill_disk, free_disk, mount_small_disk
from helpers.server.local_services import (
    Instance,
    as_owner_of_postgres,
    new_folder,
    own_postgres,
    url_of,
)
from helpers.server.stores import prepare_database
from longrun.node_faults import TIMEOUT, Cluster, Node, cluster
from open_token.errors import StoreError
from open_token.server.cancellation import cancel_and_wait

SETTINGS = {"min_wal_size": "2MB", "max_wal_size": "8MB"}
"""So that the log, which PostgreSQL writes before all else, needs a new file soon."""
DEFAULT = 0.0
"""The lease that servers have: no node dies here, and no run may be taken from one that waits."""
CODES = {"store.full", "store.away", "store.disk"}
WORDS = {
    "the disk of the database is full",
    "the database cannot be reached",
    "the disk of the database reports a read or write error",
}


@contextlib.contextmanager
def small_postgres() -> Iterator[tuple[Instance, Path]]:
    """A PostgreSQL whose data and log are on one small disk."""
    folder = new_folder("small")
    with mount_small_disk(folder / "disk", "80m") as disk:
        as_owner_of_postgres(disk)
        server = own_postgres(folder, disk / "data", SETTINGS)
        try:
            yield server, disk
        finally:
            server.end()


@dataclass
class Refusals:
    """What clients were answered while the disk was full."""

    codes: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    async def seen(self, nodes: Cluster, disk: Path) -> None:
        """Wait until somebody was refused, and until a node has said that it is not well."""
        before = (len(self.codes), len(self.health))
        async with asyncio.timeout(TIMEOUT):
            while len(self.codes) == before[0] or len(self.health) == before[1]:
                fill_disk(disk)  # PostgreSQL may have given some of its own back
                await self._ask(nodes.nodes, nodes.token)

    async def _ask(self, nodes: list[Node], token: str) -> None:
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT
        ) as client:
            for node in nodes:
                made = await client.post(
                    f"{node.address}/api/sessions", json={"metadata": {"note": "x" * 100_000}}
                )
                assert made.status_code in (200, 503), made.text
                self.codes += [made.json()["code"]] if made.status_code == 503 else []
                result = await client.get(f"{node.address}/healthz")
                assert (result.status_code == 200) == (result.json()["status"] == "ok")
                self.health += [word for word in result.json()["checks"].values() if word != "ok"]


async def _overflow(db: asyncpg.Connection, server: Instance) -> None:
    """Fill file after file of its log, until PostgreSQL has given up; a new connection could not be
    made any more."""
    async with asyncio.timeout(TIMEOUT):
        with contextlib.suppress(
            asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError
        ):
            while True:
                await db.execute(
                    "SELECT pg_logical_emit_message(false, 'test', repeat('x', 100000))"
                )
                await db.execute("SELECT pg_switch_wal()")
        while "PANIC" not in (server.folder / "log").read_text(errors="replace"):
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _spoken_to(nodes: Cluster) -> AsyncIterator[None]:
    """Somebody says something again and again, until it is taken."""

    async def speak() -> None:
        for session in itertools.cycle(nodes.sessions):
            with contextlib.suppress(StoreError):  # it was taken, and then the database was away
                await nodes.say(session, nodes.nodes, "list files")

    speaking = asyncio.create_task(speak())
    try:
        yield
    finally:
        await cancel_and_wait(speaking)


@contextlib.asynccontextmanager
async def _watched_over(server: Instance) -> AsyncIterator[None]:
    """It is started whenever it has ended, as `restart: unless-stopped` does."""

    async def revive() -> None:
        while True:
            server.revive()
            await asyncio.sleep(0.5)

    reviving = asyncio.create_task(revive())
    try:
        yield
    finally:
        await cancel_and_wait(reviving)


async def _well(nodes: list[Node]) -> None:
    async with asyncio.timeout(TIMEOUT), httpx2.AsyncClient(timeout=TIMEOUT) as client:
        for node in nodes:
            while (await client.get(f"{node.address}/healthz")).status_code != 200:
                await asyncio.sleep(0.2)


async def _patiently(ask: Callable[[], Awaitable[int]]) -> int:
    """Ask until PostgreSQL answers: it may have given up once more just before there was room."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(StoreError):
                return await ask()
            await asyncio.sleep(0.1)


async def _survives(folder: Path, server: Instance, disk: Path, url: str) -> str:
    async with cluster(folder, url, ("all", "all"), Random(1), DEFAULT, has_redis=False) as nodes:
        for session in nodes.sessions:
            await nodes.say(session, nodes.nodes, "long")
        await nodes.spoken(20)
        refusals, db = Refusals(), await asyncpg.connect(url)
        async with _watched_over(server):
            async with _spoken_to(nodes):
                fill_disk(disk)
                await refusals.seen(nodes, disk)
                await _overflow(db, server)
                await refusals.seen(nodes, disk)
                free_disk(disk)
                await _well(nodes.nodes)
            taken_over = await _patiently(nodes.over)
            assert await nodes.faults() == []
        assert set(refusals.codes) <= CODES
        assert set(refusals.health) <= WORDS
        panics = (server.folder / "log").read_text(errors="replace").count("PANIC")
        taken = sum(len(session.texts) for session in nodes.sessions)
        return f"{panics} panics, {taken} messages, {taken_over} runs taken over, {Counter(refusals.codes)}"


@pytest.mark.full
def test_the_whole_disk_of_postgresql_is_full(tmp_path: Path) -> None:
    with small_postgres() as (server, disk):
        print(asyncio.run(_survives(tmp_path, server, disk, prepare_database(url_of(server)))))
