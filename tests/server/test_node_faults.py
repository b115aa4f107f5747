"""Nodes that are killed, paused or cut off in the middle of runs: a short form of `make nodes`."""

import asyncio
from pathlib import Path

import pytest

from helpers.server.breakable_link import BreakableLink, Cut
from helpers.server.stores import new_postgres
from longrun.node_faults import LEASE, campaign


@pytest.mark.full
def test_runs_go_on_elsewhere_once(tmp_path: Path) -> None:
    found, _, taken = asyncio.run(
        campaign(
            tmp_path,
            new_postgres(),
            ("all", "all"),
            ["killed", "paused", "redis reset"],
            20261116,
            LEASE,
        )
    )
    assert found == []
    assert taken


@pytest.mark.full
def test_a_node_that_was_cut_off_is_joined_again(tmp_path: Path) -> None:
    faults = ["database reset", "database stalled", "redis stalled"]
    work = campaign(
        tmp_path, new_postgres(), ("gateway", "worker", "worker"), faults, 20261117, LEASE
    )
    assert asyncio.run(work)[0] == []


@pytest.mark.parametrize("how", ["stalled", "lost", "reset"])
def test_a_link_that_is_cut(how: Cut) -> None:
    async def talk() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server, BreakableLink(server.sockets[0].getsockname()[1]) as link:
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            writer.write(b"before\n")
            assert await reader.readline() == b"before\n"
            link.cut(how)
            if how == "reset":
                with pytest.raises(ConnectionResetError):
                    await reader.readline()
            else:
                writer.write(b"behind\n")
            link.mend()
            if how == "stalled":
                assert await reader.readline() == b"behind\n"
            again, more = await asyncio.open_connection("127.0.0.1", link.port)
            more.write(b"again\n")
            assert await again.readline() == b"again\n"
            if how == "lost":
                writer.write(b"more\n")
                assert not reader._buffer  # type: ignore[attr-defined]
            for end in (writer, more):
                end.close()

    asyncio.run(asyncio.wait_for(talk(), 60))
