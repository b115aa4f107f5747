"""A server of services whose clock the test turns, for what happens by the clock."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from open_token.server.bus.local import LocalBus
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.journal import Journal
from open_token.server.core.scheduler import Scheduler
from open_token.server.core.schedules import Schedules
from open_token.server.core.services import Services
from open_token.server.store.interface import Store
from open_token.server.store.rows import User
from open_token.server.store.sqlite.store import open_sqlite

ANNA, BEN = "user_anna", "user_ben"
START = datetime(2026, 1, 31, 8, tzinfo=UTC)


class Hand:
    """A clock that stands still until it is turned."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def turn(self, **by: float) -> None:
        self.moment += timedelta(**by)


class Awake:
    """A runner that only counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def node(store: Store, folder: Path, hand: Hand, grace: float = 3600) -> tuple[Services, Scheduler]:
    """The services of one node on a store; its scheduler is not started."""
    clock, bus = Clock(moment=lambda: hand.moment), LocalBus()
    services = Services(
        ServerConfig(data=folder), store, bus, clock, Journal(store, bus, clock), {}
    )
    services.runner = Awake()  # type: ignore[assignment]
    scheduler = Scheduler(services, grace)
    services.schedules = Schedules(services, scheduler)
    return services, scheduler


@contextlib.asynccontextmanager
async def scheduling(
    folder: Path, hand: Hand | None = None
) -> AsyncIterator[tuple[Services, Scheduler, Hand]]:
    """One node on an SQLite store with two users."""
    hand = hand or Hand()
    store = open_sqlite(folder / "data")
    try:
        for name, role in ((ANNA, "owner"), (BEN, "user")):
            at = "2026-01-01T00:00:00.000Z"
            await store.add_user(User(id=name, name=name, role=role, created_at=at))  # type: ignore[arg-type]
        services, scheduler = node(store, folder, hand)
        yield services, scheduler, hand
    finally:
        await store.close()
