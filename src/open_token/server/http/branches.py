"""Routes of a session's tree: history, checkpoints, branches, compaction, context statistics."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.agent_settings import parse_settings
from open_token.model.log_events import NewEvent
from open_token.model.session_types import Checkpoint, ContextStats, HistoryNode, TurnProjection
from open_token.server.agent.context_usage import build_context_stats
from open_token.server.agent.runner import list_run_tools
from open_token.server.core.services import Services
from open_token.server.errors import conflict, not_found
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response
from open_token.session import SessionState, branches

router = APIRouter(tags=["branches"])

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_CHECKPOINT = {"checkpoint_id": "cp_4Hn8"}
_COMPACTED = {
    "status": "ok",
    "message": "conversation compacted",
    "code": "compacted",
    "id": "entry_9",
    "turn_id": "turn_9",
    "compaction_id": "compaction_1",
    "summary_preview": "The build was fixed.",
    "summary_full": "The build was fixed.",
    "archived_count": 8,
    "tokens_before": 5200,
    "tokens_after": 410,
    "saved_ratio": 0.9212,
    "trigger": "manual",
}
_STATS = {
    "model": "demo",
    "context_window": 128000,
    "used_tokens": 412,
    "parts": {"system": 100, "tools": 200, "memory": 12, "history": 100, "pending": 0},
    "estimated": True,
}


class History(Struct):
    """The tree of all turns, including abandoned branches, and the size of the fixed prompt."""

    nodes: list[HistoryNode]
    system_prompt_tokens: int
    tools_tokens: int
    tokenizer_model: str | None


class Checkpoints(Struct):
    """The checkpoints, and the last one of the current branch."""

    nodes: list[Checkpoint]
    leaf_id: str | None


class Place(Struct, forbid_unknown_fields=True):
    """A checkpoint of the session."""

    checkpoint_id: Name


class PlaceInTime(Struct, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint, and whether the turn after it is included."""

    checkpoint_id: Name
    position: Literal["before", "turn_end"] = "before"


class Head(Struct, kw_only=True):
    """The last entry of the current branch (null: the beginning), and its checkpoint."""

    session_id: str
    checkpoint_id: str
    head: str | None
    turn_id: str | None
    leaf_id: str | None


class AtThatTime(Struct, kw_only=True):
    """The turns at a checkpoint."""

    session_id: str
    checkpoint_id: str
    position: str
    turns: list[TurnProjection]


class Compaction(Struct, kw_only=True):
    """The result of a compaction: its turn as `entry`, whose fields are repeated here."""

    status: str
    message: str | None = None
    code: str | None = None
    id: str | None = None
    turn_id: str | None = None
    compaction_id: str | None = None
    summary_preview: str | None = None
    summary_full: str | None = None
    archived_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    saved_ratio: float | None = None
    trigger: str | None = None
    entry: TurnProjection | None = None


@router.get(
    "/api/sessions/{session_id}/history",
    responses=describe_response(
        History,
        {
            "nodes": [],
            "system_prompt_tokens": 100,
            "tools_tokens": 200,
            "tokenizer_model": "estimate",
        },
    ),
)
async def history(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """Get the tree of all turns."""
    state = await services.journal.state(caller.user.id, session_id)
    stats = await _load_stats(services, caller.user.id, state)
    tree = History(
        nodes=branches.build_history(state),
        system_prompt_tokens=stats.parts.get("system", 0),
        tools_tokens=stats.parts.get("tools", 0),
        tokenizer_model="estimate" if stats.estimated else stats.model,
    )
    return json_response({name: getattr(tree, name) for name in History.__struct_fields__})


@router.get(
    "/api/sessions/{session_id}/checkpoints",
    responses=describe_response(
        Checkpoints,
        {
            "nodes": [
                {
                    "checkpoint_id": "cp_4Hn8",
                    "turn_id": "turn_2Lk5",
                    "parent_id": None,
                    "label": None,
                    "created_at": "2026-01-31T08:00:01.000Z",
                    "is_leaf": True,
                }
            ],
            "leaf_id": "cp_4Hn8",
        },
    ),
)
async def checkpoints(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """List the checkpoints: one before every turn of the user."""
    state = await services.journal.state(caller.user.id, session_id)
    nodes, leaf_id = branches.list_checkpoints(state)
    return json_response({"nodes": nodes, "leaf_id": leaf_id})


_HEAD = {
    "session_id": "sess_7Fq2",
    "checkpoint_id": "cp_4Hn8",
    "head": None,
    "turn_id": None,
    "leaf_id": None,
}


@router.post(
    "/api/sessions/{session_id}/rewind",
    responses=describe_response(Head, _HEAD),
    openapi_extra=describe_body(Place, _CHECKPOINT),
)
async def rewind(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Place)],
) -> Response:
    """Go back to the point before a turn of the user; nothing is deleted."""
    return await _move_head(
        services, caller.user.id, session_id, given.checkpoint_id, branches.rewind
    )


