"""Routes of a session's skills."""

import asyncio
import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from open_token.server.core.services import Services
from open_token.server.core.skills import (
    UPLOAD_FOLDER,
    Skill,
    count_skill_calls,
    find_skills,
    install_skill,
    search_skills,
    store_skill,
)
from open_token.server.errors import bad_request, not_found
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller, get_workspace
from open_token.server.http.openapi import describe_list, describe_model
from open_token.server.http.responses import json_response, list_response
from open_token.server.store.rows import Caller

router = APIRouter(tags=["skills"])

_STORED = {
    "name": "team/greet",
    "skill_dir": ".skills/team/greet",
    "file_count": 2,
    "overwritten": False,
}
_LISTED = {
    "id": "team/greet",
    "name": "team/greet",
    "description": "Greets people.",
    "source": "session",
    "skill_dir": ".skills/team/greet",
}


_WHOLE = {**_LISTED, "content": "Say hello.", "files": ["SKILL.md"]}
_RESYNCED = {"detail": "skills are read from their folders for each run", "count": 2}


class SkillFile(BaseModel):
    """A file of a skill: text, or bytes as base64."""

    model_config = {"extra": "forbid"}
    path: Annotated[str, Field(min_length=1, max_length=1000)]
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    executable: bool = False


class SkillUpload(BaseModel):
    """A skill: its name and its files, with a SKILL.md."""

    model_config = {
        "extra": "forbid",
        "json_schema_extra": {
            "examples": [
                {
                    "name": "team/greet",
                    "files": [
                        {
                            "path": "SKILL.md",
                            "content": "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n",
                        },
                        {"path": "scripts/hello.sh", "content": "echo hello\n", "executable": True},
                    ],
                }
            ]
        },
    }
    name: Annotated[str, Field(min_length=1, max_length=129)]
    files: Annotated[list[SkillFile], Field(min_length=1, max_length=200)]


class Stored(BaseModel):
    """The stored skill."""

    name: str
    skill_dir: str
    file_count: int
    overwritten: bool


class ListedSkill(BaseModel):
    """A skill; an uploaded one has a folder in the workspace."""

    id: str
    name: str
    description: str
    source: Literal["built-in", "server", "session"]
    skill_dir: str | None


class SkillWhole(ListedSkill):
    """A skill with its instructions and the paths of its files."""

    content: str
    files: list[str]


class FoundSkills(BaseModel):
    """Skills that match a search."""

    results: list[ListedSkill]


class SkillChoice(BaseModel):
    """A skill of the server."""

    model_config = {"extra": "forbid", "json_schema_extra": {"examples": [{"skill_id": "greet"}]}}
    skill_id: Annotated[str, Field(min_length=1, max_length=129)]


class Resynced(BaseModel):
    """What was done, and how many skills the session has."""

    detail: str
    count: int


class SkillStats(BaseModel):
    """How often each skill was loaded."""

    skills: dict[str, int]
    total: int


