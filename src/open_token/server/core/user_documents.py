"""Small documents of a user, such as profiles: one setting of the store for each kind."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from open_token.model.log_events import Json
from open_token.server.core.services import Services
from open_token.server.errors import bad_request, conflict

T = TypeVar("T")

_MAX_BYTES = 4 << 20
_MAX_RETRIES = 20


async def load_document(services: Services, owner: str, kind: str) -> Json:
    """Return a document of a user; an empty one if there is none yet."""
    stored = await services.store.setting(_build_key(owner, kind))
    return _parse(stored)


async def change_document(
    services: Services, owner: str, kind: str, change: Callable[[Json], T]
) -> T:
    """Change a document in place and store it; `change` runs again after a concurrent change."""
    key = _build_key(owner, kind)
    for _ in range(_MAX_RETRIES):
        stored = await services.store.setting(key)
        document = _parse(stored)
        result = change(document)
        changed = msgspec.json.encode(document).decode()
        if len(changed) > _MAX_BYTES:
            raise bad_request(f"all {kind} together exceed {_MAX_BYTES} bytes", "too_large")
        if changed == stored or await services.store.replace_setting(key, stored, changed):
            return result
    raise conflict(f"write conflict: gave up after {_MAX_RETRIES} retries")


def _parse(stored: str | None) -> Json:
    document: Json = msgspec.json.decode(stored) if stored else {}
    return document


def _build_key(owner: str, kind: str) -> str:
    return f"{kind}/{owner}"
