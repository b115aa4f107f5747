"""Routes of a session's skills."""

import asyncio
import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from open_token.server.core.skills import UPLOAD_FOLDER, find_skills, store_skill
from open_token.server.errors import bad_request
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller, get_workspace
from open_token.server.http.openapi import describe_model
from open_token.server.http.responses import json_response

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["skills"])

_STORED = {
    "name": "team/greet",
    "skill_dir": ".skills/team/greet",
    "file_count": 2,
    "overwritten": False,
}
_LISTED = {
    "name": "team/greet",
    "description": "Greets people.",
    "source": "session",
    "skill_dir": ".skills/team/greet",
}


class SkillFile(BaseModel):
    """A file of a skill: text, or bytes as base64."""

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    executable: bool = False


class SkillUpload(BaseModel):
    """A skill: its name and its files, with a SKILL.md."""

    model_config = {
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
        }
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

    name: str
    description: str
    source: Literal["built-in", "server", "session"]
    skill_dir: str | None


class SkillList(BaseModel):
    """A page of the skills of a session."""

    items: list[ListedSkill]
    total: int
    limit: int
    offset: int


@router.post("/skills:upload", responses=describe_model(Stored, _STORED))
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
    payload = {"session_id": session_id, **stored}
    step = ("signal.sent", {"event": "skills:changed", "payload": payload})
    await services.journal.write(caller.user.id, session_id, lambda _: [step])
    return json_response(stored)


@router.get(
    "/skills",
    responses=describe_model(SkillList, {"items": [_LISTED], "total": 1, "limit": 20, "offset": 0}),
)
async def list_skills(
    session_id: str,
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """List the skills of a session: built-in, of the server, and uploaded."""
    workspace = await get_workspace(services, caller, session_id)
    found = await asyncio.to_thread(find_skills, services.config, workspace)
    items = [
        {
            "name": skill.name,
            "description": skill.description,
            "source": skill.source,
            "skill_dir": skill.folder if skill.source == "session" else None,
        }
        for skill in found.values()
    ]
    page = items[offset : offset + limit]
    return json_response({"items": page, "total": len(items), "limit": limit, "offset": offset})


def _decode_content(file: SkillFile) -> bytes:
    try:
        if file.encoding == "base64":
            return base64.b64decode(file.content, validate=True)
        return file.content.encode()
    except (binascii.Error, ValueError):
        raise bad_request(f"file content is not valid {file.encoding}") from None
