"""Routes of a session's skills: which there are, and new ones uploaded."""

import asyncio
import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from open_token.server.http._owned import workspace_of
from open_token.server.http._shown import shown
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.refusals import bad
from open_token.server.skills import UPLOADED, skills_of, store_skill

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
    """One file of a skill: text, or bytes as base64."""

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    executable: bool = False


class SkillUpload(BaseModel):
    """A skill: its name and files, one of which is SKILL.md."""

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
    """Where the skill is now."""

    name: str
    skill_dir: str
    file_count: int
    overwritten: bool


class ListedSkill(BaseModel):
    """A skill; one of the session's own has a folder in the workspace."""

    name: str
    description: str
    source: Literal["built-in", "server", "session"]
    skill_dir: str | None


class SkillList(BaseModel):
    """A part of the skills of a session."""

    items: list[ListedSkill]
    total: int
    limit: int
    offset: int


@router.post("/skills:upload", responses=shown(Stored, _STORED))
async def upload_skill(
    session_id: str, body: SkillUpload, services: Serving, caller: Writer
) -> Response:
    """Give a session a skill; one of that name that it has is replaced as a whole."""
    workspace = await workspace_of(services, caller, session_id)
    files = {file.path: (_bytes_of(file), file.executable) for file in body.files}
    if len(files) != len(body.files):
        raise bad("a path stands there twice")
    is_replaced = await asyncio.to_thread(store_skill, workspace, body.name, files)
    stored: dict[str, Any] = {
        "name": body.name,
        "skill_dir": f"{UPLOADED}/{body.name}",
        "file_count": len(files),
        "overwritten": is_replaced,
    }
    step = (
        "signal.sent",
        {"event": "skills:changed", "payload": {"session_id": session_id, **stored}},
    )
    await services.journal.write(caller.user.id, session_id, lambda _: [step])
    return answer(stored)


@router.get(
    "/skills",
    responses=shown(SkillList, {"items": [_LISTED], "total": 1, "limit": 20, "offset": 0}),
)
async def list_skills(
    session_id: str,
    services: Serving,
    caller: Reader,
    limit: Annotated[int, Query(ge=0, le=1000)] = 20,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
) -> Response:
    """The skills that the agent of a session can load: ours, the server's, its own."""
    workspace = await workspace_of(services, caller, session_id)
    found = await asyncio.to_thread(skills_of, services.config, workspace)
    items = [
        {
            "name": skill.name,
            "description": skill.description,
            "source": skill.source,
            "skill_dir": skill.folder if skill.source == "session" else None,
        }
        for skill in found.values()
    ]
    part = items[offset : offset + limit]
    return answer({"items": part, "total": len(items), "limit": limit, "offset": offset})


def _bytes_of(file: SkillFile) -> bytes:
    try:
        return (
            base64.b64decode(file.content, validate=True)
            if file.encoding == "base64"
            else file.content.encode()
        )
    except (binascii.Error, ValueError):
        raise bad(f"the content of a file is not {file.encoding}") from None
