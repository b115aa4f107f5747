"""Nodes that are killed, paused or cut off in the middle of runs: a short form of `make nodes`."""

import asyncio
from pathlib import Path

import pytest

from helpers.server.breakable_link import BreakableLink, Cut
from helpers.server.stores import new_postgres
from longrun.node_faults import LEASE, LONG, WatchedSession, _log_faults, _said_faults, campaign
from open_token.model.log_events import LogEntry, NewEvent
from open_token.session import SessionState, actions


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
    async def scenario() -> None:
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
            link.restore()
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

    asyncio.run(asyncio.wait_for(scenario(), 60))


def build_log(*more: NewEvent, answer: str = LONG) -> list[LogEntry]:
    """The log of one message and its answer, and what is planted behind them."""
    state = SessionState("sess_1")
    text = actions.build_text_blocks("long")
    said = actions.send_user_message("user_1", text, client_message_id="m1")
    steps: list[NewEvent] = [
        ("session.created", {"session": {"id": "sess_1", "intent": "Test"}}),
        ("run.started", {"run_id": "run_1"}),
        *said,
        ("turn.opened", {"turn": {"turn_id": "turn_1", "model": "demo"}}),
        ("text.delta", {"turn_id": "turn_1", "text": answer}),
        ("turn.ended", {"turn_id": "turn_1"}),
        ("run.ended", {"run_id": "run_1", "output": ""}),
        *more,
    ]
    return [state.add(kind, data, "2026-01-31T08:00:00.000Z") for kind, data in steps]


def find_faults(entries: list[LogEntry]) -> list[str]:
    state = SessionState("sess_1")
    for entry in entries:
        state.apply(entry)
    scenario = WatchedSession("sess_1", texts={"m1": "long"}, acknowledged={"m1": (3, "user_1")})
    return [*_log_faults(entries), *_said_faults(scenario, state)]


def test_the_checker_of_nodes_finds_what_is_planted() -> None:
    assert find_faults(build_log()) == []
    second = [
        ("turn.opened", {"turn": {"turn_id": "turn_2", "model": "demo"}}),
        ("text.delta", {"turn_id": "turn_2", "text": LONG}),
        ("turn.ended", {"turn_id": "turn_2"}),
    ]
    assert "answered 2 times" in find_faults(build_log(*second))[0]
    assert "answered 1 times" in find_faults(build_log(answer=LONG[:-9]))[0]
    started = ("run.started", {"run_id": "run_2"})
    assert find_faults(build_log(started)) == ["runs began and ended otherwise than once"]
    late = build_log(("usage.counted", {"turn_id": "turn_1", "usage": {"input_tokens": 1}}))
    assert "usage.counted of a turn that was over" in find_faults(late)[0]
