"""Small data that clients keep on the server: preferences, environments, facts about sessions."""

import re
from collections.abc import Mapping

from open_token.model.log_events import Json
from open_token.model.session_types import Session, decode
from open_token.server.core.environments import MASK, mask_environment, validate_environment
from open_token.server.core.services import Services
from open_token.server.core.user_documents import change_document, load_document
from open_token.server.errors import ApiError, bad_request, conflict, not_found

MAX_ENTRIES = 1000
_PREFERENCES = "preferences"
_BUCKETS = "env-buckets"
_EXTRA_INFO = "extra-info"
_NAME = re.compile(r"[\w.:-]{1,200}")


async def get_preference(services: Services, owner: str, name: str) -> str | None:
    """Return a preference of a user; None if it was never set."""
    preferences = await load_document(services, owner, _PREFERENCES)
    value: str | None = preferences.get(_check_name(name))
    return value


async def set_preference(services: Services, owner: str, name: str, value: str | None) -> None:
    """Set a preference; None removes it."""
    _check_name(name)

    def change(document: Json) -> None:
        if value is None:
            document.pop(name, None)
        else:
            _put(document, name, value)

    await change_document(services, owner, _PREFERENCES, change)


async def list_buckets(services: Services, owner: str) -> list[Json]:
    """Return the named environments of a user; values of secret-looking names are masked."""
    buckets = await load_document(services, owner, _BUCKETS)
    return [_describe_bucket(name, env) for name, env in sorted(buckets.items())]


async def get_bucket(services: Services, owner: str, name: str) -> Json:
    """Return a named environment as clients see it."""
    return _describe_bucket(name, await load_bucket(services, owner, name))


async def load_bucket(services: Services, owner: str, name: str) -> dict[str, str]:
    """Return the variables of a named environment."""
    buckets = await load_document(services, owner, _BUCKETS)
    if name not in buckets:
        raise not_found("environment")
    env: dict[str, str] = buckets[name]
    return env


async def set_bucket(services: Services, owner: str, name: str, env: Mapping[str, str]) -> Json:
    """Set a named environment; a masked value keeps the previous one."""
    _check_name(name)

    def change(document: Json) -> dict[str, str]:
        previous = document.get(name, {})
        merged = {
            variable: previous.get(variable, "") if value == MASK else value
            for variable, value in env.items()
        }
        _put(document, name, dict(validate_environment(merged)))
        return merged

    return _describe_bucket(name, await change_document(services, owner, _BUCKETS, change))


async def delete_bucket(services: Services, owner: str, name: str) -> None:
    """Delete a named environment; sessions keep the variables that they were created with."""

    def change(document: Json) -> None:
        if document.pop(name, None) is None:
            raise not_found("environment")

    await change_document(services, owner, _BUCKETS, change)


async def get_extra_info(services: Services, owner: str, session_id: str) -> Json:
    """Return what a client noted about a session."""
    session = await _get_session(services, owner, session_id)
    document = await load_document(services, owner, _EXTRA_INFO)
    created_at = session.created_at
    none: Json = {"extra": {}, "created_at": created_at, "updated_at": created_at}
    return {"session_id": session_id, **document.get(session_id, none)}


async def add_extra_info(services: Services, owner: str, session_id: str, extra: Json) -> Json:
    """Note facts about a session; a name that is known gets the new value."""
    await _get_session(services, owner, session_id)
    now = services.clock.now()

    def change(document: Json) -> Json:
        known = document.get(session_id, {"extra": {}, "created_at": now})
        info = {**known, "extra": {**known["extra"], **extra}, "updated_at": now}
        _put(document, session_id, info)
        return info

    info = await change_document(services, owner, _EXTRA_INFO, change)
    return {"session_id": session_id, **info}


async def find_extra_info(services: Services, owner: str, task_id: str) -> Json:
    """Return the notes whose `task_id` is this one; without a session if there are none."""
    document = await load_document(services, owner, _EXTRA_INFO)
    for session_id, info in document.items():
        if info["extra"].get("task_id") != task_id:
            continue
        # The notes of a session that was deleted may still be there.
        if await services.store.session(owner, session_id) is not None:
            return {"session_id": session_id, **info}
    return {"session_id": None, "extra": {}, "created_at": None, "updated_at": None}


async def forget_session(services: Services, owner: str, session_id: str) -> None:
    """Remove the notes of a session that is deleted."""
    document = await load_document(services, owner, _EXTRA_INFO)
    if session_id in document:
        await change_document(
            services, owner, _EXTRA_INFO, lambda current: current.pop(session_id, None)
        )


async def _get_session(services: Services, owner: str, session_id: str) -> Session:
    row = await services.store.session(owner, session_id)
    if row is None:
        raise not_found()
    return decode(row.body, Session)


def _describe_bucket(name: str, env: Mapping[str, str]) -> Json:
    return {"bucket": name, "env": mask_environment(env)}


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise bad_request("a name has 1 to 200 letters, digits, '.', ':', '_' and '-'", "invalid")
    return name


def _put(document: Json, name: str, value: object) -> None:
    if name not in document and len(document) >= MAX_ENTRIES:
        raise conflict(f"there are {MAX_ENTRIES} entries already", "too_many")
    document[name] = value


def to_share_path(source: str, link_name: str, folder: str) -> str:
    """Return where a shared file is put in the workspace."""
    name = link_name or source.rstrip("/").rpartition("/")[2]
    if not name:
        raise ApiError(400, "source_path is not a file", "bad_path")
    return "/".join(part for part in (".share", folder.strip("/"), name) if part)
