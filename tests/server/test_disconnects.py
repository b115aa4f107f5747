"""Every event exactly once, however often a connection is lost; `make disconnects` does it a
thousand times."""

from pathlib import Path

import pytest

from helpers.server.live_events import run
from longrun.disconnects import disconnects


async def lost(folder: Path, rounds: int, seed: int) -> None:
    assert await disconnects(folder, rounds, seed) > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_connections_that_are_lost_at_random(tmp_path: Path, seed: int) -> None:
    run(lost(tmp_path, 25, seed), 240)
