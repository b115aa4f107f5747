"""Disks that are full and databases that may only be read: reported clearly, nothing damaged, over
without help."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import httpx2
import pytest

from helpers.full_disk import fill_disk, free_disk, mount_small_disk
from helpers.server.local_services import as_owner_of_postgres, postgres
from helpers.server.node_clients import Watcher, send_message
from helpers.server.server_client import ServerClient, run_with_server
from helpers.server.socket_server import Client
from helpers.server.stores import new_postgres
from longrun.node_faults import LONG, TIMEOUT, Node
from open_token.server.cancellation import cancel_and_wait
from open_token.server.errors import ApiError
from open_token.server.store.rows import Caller
from open_token.server.store.sqlite.store import SqliteStore

PRAGMAS = {
    "store.full": ("max_page_count = 1", "max_page_count = 1073741823", "the disk is full"),
    "store.read-only": (
        "query_only = ON",
        "query_only = OFF",
        "the data folder is read-only",
    ),
}


@pytest.mark.parametrize("code", PRAGMAS)
def test_who_wants_something_written_is_reported_why_not(tmp_path: Path, code: str) -> None:
    begins, ends, words = PRAGMAS[code]

    async def scenario(ask: ServerClient) -> None:
        store, name = ask.services.store, await ask.create_session()
        assert isinstance(store, SqliteStore)
        caller = await store.check_key(ask.keys["owner"], ask.services.clock.now())
        assert caller is not None
        big = {
            "metadata": {"note": "x" * 250_000}
        }  # more than fits into what the database has to spare
        await store.database.writer.submit(lambda db: db.execute(f"PRAGMA {begins}").fetchall())
        answer = await ask("POST", "/api/sessions", json=big)
        assert (answer.status_code, answer.json()) == (503, {"detail": words, "code": code})
        message = {"session_id": name, "message": "x" * 300_000, "client_message_id": "m1"}
        await _refused(ask, caller, message, code)
        assert (await ask("GET", f"/api/sessions/{name}")).status_code == 200
        store.database.writer._db.execute(f"PRAGMA {ends}")  # it is idle
        assert (await ask("POST", "/api/sessions", json=big)).status_code == 200
        assert (await ask.services.chat.send(caller, message))["status"] == "ok"
        assert await store.check(is_deep=True) == []

    run_with_server(tmp_path / "data", scenario)


async def _refused(ask: ServerClient, caller: Caller, message: Any, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        await ask.services.chat.send(caller, message)
    assert (caught.value.status, caught.value.code) == (503, code)


class Served:
    """A server process, a session in it, and one who watches."""

    def __init__(self, node: Node) -> None:
        self.node, self.session_id = node, ""
        self.http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {node.key}"}, timeout=TIMEOUT
        )

    async def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return await self.http.request(method, f"{self.node.address}{path}", **more)

    async def write(self) -> dict[str, str]:
        """The codes with which everybody is refused who wants something written."""
        given = {
            "file": (
                "PUT",
                f"/api/sessions/{self.session_id}/files/a.txt",
                {"json": {"content": "x" * 100_000}},
            ),
            "session": ("POST", "/api/sessions", {"json": {"metadata": {"note": "x" * 100_000}}}),
        }
        codes = {}
        for name, (method, path, more) in given.items():
            answer = await self.call(method, path, **more)
            assert answer.status_code in (200, 503, 507), answer.text
            codes[name] = answer.json().get("code", "") if answer.status_code != 200 else ""
        client = Client(self.node.address, self.node.key)
        async with client:
            message = {"session_id": self.session_id, "message": "x" * 100_000}
            result = await client.io.call("chat:send", message, timeout=60)
            codes["message"] = result.get("code", "")
            if codes["message"]:
                error = await client.first("system:error")
                assert (error["code"], bool(error["detail"])) == (codes["message"], True)
        return codes

    async def health(self, is_well: Callable[[Any], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not is_well(result := (await self.call("GET", "/healthz")).json()):
                assert result["status"] == (
                    "ok" if set(result["checks"].values()) == {"ok"} else "failed"
                )
                await asyncio.sleep(0.2)

    async def survives(
        self, begins: Callable[[], Any], ends: Callable[[], Any], codes: set[str]
    ) -> None:
        """A run is under way when it begins; the run goes on when it is over, and its watcher has
        it whole."""
        self.session_id = (await self.call("POST", "/api/sessions", json={})).json()["session_id"]
        assert (
            await self.call(
                "PUT", f"/api/sessions/{self.session_id}/files/b", json={"content": "b"}
            )
        ).is_success
        watcher = Watcher([self.node], self.node.key or "", self.session_id, "socket", Random(1))
        watching = asyncio.create_task(watcher.watch())
        await send_message(
            [self.node],
            self.node.key or "",
            {"session_id": self.session_id, "message": "long"},
            Random(1),
        )
        async with asyncio.timeout(TIMEOUT):
            while "word9" not in str(watcher.mirror.branch()):
                await asyncio.sleep(0.01)
        await begins()
        await self.health(lambda result: result["checks"]["disk"] != "ok")
        refused = await self.write()
        assert refused["message"] in codes
        assert refused["session"] in codes
        whole = (await self.call("GET", f"/api/sessions/{self.session_id}")).json()
        assert whole["status"] == "running"
        await ends()
        await self.health(lambda result: result["status"] == "ok")
        async with asyncio.timeout(TIMEOUT):
            while watcher.mirror.session.get("status") != "completed":
                await asyncio.sleep(0.05)
        texts = [
            "".join(block["content"] for block in turn["blocks"])
            for turn in watcher.mirror.branch()
        ]
        assert (texts[0], texts[-1]) == ("long", LONG)
        assert watcher.numbers == sorted(set(watcher.numbers))
        assert set((await self.write()).values()) == {""}
        await cancel_and_wait(watching)


async def _survives(folder: Path, urls: dict[str, str], *how: Any) -> None:
    node = Node("all", folder, {}, urls, lease=0)
    await node.start()
    try:
        server = Served(node)
        await server.survives(*how)
        await server.http.aclose()
    finally:
        await node.end()


@pytest.mark.full
def test_a_full_disk_under_sqlite(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk", "6m") as disk:

        async def begins() -> None:
            fill_disk(disk)

        async def ends() -> None:
            free_disk(disk)

        asyncio.run(_survives(disk, {}, begins, ends, {"store.full", "store.disk"}))
        words = [
            sys.executable,
            "-m",
            "open_token",
            "server",
            "check",
            "--deep",
            "--data",
            str(disk / "data"),
        ]
        subprocess.run(words, check=True, capture_output=True)


@pytest.mark.full
def test_a_full_disk_under_postgresql(tmp_path: Path) -> None:
    url, server = new_postgres(), postgres()
    with mount_small_disk(server.folder / "disk", "6m") as disk:
        as_owner_of_postgres(disk)
        name = f"small{server.port}"

        async def sql(*words: str) -> None:
            db = await asyncpg.connect(url)
            for word in words:
                await db.execute(word)
            await db.close()

        async def begins() -> None:
            fill_disk(disk)

        async def ends() -> None:
            free_disk(disk)

        asyncio.run(sql(f"CREATE TABLESPACE {name} LOCATION '{disk}'"))
        try:
            there = {"database": f"{url}&default_tablespace={name}"}
            asyncio.run(_survives(tmp_path, there, begins, ends, {"store.full"}))
        finally:
            schema = url.partition("search_path=")[2]
            asyncio.run(sql(f"DROP SCHEMA {schema} CASCADE", f"DROP TABLESPACE {name}"))


@pytest.mark.full
def test_a_database_that_may_only_be_read(tmp_path: Path) -> None:
    url = new_postgres()

    async def sql(word: str) -> None:
        db = await asyncpg.connect(url)
        with contextlib.suppress(asyncpg.ReadOnlySQLTransactionError):
            await db.execute("SET default_transaction_read_only = off")
            await db.execute(word)
        await db.execute("SELECT pg_reload_conf()")
        await db.close()

    async def begins() -> None:
        await sql("ALTER SYSTEM SET default_transaction_read_only = on")

    async def ends() -> None:
        await sql("ALTER SYSTEM RESET default_transaction_read_only")

    try:
        asyncio.run(_survives(tmp_path, {"database": url}, begins, ends, {"store.read-only"}))
    finally:
        asyncio.run(ends())
