"""Routes that play a recorded session again."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer

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
    """How fast the recorded session is played."""

    model_config = ConfigDict(json_schema_extra={"example": {"speed": 2}})
    speed: Literal[1, 2, 5] = 1


class ReplayChange(BaseModel):
    """What is to be different; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"example": {"speed": 5, "status": "autonomous"}})
    speed: Literal[1, 2, 5] | None = None
    status: Literal["autonomous", "playing", "paused"] | None = Field(
        None, description="autonomous: wait for nobody; null: as it was recorded"
    )


@router.post(
    "/api/sessions/{session_id}/replay",
    responses=_example("the new session", {"session_id": "sess_2"}),
)
async def begin(
    session_id: str,
    services: Serving,
    caller: Writer,
    body: Annotated[NewReplay | None, Body()] = None,
) -> Response:
    """A new session that plays this one as it was recorded; no tool runs."""
    return answer(
        {
            "session_id": await services.replays.begin(
                caller.user.id, session_id, (body or NewReplay()).speed
            )
        }
    )


@router.get(
    "/api/sessions/{session_id}/replay/preview",
    responses=_example(
        "whether it can be played",
        {
            "session_id": "sess_1",
            "intent": "Fix the build",
            "supported": False,
            "reason": "nothing was said in this session",
        },
    ),
)
async def preview(session_id: str, services: Serving, caller: Reader) -> Response:
    """Whether this session can be played, and why not."""
    return answer(await services.replays.preview(caller.user.id, session_id))


@router.patch(
    "/api/sessions/{session_id}/replay",
    responses=_example("how it stands", {"replay_state": _STATE}),
)
async def steer(session_id: str, body: ReplayChange, services: Serving, caller: Writer) -> Response:
    """Change the speed of a replay, pause it, go on, let it run by itself."""
    changes = {name: getattr(body, name) for name in body.model_fields_set}
    return answer(
        {"replay_state": await services.replays.steer(caller.user.id, session_id, changes)}
    )
