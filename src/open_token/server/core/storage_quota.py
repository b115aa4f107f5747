"""The quota of what users store: the logs of their sessions, blobs, and files of workspaces."""

import asyncio
from collections import OrderedDict

from open_token.server.core.services import Services
from open_token.server.errors import ApiError

_MAX_AGE = 60.0
"""Seconds for which a measurement holds: it reads all that a user has."""
_MAX_AGE_WHEN_FULL = 2.0
_MAX_KNOWN = 10_000
_PAGE_SIZE = 500


class StorageQuota:
    """Refuses what would go beyond the quota of a user."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When each user was measured, and the size with what was added since."""

    async def require_space(self, owner: str, size: int = 0) -> None:
        """Count some bytes as used by a user; raises a 413 when there is no space for them.

        Deleting and stopping stay possible: only what adds something asks here."""
        limit = self._services.config.limits.storage_per_user
        if limit is None:
            return
        measured_at, used = await self._get_usage(owner, _MAX_AGE)
        if used + size >= limit:
            # Something may have been deleted since.
            measured_at, used = await self._get_usage(owner, _MAX_AGE_WHEN_FULL)
        if used + size >= limit:
            raise ApiError(
                413,
                f"your sessions and files take {used} of {limit} bytes; delete some first",
                "storage_full",
            )
        self._known[owner] = (measured_at, used + size)

    async def _get_usage(self, owner: str, max_age: float) -> tuple[float, int]:
        known = self._known.get(owner)
        if known is None or asyncio.get_running_loop().time() - known[0] > max_age:
            return await self._measure(owner)
        return known

    async def _measure(self, owner: str) -> tuple[float, int]:
        services = self._services
        used = await services.store.count_bytes(owner)
        offset = 0
        total = 1
        while offset < total:
            page = await services.store.sessions(owner, limit=_PAGE_SIZE, offset=offset)
            total = page.total
            offset += _PAGE_SIZE
            names = [session.id for session in page.items]
            used += await asyncio.to_thread(self._count_files, names)
        known = (asyncio.get_running_loop().time(), used)
        self._known[owner] = known
        self._known.move_to_end(owner)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return known

    def _count_files(self, session_ids: list[str]) -> int:
        workspaces = self._services.workspaces
        return sum(workspaces.get(session_id).count_bytes() for session_id in session_ids)
