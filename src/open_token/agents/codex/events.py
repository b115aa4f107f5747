"""Events of a rollout that say more than the items do: counts, aborts, titles, reviews, errors,
ends of calls."""

from collections.abc import Callable
from typing import Any

from open_token.agents.codex import call_ends as ends
from open_token.agents.codex import subagents as agents
from open_token.agents.codex.lines import Line
from open_token.agents.codex.thread import Thread
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content

_Telling = Callable[[Thread, Line, dict[str, Any]], None]


def event_msg(thread: Thread, line: Line) -> None:
    """Tell one event."""
    event = line.payload
    kind = event.get("type")
    if kind == "item_completed":
        item = event.get("item")
        event = item if isinstance(item, dict) else {}
        kind = _ITEMS.get(str(event.get("type")), event.get("type"))
    tell = _EVENTS.get(kind) if isinstance(kind, str) else None
    if tell is not None:
        tell(thread, line, event)
    elif kind in _BOOKKEEPING or (
        isinstance(kind, str) and kind.endswith(("_begin", "_delta", "_request", "_break"))
    ):
        thread.draft.note_omission("bookkeeping", line.place, f"event {format_kind(kind)}")
    else:
        thread.draft.note_omission("unknown-record", line.place, f"event {format_kind(kind)}")


def _user_message(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """What the person typed, where no item holds it."""
    if line.is_mirror:
        return
    texts = line.texts or [""]
    images = event.get("images")
    blocks: list[Any] = [{"type": "input_text", "text": text} for text in texts]
    blocks += [
        {"type": "input_image", "image_url": url}
        for url in (images if isinstance(images, list) else ())
    ]
    thread.begin_turn(line)
    said, seen = parse_content(blocks), thread.visibility
    thread.draft.add_message(
        "user", said, thread.voices.user, ts=line.ts, visibility=seen, span=thread.span
    )


def _agent_message(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if event.get("memory_citation"):
        thread.draft.note_omission("memory-citation", line.place, "which memories an answer used")
    if line.is_mirror:
        return
    speaker, seen = thread.voices.assistant, thread.visibility
    for text in line.texts or ():
        said = thread.draft.add_message(
            "assistant", text, speaker, ts=line.ts, visibility=seen, span=thread.span
        )
        thread.spending.spoke(said["id"])


def _reasoning(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if line.is_mirror:
        return
    is_summary = event.get("type") != "agent_reasoning_raw_content"
    for text in line.texts or ():
        thought = thread.draft.add_reasoning(
            text, thread.voices.assistant, ts=line.ts, span=thread.span, summary=is_summary
        )
        thread.spending.spoke(thought["id"], is_thought=True)


def _token_count(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    thread.spending.counted(event.get("info"), line.ts, thread.span)


def _turn_aborted(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    thread.note(line, "turn_aborted", **pick_fields(event, "reason", "duration_ms"))


def _renamed(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if (title := as_text(event.get("thread_name"))) and not thread.depth:
        thread.draft.conversation["title"] = title


def _rolled_back(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """The person took back the last turns: what they hold is a branch that was left."""
    count = event.get("num_turns")
    if type(count) is not int or count < 1:
        return
    thread.take_back(count, line)
    thread.note(line, "thread_rolled_back", turns=count)


def _compacted(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if not thread.just_compacted:
        thread.note(line, "compaction")
    thread.just_compacted = False


def _task_complete(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    error = event.get("error")
    if isinstance(error, dict):
        thread.note(line, "error", **pick_fields(error, "message", "codex_error_info"))
    else:
        thread.draft.note_omission("bookkeeping", line.place, "event task_complete")


def _noted(kind: str, *names: str) -> _Telling:
    """An event that becomes an annotation with these fields."""

    def tell(thread: Thread, line: Line, event: dict[str, Any]) -> None:
        thread.note(line, kind, **pick_fields(event, *names))

    return tell


_ITEMS = {
    "UserMessage": "user_message",
    "AgentMessage": "agent_message",
    "Reasoning": "agent_reasoning",
    "CommandExecution": "exec_command_end",
    "McpToolCall": "mcp_tool_call_end",
    "FileChange": "patch_apply_end",
    "WebSearch": "web_search_end",
    "Extension": "web_search_end",
    "ImageGeneration": "image_generation_end",
    "ImageView": "view_image_tool_call",
    "DynamicToolCall": "dynamic_tool_call_response",
    "SubAgentActivity": "sub_agent_activity",
    "CollabAgentToolCall": "collaboration",
    "ContextCompaction": "context_compacted",
    "EnteredReviewMode": "entered_review_mode",
    "ExitedReviewMode": "exited_review_mode",
    "Plan": "plan",
    "Sleep": "sleep",
    "HookPrompt": "hook_prompt",
}
"""Items of the screen in newer events, and the older events that say the same."""

_EVENTS: dict[str, _Telling] = {
    "user_message": _user_message,
    "agent_message": _agent_message,
    "agent_reasoning": _reasoning,
    "agent_reasoning_raw_content": _reasoning,
    "token_count": _token_count,
    "turn_aborted": _turn_aborted,
    "thread_name_updated": _renamed,
    "thread_rolled_back": _rolled_back,
    "context_compacted": _compacted,
    "task_complete": _task_complete,
    "turn_complete": _task_complete,
    "exec_command_end": ends.exec_command,
    "patch_apply_end": ends.patch_apply,
    "mcp_tool_call_end": ends.mcp_tool_call,
    "dynamic_tool_call_response": ends.dynamic_tool_call,
    "view_image_tool_call": ends.view_image,
    "web_search_end": ends.web_search,
    "image_generation_end": ends.image_generation,
    "collab_agent_spawn_end": agents.spawn_end,
    "collab_waiting_end": agents.waited,
    "collab_close_end": agents.closed,
    "collab_agent_interaction_end": agents.interaction,
    "collaboration": agents.collaboration,
    "sub_agent_activity": agents.activity,
    "error": _noted("error", "message", "codex_error_info"),
    "stream_error": _noted("error", "message", "codex_error_info", "additional_details"),
    "warning": _noted("warning", "message"),
    "entered_review_mode": _noted("entered_review_mode", "target", "user_facing_hint", "prompt"),
    "exited_review_mode": _noted("exited_review_mode", "review_output"),
    "thread_goal_updated": _noted("goal", "goal"),
    "guardian_assessment": _noted(
        "guardian_assessment",
        "status",
        "risk_level",
        "user_authorization",
        "rationale",
        "decision_source",
        "action",
    ),
    "undo_completed": _noted("undo_completed", "success", "message"),
    "plan": _noted("plan", "text"),
    "sleep": _noted("sleep", "duration_ms"),
    "hook_prompt": _noted("hook_prompt", "fragments"),
}

_BOOKKEEPING = (
    "task_started",
    "turn_started",
    "thread_settings_applied",
    "session_configured",
    "background_event",
    "turn_diff",
    "plan_update",
    "shutdown_complete",
    "raw_response_item",
    "item_started",
)
