"""What `make soak` would find in what sockets were told."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from longrun.soak import Figures, Lane


@pytest.mark.parametrize(
    ("second", "is_fault"),
    [([1, 2, 3], False), ([1, 3], True), ([1, 2, 2, 3], True), ([1, 3, 2], True)],
)
def test_the_checker_finds_what_one_socket_was_not_told(second: list[int], is_fault: bool) -> None:
    async def read(_: str) -> list[Any]:
        return []

    soak: Any = SimpleNamespace(figures=Figures(), read=read)
    sockets: Any = ["first", "second"]
    lane = Lane(soak, sockets, 0)
    lane.seen = {sockets[0]: [1, 2, 3], sockets[1]: second}
    asyncio.run(lane._over("sess_1"))
    assert bool(soak.figures.errors) is is_fault
    assert soak.figures.runs == 1


def test_the_checker_finds_an_event_that_all_sockets_were_told_twice() -> None:
    async def read(_: str) -> list[Any]:
        return []

    soak: Any = SimpleNamespace(figures=Figures(), read=read)
    sockets: Any = ["first", "second"]
    lane = Lane(soak, sockets, 0)
    lane.seen = {socket: [1, 2, 2] for socket in sockets}
    asyncio.run(lane._over("sess_1"))
    assert len(soak.figures.errors) == 2
