"""Sessions as clients create, list, update and delete them, with their tool environment."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from open_token.model.agent_settings import AgentSettings, dump_settings
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import encode
from open_token.server.core import client_data, profiles
from open_token.server.core.environments import MASK, mask_environment, validate_environment
from open_token.server.core.journal import StepBuilder
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, not_found
from open_token.server.store.rows import Caller, StoredSession
from open_token.session import SessionState

_MAX_FIELDS_BYTES = 256 << 10
"""The fields of a new session; they are part of every listing that contains it."""
_SERVER_FIELDS = frozenset(
    {
        "id",
        "user_id",
        "status",
        "created_at",
        "updated_at",
        "shared",
        "is_pinned",
        "replay_state",
        "env",
        "viewer_role",
        "session_setup",
        "primary_skill_snapshot",
        "stream_sequence",
    }
)
"""Fields that a client cannot set on a new session: the server knows them, or they are not kept
in the log."""
_SETUP_FIELDS = ("model", "memory_enabled", "is_persistent", "solution_id", "biz_role_id")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class NewSession(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a new session; those that are null are taken as missing."""

    intent: Annotated[str, Meta(max_length=10_000)] = ""
    profile: str | None = None
    """Id or name of the profile whose settings the session gets."""
    settings: AgentSettings | None = None
    """Settings of the agent; they override those of the profile."""
    instructions: str | None = None
    system_prompt: str | None = None
    enable_thinking: bool | None = None
    compaction_ratio: float | None = None
    """Names of clients for some of the settings."""
    metadata: dict[str, Any] | None = None
    """Data of the application; returned with the session."""
    model: str | None = None
    memory_enabled: bool | None = None
    is_persistent: bool | None = None
    env: dict[str, str] | None = None
    env_bucket: str | None = None
    """A named environment of the user, to which `env` is added."""
    disable_tools: Any = None
    solution_id: str | None = None
    biz_role_id: str | None = None
    template_id: str | None = None
    """What the application filters the list by."""
    primary_skill_id: str | None = None
    """The skill that the agent follows in this session: its name."""
    chat_group_id: str | None = None
    workspace_id: None = None
    runtime_type: None = None
    solution_ref: None = None
    session_solution_asset_id: None = None
    """Clients send these as null; values would have no effect here and are refused."""


_AGENT_FIELDS = (
    "profile",
    "settings",
    "instructions",
    "system_prompt",
    "enable_thinking",
    "compaction_ratio",
)


async def create_session(services: Services, caller: Caller, given: NewSession) -> str:
    """Create a session and return its id."""
    await services.storage.require_space(caller.user.id)
    session_id = services.clock.name("sess")
    agent = await _build_agent(services, caller.user.id, given)
    fields = {
        name: value
        for name, value in msgspec.to_builtins(given).items()
        if value is not None and name not in (*_AGENT_FIELDS, "env", "env_bucket")
    }
    if agent is not None and "model" in agent["settings"]:
        fields.setdefault("model", agent["settings"]["model"])
    if len(encode(fields)) > _MAX_FIELDS_BYTES:
        raise bad_request(f"session fields exceed {_MAX_FIELDS_BYTES} bytes", "invalid")
    # The environment may contain secrets, so it is a setting and not part of the log.
    named: dict[str, str] = {}
    if given.env_bucket is not None:
        named = await client_data.load_bucket(services, caller.user.id, given.env_bucket)
    env = validate_environment({**named, **(given.env or {})})
    if env:
        await services.store.set_setting(_env_key(session_id), msgspec.json.encode(env).decode())
    session = {"memory_enabled": services.config.memory, **fields, "id": session_id}
    try:
        await services.journal.create(caller.user.id, session, _with_agent(agent))
    except BaseException:
        if env:
            await services.store.set_setting(_env_key(session_id), None)
        raise
    return session_id


async def _build_agent(services: Services, owner: str, given: NewSession) -> Json | None:
    """Return the agent of a new session, also from the names that clients use for settings."""
    settings = dump_settings(given.settings) if given.settings is not None else {}
    shortcuts = {
        "instructions": given.instructions or given.system_prompt,
        "thinking": given.enable_thinking,
        "compaction_ratio": given.compaction_ratio,
    }
    for name, value in shortcuts.items():
        if value is not None:
            settings.setdefault(name, value)
    return await profiles.build_agent(services, owner, given.profile, settings)


def _with_agent(agent: Json | None) -> StepBuilder | None:
    if agent is None:
        return None
    return lambda _: [("agent.changed", agent)]


async def get_row(services: Services, owner: str, session_id: str) -> StoredSession:
    """Return the row of a session; raises a 404 when the owner has no such session."""
    row = await services.store.session(owner, session_id)
    if row is None:
        raise not_found()
    return row


