"""A server for each test."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastapi.routing
import pytest

from helpers.server.rest_server import RestServer


@pytest.fixture(autouse=True, scope="session")
def routes_built_once() -> Iterator[None]:
    """Build each route once for all servers of the tests, not again for the first request of each.

    Every server includes the same routers in the same way, and to build their routes takes most of
    the time of a test with few requests. A FastAPI that builds them in another way is left alone.
    """
    included = getattr(fastapi.routing, "_IncludedRouter", None)
    build = getattr(included, "_build_effective_context", None)
    if included is None or build is None:
        yield
        return
    built: dict[tuple[int, str], Any] = {}

    @functools.wraps(build)
    def build_once(self: Any, route: Any) -> Any:
        # The route is kept by its module, so its id belongs to no other one later.
        name = (id(route), self.include_context.prefix)
        if name not in built:
            built[name] = build(self, route)
        return built[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(included, "_build_effective_context", build_once)
        yield


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A running server, called without sockets."""
    server = RestServer(tmp_path / "data")
    yield server
    server.close()
