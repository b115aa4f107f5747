"""Profiles: named settings of agents, from which sessions are created."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from open_token.model.agent_settings import (
    AgentSettings,
    dump_settings,
    merge_settings,
    parse_settings,
)
from open_token.model.log_events import Json, NewEvent
from open_token.server.agent.models import build_registry
from open_token.server.core.services import Services
from open_token.server.core.user_documents import change_document, load_document
from open_token.server.errors import ApiError, bad_request, conflict, not_found
from open_token.session import SessionState

MAX_PROFILES = 200
_KIND = "profiles"
_LOOP_TOOLS = ("Agent", "AskUserQuestion")

ProfileName = Annotated[str, Meta(min_length=1, max_length=100)]
Description = Annotated[str, Meta(max_length=1000)]


class Profile(Struct, kw_only=True):
    """A named agent: its settings are copied into each session that is created with it."""

    id: str
    name: str
    description: str = ""
    settings: AgentSettings = AgentSettings()
    created_at: str = ""
    updated_at: str | None = None


async def list_profiles(services: Services, owner: str) -> list[Profile]:
    """Return the profiles of a user, oldest first."""
    document = await load_document(services, owner, _KIND)
    return [msgspec.convert(value, Profile) for value in document.values()]


async def get_profile(services: Services, owner: str, name: str) -> Profile:
    """Return a profile by its id or its name."""
    for profile in await list_profiles(services, owner):
        if name in (profile.id, profile.name):
            return profile
    raise not_found("profile")


async def create_profile(
    services: Services, owner: str, name: str, description: str, settings: AgentSettings
) -> Profile:
    """Create a profile; names are unique."""
    check_settings(services, settings)
    profile = Profile(
        id=services.clock.name("prof"),
        name=name,
        description=description,
        settings=settings,
        created_at=services.clock.now(),
    )

    def add(document: Json) -> None:
        if len(document) >= MAX_PROFILES:
            raise conflict(f"there are {MAX_PROFILES} profiles already", "too_many")
        _check_name(document, profile)
        document[profile.id] = msgspec.to_builtins(profile)

    await change_document(services, owner, _KIND, add)
    return profile


async def change_profile(services: Services, owner: str, profile_id: str, changes: Json) -> Profile:
    """Change fields of a profile; in `settings`, null resets a setting."""

    def change(document: Json) -> Profile:
        if profile_id not in document:
            raise not_found("profile")
        profile = msgspec.convert(document[profile_id], Profile)
        profile.name = changes.get("name", profile.name)
        profile.description = changes.get("description", profile.description)
        profile.settings = change_settings(
            services, dump_settings(profile.settings), changes.get("settings", {})
        )
        profile.updated_at = services.clock.now()
        _check_name(document, profile)
        document[profile_id] = msgspec.to_builtins(profile)
        return profile

    return await change_document(services, owner, _KIND, change)


async def delete_profile(services: Services, owner: str, profile_id: str) -> None:
    """Delete a profile; sessions keep the settings that they were created with."""

    def delete(document: Json) -> None:
        if document.pop(profile_id, None) is None:
            raise not_found("profile")

    await change_document(services, owner, _KIND, delete)


async def build_agent(
    services: Services, owner: str, profile_name: str | None, settings: Json
) -> Json | None:
    """Return the agent of a new session: a profile with changed settings; None without either."""
    if profile_name is None and not settings:
        return None
    base: Json = {}
    reference = None
    if profile_name is not None:
        profile = await get_profile(services, owner, profile_name)
        base = dump_settings(profile.settings)
        reference = {"id": profile.id, "name": profile.name}
    merged = change_settings(services, base, settings)
    return {"profile": reference, "settings": dump_settings(merged)}


async def change_agent(
    services: Services, owner: str, session_id: str, profile_name: str | None, changes: Json
) -> Json:
    """Change the settings of a session, from the next message on; return its agent.

    A profile replaces all settings, before they are changed.
    """
    applied: Json | None = None
    if profile_name is not None:
        applied = await build_agent(services, owner, profile_name, {})

    def build_change(state: SessionState) -> list[NewEvent]:
        current = applied or {"profile": state.agent.profile, "settings": state.agent.settings}
        settings = change_settings(services, current["settings"], changes)
        agent = {"profile": current["profile"], "settings": dump_settings(settings)}
        if agent == {"profile": state.agent.profile, "settings": state.agent.settings}:
            return []
        events: list[NewEvent] = [("agent.changed", agent)]
        if settings.model and settings.model != state.session.model:
            events.append(("session.changed", {"changes": {"model": settings.model}}))
        return events

    await services.journal.write(owner, session_id, build_change)
    return await get_agent(services, owner, session_id)


async def get_agent(services: Services, owner: str, session_id: str) -> Json:
    """Return the profile and the settings of a session."""
    state = await services.journal.state(owner, session_id)
    return {"profile": state.agent.profile, "settings": state.agent.settings}


def change_settings(services: Services, base: Json, changes: Json) -> AgentSettings:
    """Return changed settings; errors name the setting that is wrong, never its value."""
    try:
        settings = parse_settings(merge_settings(base, changes))
    except msgspec.ValidationError as fault:
        raise _describe(fault) from None
    check_settings(services, settings)
    return settings


def check_settings(services: Services, settings: AgentSettings) -> None:
    """Raise when settings name a model that is not available, or tools that clash."""
    if settings.model is not None:
        build_registry(services.config, services.env).check(settings.model)
    names: set[str] = set()
    for tool in settings.client_tools or ():
        if tool.name in names or tool.name in _LOOP_TOOLS:
            raise bad_request(f"client_tools: the name {tool.name} is taken", "invalid")
        if tool.parameters.get("type") != "object":
            raise bad_request(
                f"client_tools: the parameters of {tool.name} must be a JSON Schema of type object",
                "invalid",
            )
        names.add(tool.name)


def _check_name(document: Json, profile: Profile) -> None:
    for profile_id, value in document.items():
        if value["name"] == profile.name and profile_id != profile.id:
            raise conflict("there is a profile with this name already", "name_taken")


def _describe(fault: msgspec.ValidationError) -> ApiError:
    what, _, path = str(fault).partition(" - at ")
    if "Invalid enum value" in what:
        what = "not one of the allowed values"
    path = path.strip("`").replace("$", "settings", 1) or "settings"
    return bad_request(f"{path}: {what}", "invalid")
