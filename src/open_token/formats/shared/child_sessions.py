"""Subagents that a runtime stores as sessions of their own, in the same store as their parent."""

from collections.abc import Callable
from typing import Any

from open_token.formats.shared.thread import MAX_DEPTH, Thread


def is_left_out(parent: Thread, session_id: str) -> bool:
    """Return whether a subagent is not part of the export, and note that it is left out."""
    draft = parent.draft
    if draft.subagents != "none" and parent.depth < MAX_DEPTH:
        return False
    draft.note_omission("subagent", session_id, "what a subagent did is left out")
    return True


def add_child_session(
    parent: Thread,
    session_id: str,
    read_child: Callable[[Thread], None],
    *,
    title: str | None,
    count_records: Callable[[], int],
    call: str | None,
    ts: str | None = None,
) -> None:
    """Add the span of a subagent, with what `read_child` adds to its thread.

    An export with `subagents=reference` has the span alone, with the number of records instead of
    what they hold.
    """
    draft = parent.draft
    child = parent.create_child("subagent", session_id, session_id)
    data: dict[str, Any] = {"kind": "subagent", "agent_id": session_id}
    if title:
        data["description"] = title
    is_inline = draft.subagents != "reference"
    if not is_inline:
        data["records"] = count_records()
    child.span = draft.start_span(data, child.user_actor, ts=ts, call=call)
    if is_inline:
        read_child(child)
    draft.end_span(child.span, ts=child.last_ts, call=call)