async def list_sessions(
    services: Services,
    owner: str,
    q: str | None,
    limit: int,
    offset: int,
    template: str | None = None,
) -> bytes:
    """Return a page of sessions as JSON, joined from the stored JSON of each row."""
    page = await services.store.sessions(owner, q, limit, offset, template)
    rest = {
        "total": page.total,
        "limit": limit,
        "offset": offset,
        "content_match_truncated": page.content_match_truncated,
    }
    items = b",".join(row.body for row in page.items)
    return b'{"items":[' + items + b"]," + encode(rest)[1:]


async def get_details(services: Services, owner: str, session_id: str) -> dict[str, Any]:
    """Return a session with its setup and its masked environment."""
    row = await get_row(services, owner, session_id)
    session = _decode(row.body)
    setup = {name: session.get(name) for name in _SETUP_FIELDS}
    for name, value in session.items():
        if name not in _SERVER_FIELDS and name != "intent":
            setup[name] = value
    env = mask_environment(await get_environment(services, session_id))
    setup |= await profiles.get_agent(services, owner, session_id)
    return {
        "solution": None,
        "primary_skill_snapshot": None,
        **session,
        "session_setup": setup,
        "viewer_role": "owner",
        "env": env,
    }


async def update_session(services: Services, owner: str, session_id: str, **changes: Any) -> bytes:
    """Change fields of a session and return it as JSON; without a change nothing is logged."""
    if len(encode(changes)) > _MAX_FIELDS_BYTES:
        raise bad_request(f"session fields exceed {_MAX_FIELDS_BYTES} bytes", "invalid")

    def build_change(state: SessionState) -> list[NewEvent]:
        is_changed = any(getattr(state.session, name) != value for name, value in changes.items())
        if is_changed:
            return [("session.changed", {"changes": changes})]
        return []

    await services.journal.write(owner, session_id, build_change)
    return (await get_row(services, owner, session_id)).body


async def delete_session(
    services: Services, caller: Caller, session_id: str, delete_workspace: bool
) -> None:
    """Delete a session and everything that belongs to it; its files only on request."""
    await get_row(services, caller.user.id, session_id)
    try:
        await services.chat.stop(caller, session_id)
    except ApiError as problem:
        if problem.status >= 500:
            raise
    if not await services.store.delete_session(caller.user.id, session_id):
        raise not_found()
    services.journal.evict(session_id)
    await client_data.forget_session(services, caller.user.id, session_id)
    services.message_cache.forget(session_id)
    await services.tasks.remove_session(session_id)
    if delete_workspace:
        await asyncio.to_thread(services.workspaces.remove, session_id)
    else:
        await asyncio.to_thread(services.workspaces.release, session_id)


async def list_messages(services: Services, owner: str, session_id: str) -> bytes:
    """Return the turns of the current branch as JSON.

    They come from the stored projection, or from the log while text is being streamed."""
    progress = await services.store.progress(owner, session_id)
    if progress is None:
        raise not_found()
    last, projected = progress
    if projected < last:
        state = await services.journal.state(owner, session_id)
        return encode(state.branch())
    cached = services.message_cache.get(session_id, last)
    if cached is not None:
        return cached
    turns = await services.store.turns(owner, session_id)
    messages = _join_json_array([turn.body for turn in turns])
    services.message_cache.put(session_id, last, messages)
    return messages


def _join_json_array(items: list[bytes]) -> bytes:
    """Join JSON values with a single copy: a session may have hundreds of megabytes."""
    if not items:
        return b"[]"
    items[0] = b"[" + items[0]
    items[-1] += b"]"
    return b",".join(items)


async def get_environment(services: Services, session_id: str) -> dict[str, str]:
    """Return the environment of a session's tools."""
    setting = await services.store.setting(_env_key(session_id))
    if setting:
        return msgspec.json.decode(setting, type=dict[str, str])
    return {}


async def set_environment(
    services: Services, owner: str, session_id: str, env: Mapping[str, str]
) -> None:
    """Store the environment of a session's tools; a masked value keeps the previous one."""
    await get_row(services, owner, session_id)
    previous = await get_environment(services, session_id)
    merged = {}
    for name, value in env.items():
        merged[name] = previous.get(name, "") if value == MASK else value
    if merged:
        encoded = msgspec.json.encode(validate_environment(merged)).decode()
    else:
        encoded = None
    await services.store.set_setting(_env_key(session_id), encoded)
    # The session may have been deleted before the setting was written.
    if await services.store.session(owner, session_id) is None:
        await services.store.set_setting(_env_key(session_id), None)
        raise not_found()


def _env_key(session_id: str) -> str:
    return f"env/{session_id}"
