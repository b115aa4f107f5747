"""Routes of a session's tree: history, checkpoints, going back and across, compaction, what fills
the window."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.model.log_events import NewEvent
from open_token.model.session_types import Checkpoint, ContextStats, HistoryNode, TurnProjection
from open_token.server.agent.context_usage import build_context_stats
from open_token.server.agent.runner import list_run_tools
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.http.openapi import gives, sent, takes
from open_token.server.refusals import busy, missing
from open_token.server.services import Services
from open_token.session import SessionState, branches

router = APIRouter(tags=["branches"])

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_PLACE = {"checkpoint_id": "cp_4Hn8"}
_COMPACTED = {
    "status": "ok",
    "message": "the conversation was compacted",
    "code": "compacted",
    "id": "entry_9",
    "turn_id": "turn_9",
    "compaction_id": "compaction_1",
    "summary_preview": "The build was mended.",
    "summary_full": "The build was mended.",
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
    """The whole tree of turns, abandoned branches too, and what stands before every call of the
    model."""

    nodes: list[HistoryNode]
    system_prompt_tokens: int
    tools_tokens: int
    tokenizer_model: str | None


class Checkpoints(Struct):
    """The places to go back to, and the last of them on the current branch."""

    nodes: list[Checkpoint]
    leaf_id: str | None


class Place(Struct):
    """A checkpoint."""

    checkpoint_id: Name


class PlaceInTime(Struct, kw_only=True):
    """A checkpoint, and whether the turn behind it counts."""

    checkpoint_id: Name
    position: Literal["before", "turn_end"] = "before"


class Head(Struct, kw_only=True):
    """Where the session goes on: the last entry of the current branch (null: the beginning) and its
    checkpoint."""

    session_id: str
    checkpoint_id: str
    head: str | None
    turn_id: str | None
    leaf_id: str | None


class AtThatTime(Struct, kw_only=True):
    """The turns as they stood."""

    session_id: str
    checkpoint_id: str
    position: str
    turns: list[TurnProjection]


class Compaction(Struct, kw_only=True):
    """What became of a compaction: its turn as `entry`, whose own fields are repeated beside it."""

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
    responses=gives(
        History,
        {
            "nodes": [],
            "system_prompt_tokens": 100,
            "tools_tokens": 200,
            "tokenizer_model": "estimate",
        },
    ),
)
async def history(services: Serving, caller: Reader, session_id: str) -> Response:
    """The whole tree of turns."""
    state = await services.journal.state(caller.user.id, session_id)
    stats = await _stats(services, caller.user.id, state)
    made = History(
        nodes=branches.build_history(state),
        system_prompt_tokens=stats.parts.get("system", 0),
        tools_tokens=stats.parts.get("tools", 0),
        tokenizer_model="estimate" if stats.estimated else stats.model,
    )
    return answer({name: getattr(made, name) for name in History.__struct_fields__})


@router.get(
    "/api/sessions/{session_id}/checkpoints",
    responses=gives(
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
async def checkpoints(services: Serving, caller: Reader, session_id: str) -> Response:
    """The places to go back to: one before every turn of the person's."""
    made, leaf = branches.list_checkpoints(await services.journal.state(caller.user.id, session_id))
    return answer({"nodes": made, "leaf_id": leaf})


_HEAD = {
    "session_id": "sess_7Fq2",
    "checkpoint_id": "cp_4Hn8",
    "head": None,
    "turn_id": None,
    "leaf_id": None,
}


@router.post(
    "/api/sessions/{session_id}/rewind",
    responses=gives(Head, _HEAD),
    openapi_extra=takes(Place, _PLACE),
)
async def rewind(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Place)]
) -> Response:
    """Go back to the point before a turn of the person's; nothing is deleted."""
    return await _move(services, caller.user.id, session_id, given.checkpoint_id, branches.rewind)


@router.post(
    "/api/sessions/{session_id}/switch-branch",
    responses=gives(Head, _HEAD),
    openapi_extra=takes(Place, _PLACE),
)
async def switch(
    services: Serving, caller: Writer, session_id: str, given: Annotated[Any, sent(Place)]
) -> Response:
    """Go to the newest end of the branch that has a checkpoint; nothing is deleted."""
    return await _move(
        services, caller.user.id, session_id, given.checkpoint_id, branches.switch_branch
    )


@router.post(
    "/api/sessions/{session_id}/checkout",
    responses=gives(
        AtThatTime,
        {"session_id": "sess_7Fq2", "checkpoint_id": "cp_4Hn8", "position": "before", "turns": []},
    ),
    openapi_extra=takes(PlaceInTime, _PLACE | {"position": "turn_end"}),
)
async def checkout(
    services: Serving, caller: Reader, session_id: str, given: Annotated[Any, sent(PlaceInTime)]
) -> Response:
    """The turns as they stood at a checkpoint; nothing changes."""
    state = await services.journal.state(caller.user.id, session_id)
    _must_know(state, given.checkpoint_id)
    turns = branches.checkout_turns(state, given.checkpoint_id, given.position)
    place = {
        "session_id": session_id,
        "checkpoint_id": given.checkpoint_id,
        "position": given.position,
    }
    return answer({**place, "turns": turns})


@router.post(
    "/api/sessions/{session_id}/compact",
    responses=gives(Compaction, _COMPACTED),
)
async def compact(services: Serving, caller: Writer, session_id: str) -> Response:
    """Put what was said so far into a summary for the model; history and export keep it whole."""
    return answer(await services.chat.compact(caller, session_id))


@router.get("/api/sessions/{session_id}/context-stats", responses=gives(ContextStats, _STATS))
async def stats(services: Serving, caller: Reader, session_id: str) -> Response:
    """The tokens in the model's window, by part."""
    state = await services.journal.state(caller.user.id, session_id)
    return answer(await _stats(services, caller.user.id, state))


async def _stats(services: Services, owner: str, state: SessionState) -> ContextStats:
    tools = await list_run_tools(services, owner, state, starts=False)
    return build_context_stats(services, state, tools.values())


async def _move(
    services: Services, owner: str, session_id: str, checkpoint_id: str, step: Any
) -> Response:
    def make(state: SessionState) -> list[NewEvent]:
        _must_know(state, checkpoint_id)
        if state.run is not None:
            raise busy("the agent is at work; stop it first", "running")
        return [step(state, checkpoint_id)]

    await services.journal.write(owner, session_id, make)
    state = await services.journal.state(owner, session_id)
    last = state.path[-1].facts.turn_id if state.path else None
    _, leaf = branches.list_checkpoints(state)
    return answer(
        Head(
            session_id=session_id,
            checkpoint_id=checkpoint_id,
            head=state.head,
            turn_id=last,
            leaf_id=leaf,
        )
    )


def _must_know(state: SessionState, checkpoint_id: str) -> None:
    if checkpoint_id not in state.checkpoints:
        raise missing("checkpoint")
