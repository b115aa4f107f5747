"""Sessions as clients make, list and change them; what happens inside them is the chat's and the
runs' matter."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from open_token.model.session_types import OpenStruct, encode, to_builtins
from open_token.server.refusals import Refused, bad, missing
from open_token.server.services import Services
from open_token.server.store.rows import Caller, StoredSession

MASK = "********"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|PRIVATE|COOKIE|SIGNATURE|DSN", re.IGNORECASE
)
_MOST_ENV = 64 << 10
_MOST_SAID = 256 << 10
"""Of what is said of a session when it is made: all of it stands in every list that shows the
session."""
_OURS = frozenset(
    "id user_id status created_at updated_at shared is_pinned replay_state env viewer_role session_setup "
    "primary_skill_snapshot stream_sequence".split()
)
"""What a client does not say of a new session: it is the server's to know, or not kept in the
log."""
_SETUP = ("model", "memory_enabled", "is_persistent", "solution_id", "biz_role_id")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class NewSession(OpenStruct):
    """What a session is made of; keys that are not known are kept with it."""

    intent: str = ""
    model: str | None = None
    memory_enabled: bool | None = None
    is_persistent: bool | None = None
    env: dict[str, str] | None = None
    disable_tools: Any = None
    solution_id: str | None = None
    biz_role_id: str | None = None


async def create(services: Services, caller: Caller, given: NewSession) -> str:
    """Begin a session; gives its id."""
    session_id = services.clock.name("sess")
    said = {
        name: value
        for name, value in to_builtins(given).items()
        if value is not None and name not in _OURS
    }
    if len(encode(said)) > _MOST_SAID:
        raise bad(
            f"a session may be made of {_MOST_SAID} bytes; longer words go into its first message",
            "invalid",
        )
    env = _checked(given.env or {})
    if env:
        await services.store.set_setting(_env_key(session_id), msgspec.json.encode(env).decode())
    try:
        await services.journal.create(
            caller.user.id, {"memory_enabled": services.config.memory, **said, "id": session_id}
        )
    except BaseException:
        if env:
            await services.store.set_setting(_env_key(session_id), None)
        raise
    return session_id


async def stored(services: Services, owner: str, session_id: str) -> StoredSession:
    """A session's row; 404 when there is none, or it is another's."""
    row = await services.store.session(owner, session_id)
    if row is None:
        raise missing()
    return row


async def listed(
    services: Services,
    owner: str,
    q: str | None,
    limit: int,
    offset: int,
    template: str | None = None,
) -> bytes:
    """A part of the list as JSON, put together of what is stored."""
    page = await services.store.sessions(owner, q, limit, offset, template)
    rest = {
        "total": page.total,
        "limit": limit,
        "offset": offset,
        "content_match_truncated": page.content_match_truncated,
    }
    items = b",".join(row.body for row in page.items)
    return b'{"items":[' + items + b"]," + encode(rest)[1:]


async def whole(services: Services, owner: str, session_id: str) -> dict[str, Any]:
    """A session with all that is known of it, its environment masked."""
    row = await stored(services, owner, session_id)
    session = _decode(row.body)
    known = {"solution": None, "primary_skill_snapshot": None, **session}
    beside = {
        name: value for name, value in session.items() if name not in _OURS and name != "intent"
    }
    setup = {**{name: session.get(name) for name in _SETUP}, **beside}
    env = masked(await environment(services, session_id))
    return {**known, "session_setup": setup, "viewer_role": "owner", "env": env}


async def change(services: Services, owner: str, session_id: str, **changes: Any) -> bytes:
    """Change fields of a session; gives it as it is then. What is so already is not written
    again."""
    if len(encode(changes)) > _MOST_SAID:
        raise bad(f"what a session is called may have {_MOST_SAID} bytes", "invalid")
    await services.journal.write(
        owner,
        session_id,
        lambda state: (
            [("session.changed", {"changes": changes})]
            if any(getattr(state.session, name) != value for name, value in changes.items())
            else []
        ),
    )
    return (await stored(services, owner, session_id)).body


async def delete(
    services: Services, caller: Caller, session_id: str, delete_workspace: bool
) -> None:
    """Take a session away with all that belongs to it; its files stay unless they are to go too."""
    await stored(services, caller.user.id, session_id)
    try:
        await services.chat.stop(caller, session_id)
    except Refused as problem:
        if problem.status >= 500:
            raise
    if not await services.store.delete_session(caller.user.id, session_id):
        raise missing()
    services.journal.forget(session_id)
    services.recent.forget(session_id)
    await services.tasks.forget(session_id)
    if delete_workspace:
        await asyncio.to_thread(services.workspaces.of(session_id).remove_all)


async def messages(services: Services, owner: str, session_id: str) -> bytes:
    """The turns of the current branch as JSON: as they are stored, or from the log while words
    still stream."""
    progress = await services.store.progress(owner, session_id)
    if progress is None:
        raise missing()
    last, projected = progress
    if projected < last:
        state = await services.journal.state(owner, session_id)
        return encode(state.branch())
    known = services.recent.get(session_id, last)
    if known is None:
        turns = await services.store.turns(owner, session_id)
        known = _array([turn.body for turn in turns])
        services.recent.keep(session_id, last, known)
    return known


def _array(items: list[bytes]) -> bytes:
    """JSON values as one array, copied once: a session may have hundreds of megabytes."""
    if not items:
        return b"[]"
    items[0] = b"[" + items[0]
    items[-1] += b"]"
    return b",".join(items)


async def environment(services: Services, session_id: str) -> dict[str, str]:
    """What a session's tools find in their environment."""
    held = await services.store.setting(_env_key(session_id))
    return msgspec.json.decode(held, type=dict[str, str]) if held else {}


async def set_environment(
    services: Services, owner: str, session_id: str, env: Mapping[str, str]
) -> None:
    """Keep an environment for a session's tools; a value that is the mask stays what it was."""
    await stored(services, owner, session_id)
    before = await environment(services, session_id)
    made = {name: before.get(name, "") if value == MASK else value for name, value in env.items()}
    value = msgspec.json.encode(_checked(made)).decode() if made else None
    await services.store.set_setting(_env_key(session_id), value)
    if (
        await services.store.session(owner, session_id) is None
    ):  # deleted meanwhile, when this was not yet there
        await services.store.set_setting(_env_key(session_id), None)
        raise missing()


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """An environment as it may be shown."""
    return {name: MASK if _SECRET.search(name) and value else value for name, value in env.items()}


def _checked(env: Mapping[str, str]) -> Mapping[str, str]:
    if any(not _ENV_NAME.fullmatch(name) for name in env):
        raise bad("env: a name has letters, digits and _, and begins with no digit", "invalid")
    if any("\0" in value for value in env.values()):
        raise bad("env: a value holds a NUL", "invalid")
    if sum(len(name) + len(value) for name, value in env.items()) > _MOST_ENV:
        raise bad(f"env: more than {_MOST_ENV} letters", "invalid")
    return env


def _env_key(session_id: str) -> str:
    return f"env/{session_id}"
