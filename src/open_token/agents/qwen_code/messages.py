"""Read the records of a Qwen Code file: messages, results, commands and notices."""

from collections.abc import Callable
from typing import Any

from open_token.agents.qwen_code.record_tree import RecordTree
from open_token.agents.qwen_code.records import Body, get_parts, to_dict
from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.fields import as_text, get_dicts, pick_fields
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_call,
    get_function_response,
    list_content_parts,
    parse_usage,
    select_message_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.record_context import RecordContext
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import to_utc

# User records with any other subtype were written by the client: notices, prompts of subagents.
_TYPED_SUBTYPES = (None, "mid_turn_user_message", "realtime_message")
_HOOK_CONTEXT = "<qwen:user-prompt-submit-context>"
# Records outside the conversation: the last record of the tree is never one of them.
_DETACHED_SUBTYPES = (
    "session_artifact_event",
    "session_artifact_snapshot",
    "session_sources_snapshot",
)
_NOTICE_FIELDS = {
    "agent_launch_prompt": ("displayText",),
    "agent_retry": ("attempt",),
    "at_command": ("userText", "filesRead", "status", "message"),
    "background_task_completed": ("displayText", "backgroundTask"),
    "goal_state": ("snapshot",),
    "parent_session": ("parentSessionId",),
    "rewind": ("truncatedCount",),
    "session_approval_mode": ("mode", "prePlanMode"),
    "session_model": ("modelId", "authType"),
    "session_source": ("sourceType", "sourceId"),
    "turn_result": ("state", "stopReason", "error"),
}
_COMPRESSION_COUNTS = {"originalTokenCount": "tokens_before", "newTokenCount": "tokens_after"}
ReadSubagents = Callable[["FileReader", str | None], bool]


