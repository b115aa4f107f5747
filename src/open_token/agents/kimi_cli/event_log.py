"""The event log of Kimi Code: turns, messages of the context, steps of the model, and what was
undone or compacted."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from open_token.agents.kimi_cli.parts import Clock, Step, content, usage
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread

_AGENT = re.compile(r"^\s*agent_id: ([A-Za-z0-9][A-Za-z0-9_-]{0,63})\s*$", re.MULTILINE)
_SPAWNING = ("Agent", "Task")
_CONTEXT = {
    "cwd": "cwd",
    "profileName": "profile",
    "modelAlias": "model",
    "thinkingEffort": "thinking_effort",
    "subagentNames": "subagents",
}
_ENVELOPE = ("type", "time", "agentId")
_INTERRUPTED = ("turn.cancel", "turn.step.interrupted", "prompt.aborted")
_NOTICES = (
    "plan_mode.", "swarm_mode.", "tower_mode.", "goal.", "task.", "interaction.", "full_compaction.", "plan.",
    "turn.step.retrying", "forked", "permission.set_mode",
)  # fmt: skip
Body = dict[str, Any]
Agents = Callable[["Log", list[str], str | None, Body], None]


class Log:
    """Tells the records of one file."""

    def __init__(self, strand: Thread, agents: Agents) -> None:
        self.strand = strand
        self.context: Body = {}
        self._agents = agents
        self._is_agent = bool(strand.user_actor)
        self._clock = Clock()
        self._model: str | None = None
        self._step = Step(strand)
        self._prompts: deque[Body] = deque()
        """Prompts that the context has not taken up yet."""
        self._anchors: list[int] = []
        """Where each turn begins that an undo may take back."""
        self._left: list[range] = []
        self._spawned: dict[str, Body] = {}
        """The arguments of the calls that started a subagent."""
        self._told: dict[str, Any] = {}
        """The prompt of the system and the tools, as they were last told."""

    def record(self, record: Any, place: str) -> None:
        """Tell one record, whatever it is."""
        kind = record.get("type") if isinstance(record, dict) else None
        if not isinstance(kind, str):
            self.strand.note_omission("skipped-record", place, "a record without a type")
            return
        ts = self._clock.time(record.get("time"))
        self.strand.last_ts = ts or self.strand.last_ts
        tell = _TELLERS.get(kind)
        if tell is not None:
            tell(self, record, ts, place)
        elif kind.startswith(_NOTICES):
            data: Body = {"kind": "notice", "event": format_kind(kind)}
            if rest := {name: value for name, value in record.items() if name not in _ENVELOPE}:
                data["record"] = rest
            self.strand.add_annotation(data, ts=ts)
        elif kind in _INTERRUPTED:
            self._flush()
            self.strand.add_annotation(
                {"kind": "interrupted", **pick_fields(record, "reason", "target")}, ts=ts
            )
        else:
            self.strand.note_omission("skipped-record", place, f"type {format_kind(kind)}")

    def finish(self) -> None:
        """No record is left: prompts that never got further are told, undone turns left out or
        wrapped."""
        self._flush()
        data = {"kind": "abandoned_branch", "detail": "these turns were undone"}
        for places in self._left:
            self.strand.draft.drop_branch(places.start, places.stop, data, self.strand.client)

    def _configure(self, record: Body, ts: str | None, place: str) -> None:
        # Since 2.1 the folder stands with what the model is told of its surroundings.
        disclosed = record.get("environmentDisclosure")
        record = {**disclosed, **record} if isinstance(disclosed, dict) else record
        facts = {
            name: value
            for key, name in _CONTEXT.items()
            if (value := record.get(key)) not in (None, "")
        }
        self._model = as_text(record.get("modelAlias")) or self._model
        changed = {name: value for name, value in facts.items() if self.context.get(name) != value}
        if changed:
            self.context |= changed
            self.strand.add_annotation({"kind": "context", **changed}, ts=ts)
        prompt = as_text(record.get("systemPrompt"))
        if prompt and prompt != self._told.get("system"):
            self._told["system"] = prompt
            self.strand.add_message("system", prompt, self.strand.client, ts=ts)

    def _tools(self, record: Body, ts: str | None, place: str) -> None:
        """The tools on offer: their names, or all that the model is told of them."""
        for name in ("names", "tools"):
            if record.get(name) is not None and record[name] != self._told.get(name):
                self._told[name] = record[name]
                self.strand.add_annotation({"kind": "tools", name: record[name]}, ts=ts)

    def _request(self, record: Body, ts: str | None, place: str) -> None:
        """A request of the API: of interest here for the model that it names."""
        self._model = as_text(record.get("model")) or self._model
        self.strand.note_omission("skipped-record", place, "type llm.request")

    def _prompt(self, record: Body, ts: str | None, place: str) -> None:
        """What was typed; as a rule the context takes it up as it is, a little later when the model
        is at work."""
        if record["type"] == "turn.prompt":
            self._flush()
        self._prompts.append(record)

    def _flush(self) -> None:
        """Prompts that the context did not take up as they are: what was typed."""
        while self._prompts:
            record = self._prompts.popleft()
            self._say(
                record.get("input"),
                record.get("origin"),
                self._clock.time(record.get("time")),
                is_typed=True,
            )

    def _message(self, record: Body, ts: str | None, place: str) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            self.strand.note_omission("skipped-record", place, "a message that is no object")
            return
        role, said, origin = message.get("role"), message.get("content"), message.get("origin")
        if role == "user":
            self._user(said, origin, ts)
        elif role == "assistant":
            self._assistant(message, ts, place)
        elif role == "tool":
            facts = {"is_error": True} if message.get("isError") is True else None
            self.strand.add_tool_result(
                as_text(message.get("toolCallId")), content(said), ts=ts, facts=facts
            )
        elif role in ("system", "developer"):
            self.strand.add_message("system", content(said), self.strand.client, ts=ts)
        else:
            self.strand.note_omission("skipped-record", place, f"role {format_kind(role)}")

    def _user(self, said: Any, origin: Any, ts: str | None) -> None:
        """A message in the user's place; the prompt that was typed for it is told once."""
        kind = _kind(origin)
        same = next((record for record in self._prompts if record.get("input") == said), None)
        if same is not None:
            self._prompts.remove(same)
            self._say(said, origin, ts)
        elif any(_kind(record.get("origin")) == kind for record in self._prompts):
            self._flush()
            self.strand.add_injected_message(content(said), ts=ts)
        else:
            self._say(said, origin, ts)

    def _say(self, said: Any, origin: Any, ts: str | None, *, is_typed: bool = False) -> None:
        """Words in the user's place, by where they came from; a command that was typed stands
        before what it became."""
        strand, kind = self.strand, _kind(origin)
        by_person = kind in (None, "user") or (
            isinstance(origin, dict) and origin.get("trigger") == "user-slash"
        )
        if by_person:
            self._anchors.append(strand.draft.count)
        if kind in (None, "user") or (by_person and is_typed):
            strand.add_message("user", content(said), strand.get_user_actor(), ts=ts)
        elif kind == "system_trigger" and self._is_agent:
            strand.add_message(
                "user", content(said), strand.get_user_actor(), ts=ts, visibility="internal"
            )
        else:
            event = strand.add_injected_message(content(said), ts=ts)
            if kind == "compaction_summary":
                strand.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _assistant(self, message: Body, ts: str | None, place: str) -> None:
        """An answer in one piece, as imports have it."""
        self.strand.set_model(self._model)
        step, parts, calls = Step(self.strand), message.get("content"), message.get("toolCalls")
        for part in (
            parts
            if isinstance(parts, list)
            else []
            if parts is None
            else [{"type": "text", "text": parts}]
        ):
            step.part(part, ts)
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            named = (
                function if isinstance(function, dict) else call if isinstance(call, dict) else {}
            )
            native = as_text(call.get("id")) if isinstance(call, dict) else None
            step.add_tool_call(
                native,
                as_text(named.get("name")),
                parse_arguments(named.get("arguments")),
                ts,
                place,
            )

    def _event(self, record: Body, ts: str | None, place: str) -> None:
        """What happens in a step of the model."""
        event = record.get("event")
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(kind, str):
            self.strand.note_omission("skipped-record", place, "an event without a type")
        elif kind == "step.begin":
            self._begin()
        elif kind == "content.part":
            self._open().part(event.get("part"), ts)
        elif kind == "tool.call":
            self._call(event, ts)
        elif kind == "tool.result":
            self._result(event, ts)
        elif kind == "step.end":
            self._step.spend(usage(event.get("usage")), ts)
            self._step.end(event.get("finishReason"), ts)
        else:
            self.strand.note_omission("skipped-record", place, f"event {format_kind(kind)}")

    def _begin(self) -> None:
        self.strand.model_actor = ""
        self._step = Step(self.strand)

    def _open(self) -> Step:
        """The step under way; its model is known only now, for the request stands behind the
        beginning."""
        if not self.strand.model_actor:
            self.strand.set_model(self._model)
        return self._step

    def _call(self, event: Body, ts: str | None) -> None:
        native, tool = as_text(event.get("toolCallId")), as_text(event.get("name"))
        given = event.get("args")
        self._open().add_tool_call(
            native, tool, given, ts, str(event.get("stepUuid")), as_text(event.get("description"))
        )
        if native and tool and tool.startswith(_SPAWNING):
            self._spawned[native] = given if isinstance(given, dict) else {}

    def _result(self, event: Body, ts: str | None) -> None:
        result, native = event.get("result"), as_text(event.get("toolCallId"))
        held = result if isinstance(result, dict) else {"output": result}
        output = content(held.get("output"))
        facts: Body = {"is_error": True} if held.get("isError") is True else {}
        facts |= pick_fields(held, "note", "message", "truncated")
        spawned = self._spawned.pop(native, None) if native else None
        if spawned is not None:
            names = _AGENT.findall(output) if isinstance(output, str) else []
            self._agents(self, names, self.strand.get_call_key(native), spawned)
        self.strand.add_tool_result(native, output, ts=ts, facts=facts or None)

    def _usage(self, record: Body, ts: str | None, place: str) -> None:
        """Counts that as a rule the end of the step has told already."""
        spent = usage(record.get("usage"))
        if record.get("usageScope") in (None, "turn"):
            self._step.spend(spent, ts)
        elif spent:
            data = {"kind": "usage", "scope": record["usageScope"], **pick_fields(record, "model")}
            self.strand.add_annotation(data, ts=ts, usage=spent)

    def _approval(self, record: Body, ts: str | None, place: str) -> None:
        data: Body = {"kind": "approval"}
        names = {
            "toolName": "tool_name",
            "toolCallId": "native_call_id",
            "action": "action",
            "sessionApprovalRule": "rule",
            "result": "result",
        }
        data |= {name: record[key] for key, name in names.items() if record.get(key) is not None}
        self.strand.add_annotation(data, ts=ts)

    def _compaction(self, record: Body, ts: str | None, place: str) -> None:
        """The context was shortened to a summary and the last prompts."""
        summary, seen = record.get("summary"), as_text(record.get("contextSummary"))
        if isinstance(summary, dict):
            summary = summary.get("content")
        text = content(summary) if summary is not None else ""
        event = self.strand.add_injected_message(seen or text, ts=ts)
        data: Body = {"kind": "compaction_summary"}
        if seen and text and text != seen:
            data["summary"] = text
        names = {
            "tokensBefore": "tokens_before",
            "tokensAfter": "tokens_after",
            "compactedCount": "messages_left_out",
        }
        data |= {name: record[key] for key, name in names.items() if type(record.get(key)) is int}
        self.strand.add_annotation(data, parent=event, ts=ts)
        self._anchors = []

    def _undo(self, record: Body, ts: str | None, place: str) -> None:
        """The last turns are taken back."""
        self._flush()
        count = record.get("count")
        if type(count) is not int or not 0 < count <= len(self._anchors):
            self.strand.note_omission("skipped-record", place, "type context.undo")
            return
        start = self._anchors[-count]
        del self._anchors[-count:]
        while self._left and self._left[-1].start >= start:
            self._left.pop()
        self._left.append(range(start, self.strand.draft.count))

    def _ended(self, record: Body, ts: str | None, place: str) -> None:
        """A turn is over; said only when it failed."""
        self._flush()
        if record.get("reason") in ("failed", "blocked") or record.get("error") is not None:
            self.strand.add_annotation(
                {"kind": "error", **pick_fields(record, "reason", "error")}, ts=ts
            )

    def _clear(self, record: Body, ts: str | None, place: str) -> None:
        self._anchors = []
        self.strand.add_annotation({"kind": "notice", "event": "context.clear"}, ts=ts)

    def _header(self, record: Body, ts: str | None, place: str) -> None:
        self.strand.last_ts = self._clock.time(record.get("created_at")) or self.strand.last_ts


def _kind(origin: Any) -> str | None:
    return as_text(origin.get("kind")) if isinstance(origin, dict) else None


_TELLERS: dict[str, Callable[[Log, Body, str | None, str], None]] = {
    "metadata": Log._header,
    "config.update": Log._configure,
    "profile.bind": Log._configure,
    "tools.set_active_tools": Log._tools,
    "llm.tools_snapshot": Log._tools,
    "llm.request": Log._request,
    "turn.prompt": Log._prompt,
    "turn.steer": Log._prompt,
    "turn.ended": Log._ended,
    "context.append_message": Log._message,
    "context.append_loop_event": Log._event,
    "context.apply_compaction": Log._compaction,
    "context.undo": Log._undo,
    "context.clear": Log._clear,
    "usage.record": Log._usage,
    "permission.record_approval_result": Log._approval,
}
