"""Routes of replays."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.responses import json_response

router = APIRouter(tags=["replay"])

_STATE = {
    "source_session_id": "sess_1",
    "speed": 2,
    "status": "playing",
    "position": 12,
    "total": 80,
}


def _example(description: str, value: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": description, "content": {"application/json": {"example": value}}}}


class NewReplay(BaseModel):
    """The speed of a new replay."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"speed": 2}})
    speed: Literal[1, 2, 5] = 1


class ReplayChange(BaseModel):
    """Changes of a replay; absent fields stay as they are."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"speed": 5, "status": "autonomous"}}
    )
    speed: Literal[1, 2, 5] | None = None
    status: Literal["autonomous", "playing", "paused"] | None = Field(
        None, description="autonomous: do not wait for the user; null: playing"
    )


@router.post(
    "/api/sessions/{session_id}/replay",
    responses=_example("the new session", {"session_id": "sess_2"}),
)
async def begin(
    session_id: str,
    services: ServicesDep,
    caller: WriteCaller,
    body: Annotated[NewReplay | None, Body()] = None,
) -> Response:
    """Start a session that replays this one as it was recorded; no tool is executed."""
    speed = (body or NewReplay()).speed
    replay_id = await services.replays.begin(caller.user.id, session_id, speed)
    return json_response({"session_id": replay_id})


@router.get(
    "/api/sessions/{session_id}/replay/preview",
    responses=_example(
        "whether it can be replayed",
        {
            "session_id": "sess_1",
            "intent": "Fix the build",
            "supported": False,
            "reason": "this session is empty",
        },
    ),
)
async def preview(session_id: str, services: ServicesDep, caller: ReadCaller) -> Response:
    """Check whether this session can be replayed, and if not, why."""
    return json_response(await services.replays.preview(caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}/replay",
    responses=_example("the state of the replay", {"replay_state": _STATE}),
)
async def steer(
    session_id: str, body: ReplayChange, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Change the speed of a replay, pause or resume it, or let it run on its own."""
    changes = {name: getattr(body, name) for name in body.model_fields_set}
    replay_state = await services.replays.steer(caller.user.id, session_id, changes)
    return json_response({"replay_state": replay_state})
