"""Sessions with an operation in progress, persisted so that a restart can finish or undo it."""

import contextlib
from weakref import WeakKeyDictionary

import msgspec

from open_token.server.store.interface import Store

_BY_STORE: "WeakKeyDictionary[Store, dict[str, dict[str, str]]]" = WeakKeyDictionary()


class PendingSessions:
    """A map of session ids to owners, stored under one setting.

    Each write stores the whole map. Instances with the same store and key share it, so that they
    do not overwrite each other."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._owners = _BY_STORE.setdefault(store, {}).setdefault(key, {})

    async def add(self, session_id: str, owner: str) -> None:
        """Record that an operation starts."""
        self._owners[session_id] = owner
        await self._save()

    async def remove(self, session_id: str) -> None:
        """Record that an operation has ended."""
        if self._owners.pop(session_id, None) is not None:
            await self._save()

    async def take_over(self) -> dict[str, str]:
        """Return the operations that an earlier process left; they are pending here from now on."""
        setting = await self._store.setting(self._key)
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            left = msgspec.json.decode(setting or "{}", type=dict[str, str])
            for session_id, owner in left.items():
                self._owners.setdefault(session_id, owner)
            return left
        return {}

    async def _save(self) -> None:
        encoded = msgspec.json.encode(self._owners).decode() if self._owners else None
        await self._store.set_setting(self._key, encoded)
