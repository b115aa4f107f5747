"""After a crash: what was under way is brought to a state from which the loop goes on."""

from collections.abc import Iterator

from open_token.entries import Step
from open_token.reducer import State, Turn, steps
from open_token.server.agent.calls import INTERRUPTED
from open_token.server.agent.work import Work


def recovered(work: Work, state: State) -> Iterator[Step]:
    """Close what the model had not finished, with its words; answer for the call that was under
    way.

    A turn whose model call was complete has its usage. Of its calls, which are carried out in
    order, the first without a result may have been begun: it is called again only when that does no
    harm."""
    for turn in reversed(state.path):
        if turn.facts.status == "streaming" and turn.facts.usage is None:
            yield from _closed(turn)
        elif turn.facts.status in ("streaming", "paused"):
            yield from _answered_for(work, turn)


def _closed(turn: Turn) -> Iterator[Step]:
    turn_id = turn.facts.turn_id
    for name, calling in turn.calls.items():
        if calling.call.status == "pending":
            yield "tool.status", {"turn_id": turn_id, "tool_call_id": name, "status": "cancelled"}
    yield from steps.halted(turn_id, "interrupted", "broken off by a restart of the server")


def _answered_for(work: Work, turn: Turn) -> Iterator[Step]:
    call = next(
        (calling.call for calling in turn.calls.values() if calling.call.status == "pending"), None
    )
    tool = work.tools.get(call.tool_name) if call else None
    if call is None or tool is None or tool.is_idempotent:
        return
    place = {"turn_id": turn.facts.turn_id, "tool_call_id": call.id}
    yield "tool.result", {**place, "result": {"error": INTERRUPTED}, "status": "error"}
