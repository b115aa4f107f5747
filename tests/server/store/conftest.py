"""A store of every kind, for the suite that all of them pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.server.stores import KINDS, BlockingStore, open_store


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingStore]:
    opened_store = open_store(tmp_path / "data", request.param)
    yield opened_store
    opened_store.close()