@router.post("/api/sessions/{session_id}/skills:upload", responses=describe_model(Stored, _STORED))
async def upload_skill(
    session_id: str, body: SkillUpload, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Upload a skill to a session; an uploaded skill of the same name is replaced."""
    workspace = await get_workspace(services, caller, session_id)
    files = {file.path: (_decode_content(file), file.executable) for file in body.files}
    if len(files) != len(body.files):
        raise bad_request("duplicate path")
    is_replaced = await asyncio.to_thread(store_skill, workspace, body.name, files)
    stored: dict[str, Any] = {
        "name": body.name,
        "skill_dir": f"{UPLOAD_FOLDER}/{body.name}",
        "file_count": len(files),
        "overwritten": is_replaced,
    }
    await _publish_change(services, caller, session_id, stored)
    return json_response(stored)


@router.get(
    "/api/sessions/{session_id}/skills",
    responses=describe_list(ListedSkill, _LISTED),
)
async def list_skills(
    session_id: str,
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int | None, Query(ge=0, le=1000)] = None,
    offset: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
) -> Response:
    """List the skills of a session: built-in, of the server, and uploaded."""
    workspace = await get_workspace(services, caller, session_id)
    found = await asyncio.to_thread(find_skills, services.config, workspace)
    return list_response([_describe_skill(skill) for skill in found.values()], limit, offset)


@router.post("/api/sessions/{session_id}/skills/install", responses=describe_model(Stored, _STORED))
async def install(
    session_id: str, body: SkillChoice, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Copy a skill of the server into a session, where it may be changed."""
    workspace = await get_workspace(services, caller, session_id)
    skill = await _find_server_skill(services, body.skill_id)
    count, is_replaced = await asyncio.to_thread(install_skill, workspace, skill)
    stored = {
        "name": skill.name,
        "skill_dir": f"{UPLOAD_FOLDER}/{skill.name}",
        "file_count": count,
        "overwritten": is_replaced,
    }
    await _publish_change(services, caller, session_id, stored)
    return json_response(stored)


@router.post(
    "/api/sessions/{session_id}/skills:resync", responses=describe_model(Resynced, _RESYNCED)
)
async def resync(session_id: str, services: ServicesDep, caller: WriteCaller) -> Response:
    """Count the skills of a session; they are read from their folders for each run anyway."""
    workspace = await get_workspace(services, caller, session_id)
    found = await asyncio.to_thread(find_skills, services.config, workspace)
    detail = "skills are read from their folders for each run; nothing had to be done"
    return json_response({"detail": detail, "count": len(found)})


@router.get(
    "/api/sessions/{session_id}/skill-stats",
    responses=describe_model(SkillStats, {"skills": {"team/greet": 2}, "total": 2}),
)
async def read_stats(session_id: str, services: ServicesDep, caller: ReadCaller) -> Response:
    """Count how often each skill was loaded on the current branch of a session."""
    counts = count_skill_calls(await services.journal.state(caller.user.id, session_id))
    return json_response({"skills": counts, "total": sum(counts.values())})


@router.get("/api/skills", responses=describe_list(ListedSkill, _LISTED))
@router.get("/api/skills/installed", responses=describe_list(ListedSkill, _LISTED))
async def list_server_skills(
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int | None, Query(ge=0, le=1000)] = None,
    offset: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
) -> Response:
    """List the skills that every session has: built-in, and of the server."""
    found = await asyncio.to_thread(find_skills, services.config)
    return list_response([_describe_skill(skill) for skill in found.values()], limit, offset)


@router.get("/api/skills/search", responses=describe_model(FoundSkills, {"results": [_LISTED]}))
async def search(
    services: ServicesDep,
    caller: ReadCaller,
    q: Annotated[str, Query(min_length=1, max_length=1000)],
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
) -> Response:
    """Find skills of the server by words of their name and description, the best first."""
    found = await asyncio.to_thread(find_skills, services.config)
    results = [_describe_skill(skill) for skill in search_skills(found, q)[:limit]]
    return json_response({"results": results})


@router.get("/api/skills/{skill_id:path}", responses=describe_model(SkillWhole, _WHOLE))
async def read_skill(skill_id: str, services: ServicesDep, caller: ReadCaller) -> Response:
    """Get a skill of the server with its instructions."""
    skill = await _find_server_skill(services, skill_id)
    content = await asyncio.to_thread(skill.read)
    files = await asyncio.to_thread(skill.paths)
    return json_response({**_describe_skill(skill), "content": content, "files": files})


async def _find_server_skill(services: Services, name: str) -> Skill:
    found = await asyncio.to_thread(find_skills, services.config)
    if name not in found:
        raise not_found("skill")
    return found[name]


async def _publish_change(
    services: Services, caller: Caller, session_id: str, stored: dict[str, Any]
) -> None:
    """Notify the subscribers of a session that it has another skill."""
    payload = {"session_id": session_id, **stored}
    step = ("signal.sent", {"event": "skills:changed", "payload": payload})
    await services.journal.write(caller.user.id, session_id, lambda _: [step])


def _describe_skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.name,
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "skill_dir": skill.folder if skill.source == "session" else None,
    }


def _decode_content(file: SkillFile) -> bytes:
    try:
        if file.encoding == "base64":
            return base64.b64decode(file.content, validate=True)
        return file.content.encode()
    except (binascii.Error, ValueError):
        raise bad_request(f"file content is not valid {file.encoding}") from None
