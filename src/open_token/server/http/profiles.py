"""Routes of profiles, and of the agent of a session."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from msgspec import UNSET, Struct, UnsetType, to_builtins

from open_token.model.agent_settings import AgentSettings
from open_token.server.core import profiles
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response

router = APIRouter(tags=["profiles"])

_SETTINGS = {
    "instructions": "You answer questions about orders. Be brief.",
    "model": "demo",
    "temperature": 0.2,
    "tools": ["Read", "Grep", "mcp__orders__*"],
    "approvals": [
        {"tool": "Bash", "action": "deny", "arguments": {"command": "rm *"}},
        {"tool": "Bash", "action": "ask"},
    ],
    "budget": {"tokens": 200_000},
}
_REFERENCE = {"id": "prof_5Gt1", "name": "support"}
_PROFILE = {
    **_REFERENCE,
    "description": "Answers questions about orders",
    "settings": _SETTINGS,
    "created_at": "2026-01-31T08:00:00.000Z",
    "updated_at": None,
}


class NewProfile(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new profile."""

    name: profiles.ProfileName
    description: profiles.Description = ""
    settings: AgentSettings = AgentSettings()


class ProfileChanges(Struct, kw_only=True, forbid_unknown_fields=True):
    """Changed fields of a profile; in `settings`, null resets a setting."""

    name: profiles.ProfileName | UnsetType = UNSET
    description: profiles.Description | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET


class ProfileList(Struct):
    """A page of the profiles of a user, oldest first."""

    items: list[profiles.Profile]
    total: int
    limit: int
    offset: int


class AgentChanges(Struct, kw_only=True, forbid_unknown_fields=True):
    """A profile to start from, and changed settings; null resets a setting."""

    profile: str | None = None
    settings: dict[str, Any] = {}


class SessionAgent(Struct):
    """The agent of a session."""

    profile: dict[str, str] | None
    settings: AgentSettings


class ProfileDeleted(Struct):
    """The profile was deleted."""

    deleted: bool


@router.post(
    "/api/profiles",
    status_code=201,
    responses=describe_response(profiles.Profile, _PROFILE, "The new profile", status=201),
    openapi_extra=describe_body(NewProfile, {"name": "support", "settings": _SETTINGS}),
)
async def create(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(NewProfile)]
) -> Response:
    """Create a profile: a named agent with instructions, model, tools, approvals and limits."""
    profile = await profiles.create_profile(
        services, caller.user.id, given.name, given.description, given.settings
    )
    return json_response(profile, 201)


@router.get(
    "/api/profiles",
    responses=describe_response(
        ProfileList, {"items": [_PROFILE], "total": 1, "limit": 20, "offset": 0}
    ),
)
async def listing(
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """List the profiles of the user, oldest first."""
    found = await profiles.list_profiles(services, caller.user.id)
    page = {"items": found[offset : offset + limit], "total": len(found)}
    return json_response({**page, "limit": limit, "offset": offset})


@router.get("/api/profiles/{profile_id}", responses=describe_response(profiles.Profile, _PROFILE))
async def one(services: ServicesDep, caller: ReadCaller, profile_id: str) -> Response:
    """Get a profile by its id or its name."""
    return json_response(await profiles.get_profile(services, caller.user.id, profile_id))


@router.patch(
    "/api/profiles/{profile_id}",
    responses=describe_response(profiles.Profile, _PROFILE),
    openapi_extra=describe_body(ProfileChanges, {"settings": {"temperature": None}}),
)
async def change(
    services: ServicesDep,
    caller: WriteCaller,
    profile_id: str,
    given: Annotated[Any, json_body(ProfileChanges)],
) -> Response:
    """Change a profile; sessions keep the settings that they were created with."""
    changes = to_builtins(given)
    return json_response(
        await profiles.change_profile(services, caller.user.id, profile_id, changes)
    )


@router.delete(
    "/api/profiles/{profile_id}", responses=describe_response(ProfileDeleted, {"deleted": True})
)
async def delete(services: ServicesDep, caller: WriteCaller, profile_id: str) -> Response:
    """Delete a profile; sessions keep the settings that they were created with."""
    await profiles.delete_profile(services, caller.user.id, profile_id)
    return json_response({"deleted": True})


@router.get(
    "/api/sessions/{session_id}/agent",
    responses=describe_response(SessionAgent, {"profile": _REFERENCE, "settings": _SETTINGS}),
)
async def session_agent(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """Get the profile and the settings of a session."""
    return json_response(await profiles.get_agent(services, caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}/agent",
    responses=describe_response(SessionAgent, {"profile": _REFERENCE, "settings": _SETTINGS}),
    openapi_extra=describe_body(AgentChanges, {"settings": {"effort": "low"}}),
)
async def change_session_agent(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(AgentChanges)],
) -> Response:
    """Change the settings of a session from its next message on; a profile replaces them all."""
    agent = await profiles.change_agent(
        services, caller.user.id, session_id, given.profile, given.settings
    )
    return json_response(agent)
