"""Stores for tests: every kind that there is, called without an event loop of one's own, and rows
to put into them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from helpers.server.local_services import postgres_url
from open_token.server.store.interface import Store
from open_token.server.store.postgres.store import open_postgres
from open_token.server.store.rows import NewEntry, SessionRow, SessionWrite, TurnRow, User
from open_token.server.store.sqlite.store import open_sqlite

URL_FILE = "url"


def open_test_postgres(folder: Path) -> Store:
    """A store in a part of the throw-away database; the folder remembers which."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / URL_FILE).exists():
        (folder / URL_FILE).write_text(new_postgres())
    return open_postgres((folder / URL_FILE).read_text(), folder)


def new_postgres(is_durable: bool = False) -> str:
    """The address of a part of the throw-away database that is empty."""
    return prepare_database(postgres_url(is_durable))


def prepare_database(url: str) -> str:
    """The address again, when its part of the database is there."""
    schema = url.partition("search_path=")[2]

    async def make() -> None:
        db = await asyncpg.connect(url)
        await db.execute(f"CREATE SCHEMA {schema}")
        await db.close()

    asyncio.run(make())
    return url


STORES: dict[str, Callable[[Path], Store]] = {"sqlite": open_sqlite, "postgres": open_test_postgres}
KINDS = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.full)]
ANNA, BEN = "user_anna", "user_ben"


class BlockingStore:
    """A store whose methods wait; `together` runs many calls at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.store, name)
        return lambda *args, **kwargs: self.loop.run_until_complete(method(*args, **kwargs))

    def together(self, *calls: Any) -> list[Any]:
        async def gathered() -> list[Any]:
            return await asyncio.gather(*calls, return_exceptions=True)

        return self.loop.run_until_complete(gathered())

    def close(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


def open_store(folder: Path, kind: str = "sqlite") -> BlockingStore:
    """A store in a folder, with the users of these tests."""
    store = BlockingStore(STORES[kind](folder))
    if not store.users():
        store.add_user(User(id=ANNA, name="Anna", role="owner", created_at=at(0)))
        store.add_user(User(id=BEN, name="Ben", role="user", created_at=at(0)))
    return store


def at(second: int) -> str:
    """A time, so many seconds into a day."""
    return f"2026-01-31T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z"


def session_row(intent: str = "Mend the build", second: int = 0, **more: Any) -> SessionRow:
    values = {
        "status": "created",
        "created_at": at(0),
        "updated_at": at(second),
        "body": b'{"model":"demo"}',
    }
    return SessionRow(intent=intent, **values | more)


def entries(count: int, **data: Any) -> list[NewEntry]:
    return [
        NewEntry(kind="noted", at=at(number), data=data | {"number": number})
        for number in range(count)
    ]


def turn_row(sequence: int, parent: int | None = None, **more: Any) -> TurnRow:
    before = None if parent is None else f"entry_{parent}"
    names = {"id": f"entry_{sequence}", "turn_id": f"turn_{sequence}", "parent_id": before}
    return TurnRow(**names | {"sequence": sequence, "body": b'{"sequence":%d}' % sequence} | more)


def create_session(
    store: BlockingStore, session_id: str = "sess_1", owner: str = ANNA, **row: Any
) -> None:
    store.append(
        SessionWrite(owner=owner, session_id=session_id, expected=0, session=session_row(**row))
    )
