"""Users and keys changed from outside while a server runs."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from open_token.errors import StoreError
from open_token.server.config import ServerConfig
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.interface import ConflictError
from open_token.server.store.rows import User
from open_token.server.store.sqlite.user_admin import open_user_admin

NOW = "2026-01-31T08:00:00.000Z"


def test_people_change_while_the_server_runs(tmp_path: Path) -> None:
    async def changed() -> None:
        async with run_services(ServerConfig(data=tmp_path), {}) as services:
            await create_first_key(services)
            check = services.store.check_key
            with open_user_admin(tmp_path) as people:
                ben = people.add_user(User(id="user_ben", name="ben", role="user", created_at=NOW))
                key, plaintext = people.add_key(ben.id, "laptop", "read", NOW)
                caller = await check(plaintext, NOW)
                assert caller is not None
                assert (caller.user.name, caller.key.scope) == ("ben", "read")
                assert people.disable_user(ben.id, NOW)
                assert await check(plaintext, NOW) is None
                assert people.disable_user(ben.id, None)
                assert await check(plaintext, NOW) is not None
                assert [held.id for held in people.keys(ben.id)] == [key.id]
                assert people.revoke_key(ben.id, key.id, NOW)
                assert not people.revoke_key(ben.id, key.id, NOW)
                assert await check(plaintext, NOW) is None
                with pytest.raises(ConflictError):
                    people.add_user(User(id="user_2", name="ben", role="user", created_at=NOW))
                assert [user.name for user in people.users()] == ["owner", "ben"]
            await services.journal.create(
                (await services.store.users())[0].id, {"intent": "still writes"}
            )

    asyncio.run(changed())


def test_where_no_server_was_there_is_nobody(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no server data found"), open_user_admin(tmp_path):
        pass


def test_what_is_damaged_or_of_another_version_is_left_alone(tmp_path: Path) -> None:
    async def made() -> None:
        async with run_services(ServerConfig(data=tmp_path), {}):
            pass

    asyncio.run(made())
    db = sqlite3.connect(tmp_path / "server.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="another version"), open_user_admin(tmp_path):
        pass
    (tmp_path / "pepper").unlink()
    with pytest.raises(StoreError, match="pepper is missing"), open_user_admin(tmp_path):
        pass
