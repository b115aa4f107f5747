"""Read the event log of Kimi Code: turns, messages, steps of the model, undos and compactions."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from open_token.agents.kimi_cli.steps import Body, Clock, Step, build_content, parse_usage
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread

# The result of a call that starts a subagent names it in its text, and nowhere else.
_AGENT_ID = re.compile(r"^\s*agent_id: ([A-Za-z0-9][A-Za-z0-9_-]{0,63})\s*$", re.MULTILINE)
_SPAWNING_TOOLS = ("Agent", "Task")
_CONTEXT_FIELDS = {
    "cwd": "cwd",
    "profileName": "profile",
    "modelAlias": "model",
    "thinkingEffort": "thinking_effort",
    "subagentNames": "subagents",
}
_APPROVAL_FIELDS = {
    "toolName": "tool_name",
    "toolCallId": "native_call_id",
    "action": "action",
    "sessionApprovalRule": "rule",
    "result": "result",
}
_COMPACTION_COUNTS = {
    "tokensBefore": "tokens_before",
    "tokensAfter": "tokens_after",
    "compactedCount": "messages_left_out",
}
_ENVELOPE_FIELDS = ("type", "time", "agentId")
_INTERRUPTIONS = ("turn.cancel", "turn.step.interrupted", "prompt.aborted")
_NOTICE_PREFIXES = (
    "plan_mode.",
    "swarm_mode.",
    "tower_mode.",
    "goal.",
    "task.",
    "interaction.",
    "full_compaction.",
    "plan.",
    "turn.step.retrying",
    "forked",
    "permission.set_mode",
)
ReadSubagents = Callable[[Thread, list[str], str | None, Body], None]


class EventLogReader:
    """Adds the events of one file to the draft."""

    def __init__(self, thread: Thread, read_subagents: ReadSubagents) -> None:
        self.thread = thread
        self._context: Body = {}
        self._read_subagents = read_subagents
        self._is_subagent = bool(thread.user_actor)
        self._clock = Clock()
        self._model: str | None = None
        self._step = Step(thread)
        self._prompts: deque[Body] = deque()
        """Prompts that have not become a message of the context yet."""
        self._turn_starts: list[int] = []
        """The positions of turns that an undo may take back."""
        self._undone: list[range] = []
        self._spawn_calls: dict[str, Body] = {}
        """The arguments of calls that start subagents, by their ids."""
        self._last_values: dict[str, Any] = {}
        """The last system prompt and the last tools."""

    def read_record(self, record: Any, position: str) -> None:
        """Read one record."""
        kind = record.get("type") if isinstance(record, dict) else None
        if not isinstance(kind, str):
            self.thread.note_omission("skipped-record", position, "record without a type")
            return
        ts = self._clock.format_time(record.get("time"))
        self.thread.last_ts = ts or self.thread.last_ts
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, record, ts, position)
        elif kind.startswith(_NOTICE_PREFIXES):
            # Events about modes, goals and tasks differ by version: preserved whole.
            data: Body = {"kind": "notice", "event": format_kind(kind)}
            rest = {name: value for name, value in record.items() if name not in _ENVELOPE_FIELDS}
            if rest:
                data["record"] = rest
            self.thread.add_annotation(data, ts=ts)
        elif kind in _INTERRUPTIONS:
            self._flush_prompts()
            self.thread.add_annotation(
                {"kind": "interrupted", **pick_fields(record, "reason", "target")}, ts=ts
            )
        else:
            self.thread.note_omission("skipped-record", position, f"type {format_kind(kind)}")

    def finish(self) -> None:
        """Add the prompts that are left, and drop the turns that were undone."""
        self._flush_prompts()
        data = {"kind": "abandoned_branch", "detail": "these turns were undone"}
        for positions in self._undone:
            self.thread.draft.drop_branch(positions.start, positions.stop, data, self.thread.client)

    def _read_header(self, record: Body, ts: str | None, position: str) -> None:
        created = self._clock.format_time(record.get("created_at"))
        self.thread.last_ts = created or self.thread.last_ts

    def _read_config(self, record: Body, ts: str | None, position: str) -> None:
        # Since 2.1 the cwd is part of the description of the environment for the model.
        disclosed = record.get("environmentDisclosure")
        if isinstance(disclosed, dict):
            record = {**disclosed, **record}
        self._model = as_text(record.get("modelAlias")) or self._model
        # A configuration may repeat an earlier one: only changes are exported.
        changed = {}
        for key, name in _CONTEXT_FIELDS.items():
            value = record.get(key)
            if value not in (None, "") and self._context.get(name) != value:
                changed[name] = value
        if changed:
            self._context |= changed
            self.thread.add_annotation({"kind": "context", **changed}, ts=ts)
        prompt = as_text(record.get("systemPrompt"))
        if prompt and prompt != self._last_values.get("system"):
            self._last_values["system"] = prompt
            self.thread.add_message("system", prompt, self.thread.client, ts=ts)

    def _read_tools(self, record: Body, ts: str | None, position: str) -> None:
        """Read the offered tools: their names, or their definitions."""
        for name in ("names", "tools"):
            value = record.get(name)
            if value is not None and value != self._last_values.get(name):
                self._last_values[name] = value
                self.thread.add_annotation({"kind": "tools", name: value}, ts=ts)

    def _read_request(self, record: Body, ts: str | None, position: str) -> None:
        """Read the model of an API request."""
        self._model = as_text(record.get("model")) or self._model
        self.thread.note_omission("skipped-record", position, "type llm.request")

    def _read_prompt(self, record: Body, ts: str | None, position: str) -> None:
        """Read a prompt, which later becomes a message of the context, usually unchanged."""
        # A prompt starts a turn, so those before it are settled; `turn.steer` is typed while the
        # model works and waits until the context takes it up.
        if record["type"] == "turn.prompt":
            self._flush_prompts()
        self._prompts.append(record)

    def _flush_prompts(self) -> None:
        """Add the prompts that did not become a message unchanged."""
        while self._prompts:
            record = self._prompts.popleft()
            ts = self._clock.format_time(record.get("time"))
            self._add_user_message(record.get("input"), record.get("origin"), ts, is_typed=True)

    def _read_message(self, record: Body, ts: str | None, position: str) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            self.thread.note_omission("skipped-record", position, "message is not a JSON object")
            return
        role = message.get("role")
        content = message.get("content")
        if role == "user":
            self._read_user(content, message.get("origin"), ts)
        elif role == "assistant":
            self._read_assistant(message, ts, position)
        elif role == "tool":
            facts = {"is_error": True} if message.get("isError") is True else None
            call_id = as_text(message.get("toolCallId"))
            self.thread.add_tool_result(call_id, build_content(content), ts=ts, facts=facts)
        elif role in ("system", "developer"):
            self.thread.add_message("system", build_content(content), self.thread.client, ts=ts)
        else:
            self.thread.note_omission("skipped-record", position, f"role {format_kind(role)}")

    def _read_user(self, content: Any, origin: Any, ts: str | None) -> None:
        """Read a user message, and match it with the prompt that was typed for it."""
        kind = _get_origin_kind(origin)
        # Every prompt is in the log twice: as typed, and as the context has it.
        for record in self._prompts:
            if record.get("input") == content:
                self._prompts.remove(record)
                self._add_user_message(content, origin, ts)
                return
        if any(_get_origin_kind(record.get("origin")) == kind for record in self._prompts):
            # The message is an expanded form of the prompt, such as of a slash command.
            self._flush_prompts()
            self.thread.add_injected_message(build_content(content), ts=ts)
        else:
            self._add_user_message(content, origin, ts)

    def _add_user_message(
        self, content: Any, origin: Any, ts: str | None, *, is_typed: bool = False
    ) -> None:
        """Add a user message by its origin; a slash command as typed and as expanded."""
        thread = self.thread
        kind = _get_origin_kind(origin)
        is_prompt = kind in (None, "user")
        is_command = isinstance(origin, dict) and origin.get("trigger") == "user-slash"
        # An undo counts what the person sent, not what the client injected.
        if is_prompt or is_command:
            self._turn_starts.append(thread.draft.count)
        if is_prompt or (is_command and is_typed):
            thread.add_message("user", build_content(content), thread.get_user_actor(), ts=ts)
        elif kind == "system_trigger" and self._is_subagent:
            # The prompt of a subagent has the origin of injected text, but its parent wrote it.
            thread.add_message(
                "user",
                build_content(content),
                thread.get_user_actor(),
                ts=ts,
                visibility="internal",
            )
        else:
            event = thread.add_injected_message(build_content(content), ts=ts)
            if kind == "compaction_summary":
                thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _read_assistant(self, message: Body, ts: str | None, position: str) -> None:
        """Read an answer in one record, as imported sessions have it."""
        self.thread.set_model(self._model)
        step = Step(self.thread)
        parts = message.get("content")
        if isinstance(parts, list):
            for part in parts:
                step.add_part(part, ts)
        elif parts is not None:
            step.add_part({"type": "text", "text": parts}, ts)
        calls = message.get("toolCalls")
        if not isinstance(calls, list):
            return
        for call in calls:
            if not isinstance(call, dict):
                call = {}
            # Imported calls have the shape of the chat API, or its inner object alone.
            function = call.get("function")
            if not isinstance(function, dict):
                function = call
            tool = as_text(function.get("name"))
            given = parse_arguments(function.get("arguments"))
            step.add_call(as_text(call.get("id")), tool, given, ts, position)

    def _read_loop_event(self, record: Body, ts: str | None, position: str) -> None:
        """Read an event within a step of the model."""
        event = record.get("event")
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(kind, str):
            self.thread.note_omission("skipped-record", position, "event without a type")
        elif kind == "step.begin":
            # The request that follows names the model of the step.
            self.thread.model_actor = ""
            self._step = Step(self.thread)
        elif kind == "content.part":
            self._get_step().add_part(event.get("part"), ts)
        elif kind == "tool.call":
            self._read_call(event, ts)
        elif kind == "tool.result":
            self._read_result(event, ts)
        elif kind == "step.end":
            self._step.set_usage(parse_usage(event.get("usage")), ts)
            self._step.set_stop_reason(event.get("finishReason"), ts)
        else:
            self.thread.note_omission("skipped-record", position, f"event {format_kind(kind)}")

    def _get_step(self) -> Step:
        """Return the current step; its model is known only now: the request follows step.begin."""
        if not self.thread.model_actor:
            self.thread.set_model(self._model)
        return self._step

    def _read_call(self, event: Body, ts: str | None) -> None:
        call_id = as_text(event.get("toolCallId"))
        tool = as_text(event.get("name"))
        given = event.get("args")
        description = as_text(event.get("description"))
        group = str(event.get("stepUuid"))
        self._get_step().add_call(call_id, tool, given, ts, group, description)
        if call_id and tool and tool.startswith(_SPAWNING_TOOLS):
            self._spawn_calls[call_id] = given if isinstance(given, dict) else {}

    def _read_result(self, event: Body, ts: str | None) -> None:
        call_id = as_text(event.get("toolCallId"))
        result = event.get("result")
        if not isinstance(result, dict):
            result = {"output": result}
        output = build_content(result.get("output"))
        facts = pick_fields(result, "note", "message", "truncated")
        if result.get("isError") is True:
            facts = {"is_error": True, **facts}
        # What a subagent did stands between its call and the result.
        spawn_arguments = self._spawn_calls.pop(call_id or "", None)
        if spawn_arguments is not None:
            agent_ids = _AGENT_ID.findall(output) if isinstance(output, str) else []
            call_key = self.thread.get_call_key(call_id)
            self._read_subagents(self.thread, agent_ids, call_key, spawn_arguments)
        self.thread.add_tool_result(call_id, output, ts=ts, facts=facts or None)

    def _read_usage(self, record: Body, ts: str | None, position: str) -> None:
        """Read token counts, which the end of the step usually has already."""
        usage = parse_usage(record.get("usage"))
        scope = record.get("usageScope")
        if scope in (None, "turn"):
            self._step.set_usage(usage, ts)
        elif usage:
            data = {"kind": "usage", "scope": scope, **pick_fields(record, "model")}
            self.thread.add_annotation(data, ts=ts, usage=usage)

    def _read_approval(self, record: Body, ts: str | None, position: str) -> None:
        data: Body = {"kind": "approval"}
        for key, name in _APPROVAL_FIELDS.items():
            if record.get(key) is not None:
                data[name] = record[key]
        self.thread.add_annotation(data, ts=ts)

    def _read_compaction(self, record: Body, ts: str | None, position: str) -> None:
        """Read that the context was reduced to a summary and the last prompts."""
        summary = record.get("summary")
        if isinstance(summary, dict):
            summary = summary.get("content")
        text = build_content(summary)
        # What the model reads, if that is more than the summary.
        sent = as_text(record.get("contextSummary"))
        event = self.thread.add_injected_message(sent or text, ts=ts)
        data: Body = {"kind": "compaction_summary"}
        if sent and text and text != sent:
            data["summary"] = text
        for key, name in _COMPACTION_COUNTS.items():
            if type(record.get(key)) is int:
                data[name] = record[key]
        self.thread.add_annotation(data, parent=event, ts=ts)
        # Turns before a compaction cannot be undone.
        self._turn_starts = []

    def _read_undo(self, record: Body, ts: str | None, position: str) -> None:
        """Take back the last turns."""
        self._flush_prompts()
        count = record.get("count")
        if type(count) is not int or not 0 < count <= len(self._turn_starts):
            self.thread.note_omission("skipped-record", position, "type context.undo")
            return
        start = self._turn_starts[-count]
        del self._turn_starts[-count:]
        # A further undo may reach back before turns that were undone already: one range for both.
        while self._undone and self._undone[-1].start >= start:
            self._undone.pop()
        self._undone.append(range(start, self.thread.draft.count))

    def _read_turn_end(self, record: Body, ts: str | None, position: str) -> None:
        """Read the end of a turn; only a failure is exported."""
        self._flush_prompts()
        if record.get("reason") in ("failed", "blocked") or record.get("error") is not None:
            self.thread.add_annotation(
                {"kind": "error", **pick_fields(record, "reason", "error")}, ts=ts
            )

    def _read_clear(self, record: Body, ts: str | None, position: str) -> None:
        self._turn_starts = []
        self.thread.add_annotation({"kind": "notice", "event": "context.clear"}, ts=ts)


def _get_origin_kind(origin: Any) -> str | None:
    return as_text(origin.get("kind")) if isinstance(origin, dict) else None


_HANDLERS: dict[str, Callable[[EventLogReader, Body, str | None, str], None]] = {
    "metadata": EventLogReader._read_header,
    "config.update": EventLogReader._read_config,
    # What 2.1 calls the configuration of an agent.
    "profile.bind": EventLogReader._read_config,
    # The names of the tools, and their definitions.
    "tools.set_active_tools": EventLogReader._read_tools,
    "llm.tools_snapshot": EventLogReader._read_tools,
    "llm.request": EventLogReader._read_request,
    "turn.prompt": EventLogReader._read_prompt,
    "turn.steer": EventLogReader._read_prompt,
    "turn.ended": EventLogReader._read_turn_end,
    "context.append_message": EventLogReader._read_message,
    "context.append_loop_event": EventLogReader._read_loop_event,
    "context.apply_compaction": EventLogReader._read_compaction,
    "context.undo": EventLogReader._read_undo,
    "context.clear": EventLogReader._read_clear,
    "usage.record": EventLogReader._read_usage,
    "permission.record_approval_result": EventLogReader._read_approval,
}
