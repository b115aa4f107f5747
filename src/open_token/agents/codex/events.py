"""Read the event_msg lines of a rollout.

Most repeat response items and are skipped; the others hold counts, aborts, titles, reviews, errors
and the ends of tool calls.
"""

from collections.abc import Callable
from typing import Any

from open_token.agents.codex import subagents, tool_events
from open_token.agents.codex.records import Line
from open_token.agents.codex.thread import Thread
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content

Handler = Callable[[Thread, Line, dict[str, Any]], None]
_COMPACTION_NOTICE = "Compact task completed"
"""What versions about 0.50 tell the person in place of the model."""
_TRANSIENT_SUFFIXES = ("_begin", "_delta", "_request", "_break")


def read_event(thread: Thread, line: Line) -> None:
    """Read one event."""
    event = line.payload
    kind = event.get("type")
    if kind == "item_completed":
        item = event.get("item")
        event = item if isinstance(item, dict) else {}
        kind = _ITEM_EVENTS.get(str(event.get("type")), event.get("type"))
    if isinstance(kind, str):
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(thread, line, event)
            return
        if kind in _BOOKKEEPING or kind.endswith(_TRANSIENT_SUFFIXES):
            thread.draft.note_omission("bookkeeping", line.position, f"event {format_kind(kind)}")
            return
    thread.draft.note_omission("unknown-record", line.position, f"event {format_kind(kind)}")


def _read_user_message(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Add what the person typed, if no item holds it."""
    if line.is_duplicate:
        return
    blocks: list[Any] = [{"type": "input_text", "text": text} for text in line.texts or [""]]
    images = event.get("images")
    if isinstance(images, list):
        blocks += [{"type": "input_image", "image_url": url} for url in images]
    thread.begin_turn(line)
    thread.draft.add_message(
        "user",
        parse_content(blocks),
        thread.actors.user,
        ts=line.ts,
        visibility=thread.visibility,
        span=thread.span,
    )


def _read_agent_message(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if event.get("memory_citation"):
        thread.draft.note_omission(
            "memory-citation", line.position, "memories that an answer refers to"
        )
    if line.is_duplicate:
        return
    for text in line.texts or ():
        if thread.was_just_compacted and text == _COMPACTION_NOTICE:
            thread.annotate(line, "client_message", text=text)
            continue
        message = thread.draft.add_message(
            "assistant",
            text,
            thread.actors.assistant,
            ts=line.ts,
            visibility=thread.visibility,
            span=thread.span,
        )
        thread.usage.add_output(message["id"])


def _read_reasoning(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if line.is_duplicate:
        return
    is_summary = event.get("type") != "agent_reasoning_raw_content"
    for text in line.texts or ():
        reasoning = thread.draft.add_reasoning(
            text, thread.actors.assistant, ts=line.ts, span=thread.span, summary=is_summary
        )
        thread.usage.add_output(reasoning["id"], is_reasoning=True)


def _read_token_count(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    thread.usage.add_count(event.get("info"), line.ts, thread.span)


def _read_turn_aborted(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    thread.annotate(line, "turn_aborted", **pick_fields(event, "reason", "duration_ms"))


def _read_name(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    title = as_text(event.get("thread_name"))
    if title and not thread.depth:
        thread.draft.conversation["title"] = title


def _read_rollback(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    """Abandon the last turns, which the person took back."""
    count = event.get("num_turns")
    if type(count) is not int or count < 1:
        return
    thread.roll_back(count, line)
    thread.annotate(line, "thread_rolled_back", turns=count)


def _read_compaction(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    if not thread.was_just_compacted:
        thread.annotate(line, "compaction")
    thread.was_just_compacted = False


def _read_task_complete(thread: Thread, line: Line, event: dict[str, Any]) -> None:
    error = event.get("error")
    if isinstance(error, dict):
        thread.annotate(line, "error", **pick_fields(error, "message", "codex_error_info"))
    else:
        thread.draft.note_omission("bookkeeping", line.position, "event task_complete")


def _build_annotator(kind: str, *names: str) -> Handler:
    """Return a handler that adds an annotation with these fields of the event."""

    def read(thread: Thread, line: Line, event: dict[str, Any]) -> None:
        thread.annotate(line, kind, **pick_fields(event, *names))

    return read


# Items of item_completed events (since 0.14x), and the older events with the same content.
_ITEM_EVENTS = {
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

_HANDLERS: dict[str, Handler] = {
    "user_message": _read_user_message,
    "agent_message": _read_agent_message,
    "agent_reasoning": _read_reasoning,
    "agent_reasoning_raw_content": _read_reasoning,
    "token_count": _read_token_count,
    "turn_aborted": _read_turn_aborted,
    "thread_name_updated": _read_name,
    "thread_rolled_back": _read_rollback,
    "context_compacted": _read_compaction,
    "task_complete": _read_task_complete,
    "turn_complete": _read_task_complete,
    "exec_command_end": tool_events.read_exec_command,
    "patch_apply_end": tool_events.read_patch_apply,
    "mcp_tool_call_end": tool_events.read_mcp_tool_call,
    "dynamic_tool_call_response": tool_events.read_dynamic_tool_call,
    "view_image_tool_call": tool_events.read_view_image,
    "web_search_end": tool_events.read_web_search,
    "image_generation_end": tool_events.read_image_generation,
    "collab_agent_spawn_end": subagents.read_spawn_end,
    "collab_waiting_end": subagents.read_waiting_end,
    "collab_close_end": subagents.read_close_end,
    "collab_agent_interaction_end": subagents.read_interaction_end,
    "collaboration": subagents.read_collaboration,
    "sub_agent_activity": subagents.read_activity,
    "error": _build_annotator("error", "message", "codex_error_info"),
    "stream_error": _build_annotator("error", "message", "codex_error_info", "additional_details"),
    "warning": _build_annotator("warning", "message"),
    "entered_review_mode": _build_annotator(
        "entered_review_mode", "target", "user_facing_hint", "prompt"
    ),
    "exited_review_mode": _build_annotator("exited_review_mode", "review_output"),
    "thread_goal_updated": _build_annotator("goal", "goal"),
    "guardian_assessment": _build_annotator(
        "guardian_assessment",
        "status",
        "risk_level",
        "user_authorization",
        "rationale",
        "decision_source",
        "action",
    ),
    "undo_completed": _build_annotator("undo_completed", "success", "message"),
    "plan": _build_annotator("plan", "text"),
    "sleep": _build_annotator("sleep", "duration_ms"),
    "hook_prompt": _build_annotator("hook_prompt", "fragments"),
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
