"""Which sessions something is under way in, kept in a setting so that a restart finds what a crash
left."""

import contextlib
from weakref import WeakKeyDictionary

import msgspec

from open_token.server.store.interface import Store

_HELD: "WeakKeyDictionary[Store, dict[str, dict[str, str]]]" = WeakKeyDictionary()


class Marks:
    """Sessions of one node with whose they are; all writing is of the whole, so the last word is
    the right one."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._here = _HELD.setdefault(store, {}).setdefault(key, {})

    async def add(self, session_id: str, owner: str) -> None:
        """Something begins."""
        self._here[session_id] = owner
        await self._keep()

    async def remove(self, session_id: str) -> None:
        """It is over."""
        if self._here.pop(session_id, None) is not None:
            await self._keep()

    async def left(self) -> dict[str, str]:
        """What another life of this server began and did not end; it counts as begun here from now
        on."""
        kept = await self._store.setting(self._key)
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            found = msgspec.json.decode(kept or "{}", type=dict[str, str])
            self._here.update(
                {name: owner for name, owner in found.items() if name not in self._here}
            )
            return found
        return {}

    async def _keep(self) -> None:
        await self._store.set_setting(
            self._key, msgspec.json.encode(self._here).decode() if self._here else None
        )
