"""What is special about the store in PostgreSQL: several nodes on one database, and a database that
goes away."""

import asyncio
import shutil
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from helpers.server.local_services import postgres
from helpers.server.stores import ANNA, at, entries, new_postgres, session_row
from open_token.errors import StoreError
from open_token.server.store.interface import FencedError
from open_token.server.store.postgres import schema
from open_token.server.store.postgres.errors import connection_error, translate_error
from open_token.server.store.postgres.store import PostgresStore, enable_keepalive
from open_token.server.store.rows import Fence, NewRun, SessionWrite, User


def step(session_id: str = "sess_1", **more: Any) -> SessionWrite:
    return SessionWrite(owner=ANNA, session_id=session_id, **more)


def on_nodes(
    tmp_path: Path, play: Callable[..., Coroutine[Any, Any, None]], count: int = 2
) -> None:
    """Run something with several stores on one database."""
    url = new_postgres()

    async def whole() -> None:
        stores = [PostgresStore(url, tmp_path / "data", connections=4) for _ in range(count)]
        try:
            await stores[0].add_user(User(id=ANNA, name="Anna", role="owner", created_at=at(0)))
            await stores[0].append(step(expected=0, session=session_row()))
            await play(*stores)
        finally:
            await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(whole())


def test_a_connection_to_a_machine_that_is_gone_is_noticed() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as link,
    ):
        enable_keepalive(link)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
    one, other = socket.socketpair()
    with one, other:
        enable_keepalive(one)