class FileReader:
    """Adds the events of one file to the draft."""

    def __init__(self, thread: Thread, read_subagents: ReadSubagents) -> None:
        self.thread = thread
        self.tree = RecordTree()
        self.titles: list[tuple[str, str]] = []
        """The uuid and the title of each title record."""
        self.title_positions: dict[str, str] = {}
        """Where each title was first given."""
        self.context = RecordContext()
        self.model: str | None = None
        """The model of answers that name none."""
        self._read_subagents = read_subagents

    def read_record(self, record: Any, position: str) -> None:
        """Read one record."""
        thread = self.thread
        if not isinstance(record, dict):
            thread.note_omission("skipped-record", position, "line is not a JSON object")
            return
        ts = to_utc(record.get("timestamp"))
        thread.last_ts = ts or thread.last_ts
        kind = record.get("type")
        subtype = record.get("subtype")
        is_detached = subtype in _DETACHED_SUBTYPES
        if not is_detached:
            self._update_context(record, ts)
        start = thread.draft.count
        if kind == "user":
            self._read_user(record, ts, position)
        elif kind == "assistant":
            self._read_assistant(record, ts, position)
        elif kind == "tool_result":
            self._read_results(record, ts, position)
        elif kind == "system":
            self._read_system(record, ts, position)
        else:
            thread.note_omission("skipped-record", position, f"type {format_kind(kind)}")
        uuid = as_text(record.get("uuid"))
        if uuid and not is_detached:
            self.tree.add(
                uuid,
                record.get("parentUuid"),
                range(start, thread.draft.count),
                is_message=kind != "system",
                is_rewind=subtype == "rewind",
            )

    def finish(self) -> None:
        """Drop the branches that were rewound."""
        data = {"kind": "abandoned_branch", "detail": "the conversation was rewound"}
        for positions in self.tree.find_abandoned():
            self.thread.draft.drop_branch(positions.start, positions.stop, data, self.thread.client)

    def _update_context(self, record: Body, ts: str | None) -> None:
        """Annotate where the session runs, when that is first seen and when it changes.

        A subagent shares the context of its session.
        """
        facts = self.context.update(record)
        if facts and self.thread.span is None:
            self.thread.add_annotation({"kind": "context", **facts}, ts=ts)

    def _get_parts(self, record: Body, position: str) -> list[Body]:
        """Return the parts of a message, and note those that are none."""
        given = get_parts(record)
        parts = wire.list_parts(given)
        message = record.get("message")
        if isinstance(message, dict):
            is_malformed = "parts" not in message
        else:
            is_malformed = message is not None
        if len(parts) != len(given) or is_malformed:
            self.thread.note_omission(
                "unknown-part", position, "part that is neither text nor an object"
            )
        return parts

    def _read_user(self, record: Body, ts: str | None, position: str) -> None:
        """Read a user record; what was typed is separated from what was injected with it."""
        thread = self.thread
        parts = self._get_parts(record, position)
        payload = to_dict(record.get("systemPayload"))
        # Results may also come in a user record.
        if any(get_function_response(part) for part in parts):
            self._read_results(record, ts, position)
            return
        content_parts = select_message_parts(parts)
        shown = payload.get("displayText")
        is_typed = record.get("subtype") in _TYPED_SUBTYPES
        # `externalInputKind` marks input that no person typed.
        if not is_typed or record.get("externalInputKind") is not None:
            if content_parts:
                thread.add_injected_message(wire.build_content(content_parts), ts=ts)
            if isinstance(shown, str) and shown and shown != wire.build_content(content_parts):
                subtype = format_kind(record.get("subtype"))
                thread.add_annotation({"kind": "notice", "subtype": subtype, "text": shown}, ts=ts)
            return
        typed, injected = _split_user_parts(content_parts, shown)
        # The context of a hook is usually a part as well, with tags around it.
        hook_context = as_text(payload.get("hookContext"))
        if hook_context:
            is_known = any(hook_context in str(part.get("text")) for part in content_parts)
            if not is_known:
                injected.append({"text": hook_context})
        event = None
        if typed:
            event = thread.add_message(
                "user", wire.build_content(typed), thread.get_user_actor(), ts=ts
            )
        references = pick_fields(payload, "attachmentReferences", "resourceLinks")
        if references:
            thread.add_annotation({"kind": "attachment", **references}, parent=event, ts=ts)
        if injected:
            thread.add_injected_message(wire.build_content(injected), ts=ts)

    def _read_assistant(self, record: Body, ts: str | None, position: str) -> None:
        """Read an answer; text parts between calls and thoughts are joined to one message."""
        thread = self.thread
        usage = parse_usage(record.get("usageMetadata"))
        thread.set_model(as_text(record.get("model")) or self.model)
        reasoning = None
        texts: list[Body] = []
        # The None at the end flushes the last texts.
        for part in [*self._get_parts(record, position), None]:
            call = get_function_call(part)
            is_thought = part is not None and part.get("thought") is True and call is None
            if part is not None and call is None and not is_thought:
                if part != {"text": ""}:
                    texts.append(part)
                continue
            if texts:
                thread.add_message(
                    "assistant", wire.build_content(texts), thread.model_actor, ts=ts, usage=usage
                )
                texts = []
                usage = None
            if call is not None:
                arguments = call.get("args")
                start = thread.draft.count
                thread.add_tool_call(
                    as_text(call.get("id")),
                    as_text(call.get("name")) or "tool",
                    {} if arguments is None else arguments,
                    ts=ts,
                    usage=usage,
                    group=str(record.get("uuid")),
                )
                # A call that is known already is not added again, and cannot take the usage.
                if thread.draft.count > start:
                    usage = None
            elif part is not None:
                text = as_text(part.get("text"))
                if text:
                    event = thread.add_reasoning(text, ts=ts)
                    reasoning = reasoning or event
        if usage and reasoning is not None:
            thread.draft.set_usage(reasoning, usage)
        elif usage:
            thread.add_annotation({"kind": "usage"}, ts=ts, usage=usage)

    def _read_results(self, record: Body, ts: str | None, position: str) -> None:
        """Read one or more results; other parts, such as an image, belong to the last of them."""
        result = to_dict(record.get("toolCallResult"))
        responses = []
        others = []
        for part in self._get_parts(record, position):
            response = get_function_response(part)
            if response:
                responses.append(response)
            elif response is None:
                others.append(part)
        # Without a response, what the record says about the result still names the call.
        if not responses:
            responses = [{"id": result.get("callId")}]
        for response in responses:
            is_last = response is responses[-1]
            output, has_failed = unwrap_output(response, others if is_last else [])
            has_failed = has_failed or result.get("error") is not None
            facts = build_result_facts(result.get("status"), has_failed) or {}
            if type(result.get("durationMs")) in (int, float):
                facts["duration_ms"] = result["durationMs"]
            call_id = as_text(response.get("id")) or as_text(result.get("callId"))
            self._add_subagents(call_id, result, ts)
            tool = as_text(response.get("name"))
            self.thread.add_tool_result(call_id, output, ts=ts, facts=facts or None, tool=tool)

    def _add_subagents(self, call_id: str | None, result: Body, ts: str | None) -> None:
        """Add what subagents did before the result of their call.

        It comes from their files, else from what the screen showed.
        """
        if self._read_subagents(self, call_id):
            return
        display = result.get("resultDisplay")
        if isinstance(display, dict) and display.get("type") == "task_execution":
            _add_displayed_subagent(self.thread, display, self.thread.get_call_key(call_id), ts)

    def _read_system(self, record: Body, ts: str | None, position: str) -> None:
        thread = self.thread
        subtype = record.get("subtype")
        payload = to_dict(record.get("systemPayload"))
        content_parts = select_message_parts(self._get_parts(record, position))
        if content_parts:
            thread.add_message("system", wire.build_content(content_parts), thread.client, ts=ts)
        # Which title holds is known at the end: one of a branch that was rewound does not.
        if subtype == "custom_title":
            title = as_text(payload.get("customTitle"))
            if title:
                self.titles.append((str(record.get("uuid")), title))
                self.title_positions.setdefault(title, position)
            return
        if subtype == "chat_compression":
            self._read_compression(payload, ts, position)
            return
        if subtype == "slash_command":
            self._read_command(payload, ts)
            return
        # Since 0.24 a failed request leaves no record but its telemetry.
        if subtype == "ui_telemetry":
            error = _parse_api_error(to_dict(payload.get("uiEvent")))
            if error:
                thread.add_annotation({"kind": "api_error", **error}, ts=ts)
                return
        if isinstance(subtype, str) and subtype in _NOTICE_FIELDS:
            facts = pick_fields(payload, *_NOTICE_FIELDS[subtype])
            thread.add_annotation({"kind": "notice", "subtype": subtype, **facts}, ts=ts)
        elif subtype is not None or not content_parts:
            thread.note_omission("skipped-record", position, f"system {format_kind(subtype)}")

    def _read_command(self, payload: Body, ts: str | None) -> None:
        """Read a command that the person typed, or its output; the model saw neither."""
        command = as_text(payload.get("rawCommand"))
        if payload.get("phase") == "invocation" and command:
            self.thread.add_message(
                "user", command, self.thread.get_user_actor(), ts=ts, visibility="internal"
            )
        else:
            facts = pick_fields(payload, "rawCommand", "outputHistoryItems")
            self.thread.add_annotation(
                {"kind": "notice", "subtype": "slash_command", **facts}, ts=ts
            )

    def _read_compression(self, payload: Body, ts: str | None, position: str) -> None:
        """Read a shortened context: its first message is the summary, the others are known."""
        thread = self.thread
        info = to_dict(payload.get("info"))
        history = payload.get("compressedHistory")
        contents: list[Body] = []
        if isinstance(history, list):
            contents = [item for item in history if isinstance(item, dict)]
        data: Body = {"kind": "compaction"}
        for key, name in _COMPRESSION_COUNTS.items():
            if type(info.get(key)) is int:
                data[name] = info[key]
        event = None
        summary: list[Body] = []
        if contents:
            summary = select_message_parts(wire.list_parts(contents[0]))
        if summary:
            event = thread.add_injected_message(wire.build_content(summary), ts=ts)
        elif contents:
            thread.note_omission("unknown-part", position, "compressed history without a summary")
        thread.add_annotation(data, parent=event, ts=ts)
        if len(contents) > 1:
            thread.note_omission(
                "kept-history", position, "earlier messages in a compressed history"
            )


