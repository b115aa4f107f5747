"""Which store an address means."""

import asyncio
import sys
from pathlib import Path

import pytest

from helpers.server.local_services import free_port
from open_token.errors import StoreError
from open_token.server.store.factory import open_store
from open_token.server.store.sqlite.store import SqliteStore


def refused(folder: Path, address: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        asyncio.run(open_store(folder, address))
    assert "secret" not in str(caught.value)
    return caught.value


def test_without_an_address_it_is_the_folder(tmp_path: Path) -> None:
    async def opened() -> None:
        store = await open_store(tmp_path / "data")
        assert isinstance(store, SqliteStore)
        await store.close()

    asyncio.run(opened())


@pytest.mark.parametrize(
    "address", ["", "mysql://x", "/tmp/data", "postgresql://[bad", "postgresql://u:secret@h:port/x"]
)
def test_an_address_that_is_none_is_said(tmp_path: Path, address: str) -> None:
    assert refused(tmp_path, address).code in ("store.open", "store.away")


def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert (
        refused(tmp_path, f"postgresql://u:secret@127.0.0.1:{free_port()}/x").code == "store.away"
    )


def test_a_driver_that_is_not_installed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for name in list(sys.modules):
        if name.startswith("open_token.server.store.postgres."):
            monkeypatch.delitem(sys.modules, name)
    assert refused(tmp_path, "postgresql://h/x").code == "store.driver"
