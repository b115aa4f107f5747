"""Users and keys in a database that several nodes share."""

import asyncio
from pathlib import Path

import pytest

from open_token.errors import StoreError
from open_token.server.clock import Clock
from open_token.server.store.factory import SharedUserAdmin, open_shared_user_admin
from open_token.server.store.rows import User
from open_token.server.store.sqlite.store import open_sqlite


def test_every_call_reaches_the_store(tmp_path: Path) -> None:
    now = Clock().now()
    with asyncio.Runner() as runner:
        store = open_sqlite(tmp_path)
        people = SharedUserAdmin(store, runner)
        people.add_user(User(id="user_1", name="ada", role="owner", created_at=now))
        people.add_user(User(id="user_2", name="ben", role="user", created_at=now))
        key, plaintext = people.add_key("user_2", "first", "read", now)
        assert [user.name for user in people.users()] == ["ada", "ben"]
        assert [item.id for item in people.keys("user_2")] == [key.id]
        caller = runner.run(store.check_key(plaintext, now))
        assert caller is not None
        assert caller.key.scope == "read"
        assert people.disable_user("user_2", now)
        assert runner.run(store.check_key(plaintext, now)) is None
        assert people.revoke_key("user_2", key.id, now)
        assert people.keys("user_2") == []
        runner.run(store.close())


def test_an_address_that_is_none_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError), open_shared_user_admin(tmp_path, "mysql://somewhere"):
        pass