@pytest.mark.full
def test_every_connection_of_the_store_is_so_watched(tmp_path: Path) -> None:
    async def play(store: PostgresStore) -> None:
        async def watched(db: Any) -> int:
            link = db._transport.get_extra_info("socket")
            return int(link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

        assert await store.read(watched)

    on_nodes(tmp_path, play, 1)


@pytest.mark.full
class TestNodes:
    def test_fifty_writers_on_two_nodes_stay_contiguous(self, tmp_path: Path) -> None:
        async def play(*stores: PostgresStore) -> None:
            calls = [stores[n % 2].append(step(entries=entries(1 + n % 3))) for n in range(200)]
            result = sorted((one.first, one.last) for one in await asyncio.gather(*calls))
            assert [first for first, _ in result] == [1, *(last + 1 for _, last in result[:-1])]
            log = await stores[0].read_log(ANNA, "sess_1", 0, 1000)
            assert [entry.seq for entry in log] == list(range(1, result[-1][1] + 1))

        on_nodes(tmp_path, play)

    def test_a_message_sent_to_two_nodes_at_once_is_written_once(self, tmp_path: Path) -> None:
        async def play(*stores: PostgresStore) -> None:
            for number in range(20):
                said = step(entries=entries(1), client_message_id=f"m{number}")
                result = await asyncio.gather(*(store.append(said) for store in stores * 3))
                assert sorted(one.repeated for one in result) == [False, *[True] * 5]
                assert {one.first for one in result} == {number + 1}

        on_nodes(tmp_path, play)

    def test_one_of_many_workers_gets_a_run_and_the_slow_one_is_fenced_off(
        self, tmp_path: Path
    ) -> None:
        async def play(*stores: PostgresStore) -> None:
            for number in range(30):
                name = f"sess_run_{number}"
                run = NewRun(id=f"run_{number}", at=at(number))
                await stores[0].append(step(name, expected=0, session=session_row(), run=run))
            claims = [stores[n % 2].claim_run(f"w{n}", at(100), at(130)) for n in range(60)]
            runs = [run for run in await asyncio.gather(*claims) if run is not None]
            assert len({run.id for run in runs}) == len(runs)
            while more := await stores[1].claim_run("late", at(100), at(130)):
                runs.append(more)
            assert len({run.id for run in runs}) == len(runs) == 30
            again = await stores[1].claim_run("other", at(200), at(230))
            assert again is not None
            old, new = Fence(run_id=again.id, token=1), Fence(run_id=again.id, token=2)
            with pytest.raises(FencedError):
                await stores[0].append(step(again.session_id, entries=entries(1), fence=old))
            await stores[1].append(step(again.session_id, entries=entries(1), fence=new))

        on_nodes(tmp_path, play)

    def test_two_nodes_may_start_at_once(self, tmp_path: Path) -> None:
        url = new_postgres()

        async def whole() -> None:
            stores = [PostgresStore(url, tmp_path / "data") for _ in range(4)]
            await asyncio.gather(*(store.open() for store in stores))
            assert await stores[3].users() == []
            await asyncio.gather(*(store.close() for store in stores))

        asyncio.run(whole())

    def test_a_node_without_the_pepper_is_refused(self, tmp_path: Path) -> None:
        async def play(store: PostgresStore) -> None:
            for folder in (tmp_path / "other", tmp_path / "wrong"):
                folder.mkdir()
            (tmp_path / "wrong" / "pepper").write_bytes(b"2" * 32)
            for folder in (tmp_path / "other", tmp_path / "wrong"):
                node = PostgresStore(store._url, folder)
                with pytest.raises(StoreError) as caught:
                    await node.users()
                await node.close()
                assert caught.value.code == "store.pepper"
            shutil.copy(tmp_path / "data" / "pepper", tmp_path / "wrong" / "pepper")
            node = PostgresStore(store._url, tmp_path / "wrong")
            _, plaintext = await store.add_key(ANNA, "laptop", "full", at(1))
            assert await node.check_key(plaintext, at(2)) is not None
            await node.close()

        on_nodes(tmp_path, play, 1)


@pytest.mark.full
class TestFaults:
    def test_a_node_that_stops_in_the_middle_of_a_step_holds_nothing_for_ever(
        self, tmp_path: Path
    ) -> None:
        async def play(store: PostgresStore) -> None:
            assert (
                await store.read(lambda db: db.fetchval("SHOW idle_in_transaction_session_timeout"))
                == "10s"
            )

            async def stops(db: asyncpg.Connection) -> None:
                await db.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
                await db.execute("SELECT 1 FROM sessions WHERE id = 'sess_1' FOR UPDATE")
                while not db.is_closed():
                    await asyncio.sleep(0.01)
                await db.execute("SELECT 1")

            answers = await asyncio.gather(
                store.write(stops), store.append(step(entries=entries(1))), return_exceptions=True
            )
            assert isinstance(answers[0], StoreError)
            assert answers[1].last == 1  # type: ignore[union-attr]

        on_nodes(tmp_path, play, 1)

    def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        async def play(store: PostgresStore) -> None:
            await store.close()
            with pytest.raises(StoreError, match="closed"):
                await store.users()

        on_nodes(tmp_path, play, 1)

    def test_a_database_that_restarts_loses_nothing_and_is_found_again(
        self, tmp_path: Path
    ) -> None:
        async def play(store: PostgresStore) -> None:
            await store.append(step(entries=entries(3)))
            server = postgres()
            await asyncio.to_thread(server.end, signal.SIGKILL)
            try:
                with pytest.raises(StoreError) as caught:
                    await store.append(step(entries=entries(1)))
                with pytest.raises(StoreError):
                    await store.append(step(entries=entries(1), session=session_row()))
            finally:
                (server.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
                await asyncio.to_thread(server.start)
            assert (caught.value.code, bool(caught.value.help)) == ("store.away", True)
            assert (await store.append(step(entries=entries(1)))).last == 4
            assert await store.check() == []

        on_nodes(tmp_path, play, 1)

    def test_what_others_were_in_the_way_of_is_tried_again(self, tmp_path: Path) -> None:
        async def play(store: PostgresStore) -> None:
            tried: list[int] = []

            async def twice(db: asyncpg.Connection) -> int:
                tried.append(1)
                if len(tried) < 3:
                    raise asyncpg.DeadlockDetectedError
                return len(tried)

            assert await store.write(twice) == 3
            tried.clear()

            async def never(db: asyncpg.Connection) -> None:
                raise asyncpg.SerializationError

            with pytest.raises(StoreError):
                await store.write(never)

        on_nodes(tmp_path, play, 1)

    def test_a_read_only_database_is_said_and_outlived(self, tmp_path: Path) -> None:
        async def play(store: PostgresStore) -> None:
            await store.read(
                lambda db: db.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            )
            await store.read(lambda db: db.execute("SELECT pg_reload_conf()"))
            codes: set[str | None] = set()
            for _ in range(200):
                try:
                    await store.append(step(entries=entries(1)))
                except StoreError as problem:
                    codes.add(problem.code)
                    break
                await asyncio.sleep(0.01)
            await store.read(
                lambda db: db.execute("ALTER SYSTEM RESET default_transaction_read_only")
            )
            await store.read(lambda db: db.execute("SELECT pg_reload_conf()"))
            assert codes == {"store.read-only"}
            for _ in range(200):
                try:
                    await store.append(step(entries=entries(1)))
                    break
                except StoreError:
                    await asyncio.sleep(0.01)
            assert await store.check() == []

        on_nodes(tmp_path, play, 1)


@pytest.mark.full
class TestMigrations:
    def test_a_newer_version_is_left_alone(self, tmp_path: Path) -> None:
        async def play(store: PostgresStore) -> None:
            await store.write(
                lambda db: db.execute("INSERT INTO schema_version (version) VALUES (999)")
            )
            other = PostgresStore(store._url, tmp_path / "data")
            with pytest.raises(StoreError) as caught:
                await other.users()
            await other.close()
            assert caught.value.code == "store.version"

        on_nodes(tmp_path, play, 1)

    def test_a_step_that_fails_leaves_the_version_before(self) -> None:
        url = new_postgres()

        async def whole() -> None:
            db = await asyncpg.connect(url)
            await schema.migrate(db, ["CREATE TABLE a (x int)"])
            with pytest.raises(asyncpg.PostgresError):
                await schema.migrate(db, ["", "CREATE TABLE b (x int); CREATE TABLE a (x int)"])
            assert await db.fetchval("SELECT to_regclass('b')") is None
            assert await schema.migrate(db, ["", "CREATE TABLE b (x int)"]) == 1
            assert await schema.migrate(db, ["", "CREATE TABLE b (x int)"]) == 2
            await db.close()

        asyncio.run(whole())


def test_errors_are_reported_without_values() -> None:
    problem = translate_error(asyncpg.UndefinedTableError("near secret"))
    assert (getattr(problem, "code", None), "secret" in str(problem)) == ("store.sql", False)
    for lost in (
        ConnectionRefusedError(),
        asyncpg.InternalClientError("cannot switch"),
        asyncpg.InterfaceError("closed"),
        asyncpg.IdleInTransactionSessionTimeoutError("it slept"),
    ):
        assert getattr(translate_error(lost), "code", None) == "store.away"
    mine = KeyError("as it is")
    assert translate_error(mine) is mine


def test_a_connection_that_cannot_be_made_may_be_made_later() -> None:
    cases = {
        asyncpg.InternalServerError("could not write init file"): "store.away",
        asyncpg.DiskFullError("no space"): "store.full",
        asyncpg.InvalidPasswordError("no"): "store.open",
    }
    assert {
        getattr(connection_error(problem), "code", None): code for problem, code in cases.items()
    } == {code: code for code in cases.values()}