@router.post(
    "/api/sessions/{session_id}/switch-branch",
    responses=describe_response(Head, _HEAD),
    openapi_extra=describe_body(Place, _CHECKPOINT),
)
async def switch(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(Place)],
) -> Response:
    """Switch to the newest leaf of the branch with a checkpoint; nothing is deleted."""
    return await _move_head(
        services, caller.user.id, session_id, given.checkpoint_id, branches.switch_branch
    )


@router.post(
    "/api/sessions/{session_id}/checkout",
    responses=describe_response(
        AtThatTime,
        {"session_id": "sess_7Fq2", "checkpoint_id": "cp_4Hn8", "position": "before", "turns": []},
    ),
    openapi_extra=describe_body(PlaceInTime, _CHECKPOINT | {"position": "turn_end"}),
)
async def checkout(
    services: ServicesDep,
    caller: ReadCaller,
    session_id: str,
    given: Annotated[Any, json_body(PlaceInTime)],
) -> Response:
    """Get the turns at a checkpoint; nothing changes."""
    state = await services.journal.state(caller.user.id, session_id)
    _require_checkpoint(state, given.checkpoint_id)
    turns = branches.checkout_turns(state, given.checkpoint_id, given.position)
    return json_response(
        {
            "session_id": session_id,
            "checkpoint_id": given.checkpoint_id,
            "position": given.position,
            "turns": turns,
        }
    )


@router.post(
    "/api/sessions/{session_id}/compact",
    responses=describe_response(Compaction, _COMPACTED),
)
async def compact(services: ServicesDep, caller: WriteCaller, session_id: str) -> Response:
    """Summarize the conversation for the model; history and export stay complete."""
    return json_response(await services.chat.compact(caller, session_id))


@router.get(
    "/api/sessions/{session_id}/context-stats", responses=describe_response(ContextStats, _STATS)
)
async def stats(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """Get the tokens in the context window, by part."""
    state = await services.journal.state(caller.user.id, session_id)
    return json_response(await _load_stats(services, caller.user.id, state))


async def _load_stats(services: Services, owner: str, state: SessionState) -> ContextStats:
    settings = parse_settings(state.agent.settings)
    tools = await list_run_tools(services, owner, state, settings, starts=False)
    return build_context_stats(services, state, tools.values())


async def _move_head(
    services: Services, owner: str, session_id: str, checkpoint_id: str, step: Any
) -> Response:
    def build_steps(state: SessionState) -> list[NewEvent]:
        _require_checkpoint(state, checkpoint_id)
        if state.run is not None:
            raise conflict("a run is in progress; stop it first", "running")
        return [step(state, checkpoint_id)]

    await services.journal.write(owner, session_id, build_steps)
    state = await services.journal.state(owner, session_id)
    last_turn_id = state.path[-1].facts.turn_id if state.path else None
    _, leaf_id = branches.list_checkpoints(state)
    return json_response(
        Head(
            session_id=session_id,
            checkpoint_id=checkpoint_id,
            head=state.head,
            turn_id=last_turn_id,
            leaf_id=leaf_id,
        )
    )


def _require_checkpoint(state: SessionState, checkpoint_id: str) -> None:
    if checkpoint_id not in state.checkpoints:
        raise not_found("checkpoint")
