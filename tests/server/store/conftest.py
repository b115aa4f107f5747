"""A store of every kind, for the suite that all of them pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import STORES, Blocking, opened


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blocking]:
    opened_store = opened(tmp_path / "data", request.param)
    yield opened_store
    opened_store.close()
