"""A server for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rest import Rest


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    """A running server, called without sockets."""
    server = Rest(tmp_path / "data")
    yield server
    server.close()