def _split_user_parts(content_parts: list[Body], shown: Any) -> tuple[list[Body], list[Body]]:
    """Split a user message into what was typed and what was injected.

    Newer versions record the typed text (displayText); else only the context of a hook is known to
    be injected.
    """
    typed: list[Body] = []
    injected: list[Body] = []
    if isinstance(shown, str):
        if shown:
            typed.append({"text": shown})
        for part in content_parts:
            if not isinstance(part.get("text"), str):
                typed.append(part)
            elif part["text"] != shown:
                injected.append(part)
        return typed, injected
    for part in content_parts:
        if str(part.get("text", "")).lstrip().startswith(_HOOK_CONTEXT):
            injected.append(part)
        else:
            typed.append(part)
    return typed, injected


def _parse_api_error(event: Body) -> Body:
    """Return a failed request, which only the telemetry holds (0.24)."""
    if event.get("event.name") != "qwen-code.api_error":
        return {}
    names = {"status_code": "status", "error_type": "error", "error_message": "message"}
    return {name: event[key] for key, name in names.items() if event.get(key) is not None}


def _add_displayed_subagent(
    parent: Thread, display: Body, call: str | None, ts: str | None
) -> None:
    """Add a subagent without a file, as the screen showed it: prompt, calls and results."""
    draft = parent.draft
    if draft.subagents == "none":
        draft.note_omission(
            "subagent", f"event {draft.count}", "what a subagent did is left out (subagents=none)"
        )
        return
    agent_type = as_text(display.get("subagentName"))
    data: Body = {"kind": "subagent"}
    reason = as_text(display.get("taskDescription"))
    if reason:
        data["spawn_reason"] = reason
    if agent_type:
        data |= {"tooling_scope": agent_type, "subagent_type": agent_type}
    child = parent.create_child(agent_type, None, agent_type or "subagent")
    child.span = draft.start_span(data, child.user_actor, ts=ts, call=call)
    if draft.subagents == "inline":
        _add_displayed_calls(child, display)
    facts = pick_fields(display, "status", "terminateReason", "executionSummary")
    draft.end_span(child.span, facts, ts=ts, call=call)


def _add_displayed_calls(child: Thread, display: Body) -> None:
    prompt = as_text(display.get("taskPrompt"))
    if prompt:
        child.add_message("user", prompt, child.user_actor)
    for call in get_dicts(display, "toolCalls"):
        child.set_model(None)
        arguments = call.get("args")
        if arguments is None:
            arguments = {}
        tool = as_text(call.get("name")) or "tool"
        key = child.add_tool_call(as_text(call.get("callId")), tool, arguments)
        _add_displayed_result(child, key, call)


def _add_displayed_result(child: Thread, key: str, call: Body) -> None:
    """Add what a call returned; without its response, the text that the screen showed of it."""
    status = call.get("status")
    for part in list_content_parts(call.get("responseParts")):
        response = get_function_response(part)
        if response:
            output, has_failed = unwrap_output(response, [])
            child.add_tool_result(key, output, facts=build_result_facts(status, has_failed))
            return
    shown = as_text(call.get("result")) or as_text(call.get("error"))
    if shown is None:
        return
    # The screen says "failed" where results say "error".
    if status == "failed":
        status = "error"
    child.add_tool_result(key, shown, facts=build_result_facts(status, False))
