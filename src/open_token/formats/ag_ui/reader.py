"""Read AG-UI streams run by run, with what only a snapshot of all messages holds."""

from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.ag_ui.run_items import Item, RunBuilder
from open_token.formats.ag_ui.snapshots import SnapshotMerger
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.messages import Message
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the events into the draft."""
    draft.conversation["source_runtime"] = "web"
    draft.without_thoughts = "unknown"
    stream = _StreamReader(draft)
    unit = "line" if source.shape in ("lines", "events") else "record"
    for number, record in source.records():
        stream.read_record(record, f"{unit} {number}")
    stream.flush()


@dataclass(slots=True)
class _Subagent:
    """A subagent, and its span while that is open."""

    actor: str
    span: str | None
    name: str
    call: str | None = None


class _StreamReader:
    """Reads events one by one; a run is added to the draft when it is over."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._history = HistoryWriter(draft)
        self._run = RunBuilder(draft)
        self._snapshots = SnapshotMerger(self._history)
        self._subagents: dict[str, _Subagent] = {}

    def read_record(self, record: Any, place: str) -> None:
        kind = record.get("type") if isinstance(record, dict) else None
        if isinstance(kind, str):
            self._read_event(record, kind, place)
        elif isinstance(record, dict) and isinstance(record.get("messages"), list):
            # The input that a client sent to start the next run.
            self.flush()
            self._read_thread_id(record)
            self._run.add_input(record, place)
        else:
            self._draft.note_omission("unknown-event", place, f"event {format_kind(kind)}")

    def _read_event(self, event: JsonObject, kind: str, place: str) -> None:
        if kind == "RUN_STARTED":
            self._read_thread_id(event)
            self.flush()
        if self._run.add_event(event, kind, place):
            self.flush()

    def _read_thread_id(self, record: JsonObject) -> None:
        thread_id = as_text(record.get("threadId"))
        if thread_id:
            self._draft.conversation.setdefault("id", thread_id)

    def flush(self) -> None:
        """Add the items of the current run to the draft."""
        for item in self._snapshots.merge(self._run.take_items()):
            self._add_item(item)

    def _add_item(self, item: Item) -> None:
        if item.subagent_start is not None:
            self._start_subagent(item, item.subagent_start)
        elif item.subagent_end is not None:
            self._end_subagent(item, item.subagent_end)
        elif item.subagent and self._draft.subagents != "inline":
            self._note_left_out(item)
        elif item.annotation is not None:
            self._add_annotation(item, item.annotation)
        elif item.part is not None:
            message = Message(item.role, [item.part], name=item.name, ts=item.ts)
            self._history.add_message(message, self._build_stage(item))

    def _build_stage(self, item: Item) -> MessageContext:
        if item.subagent:
            subagent = self._get_subagent(item, item.subagent)
            return MessageContext(subagent.actor, item.place, span=subagent.span, ts=item.ts)
        name = item.name if item.role == "assistant" else None
        actor = self._draft.get_actor("model", name or "assistant")
        return MessageContext(actor, item.place, ts=item.ts)

    def _add_annotation(self, item: Item, data: JsonObject) -> None:
        subagent = self._subagents.get(item.subagent) if item.subagent else None
        self._draft.add_annotation(
            data,
            actor=subagent.actor if subagent else None,
            ts=item.ts,
            span=subagent.span if subagent else None,
            usage=_read_usage(item.usage) if item.usage else None,
        )

    def _get_subagent(self, item: Item, run_id: str) -> _Subagent:
        """Return the subagent of an item; start it here if no event announced it."""
        subagent = self._subagents.get(run_id)
        if subagent is None or subagent.span is None:
            name = subagent.name if subagent else run_id
            self._start_subagent(item, {"subagentRunId": run_id, "name": name})
        return self._subagents[run_id]

    def _start_subagent(self, item: Item, event: JsonObject) -> None:
        if self._draft.subagents == "none":
            self._note_left_out(item)
            return
        run_id = as_text(event.get("subagentRunId")) or ""
        name = as_text(event.get("name"))
        if not name:
            known = self._subagents.get(run_id)
            name = known.name if known else "subagent"
        actor = self._draft.get_actor("model", name, instance_id=run_id or None)
        data: JsonObject = {"kind": "subagent", "name": name, "run_id": run_id}
        if as_text(event.get("description")):
            data["spawn_reason"] = event["description"]
        parent = self._subagents.get(as_text(event.get("parentSubagentRunId")) or "")
        if parent is not None and parent.span:
            data["parent_span"] = parent.span
        if self._draft.subagents == "reference":
            data["reference"] = run_id
        call = as_text(event.get("parentToolCallId"))
        span = self._draft.start_span(data, actor, ts=item.ts, call=call)
        self._subagents[run_id] = _Subagent(actor, span, name, call)

    def _end_subagent(self, item: Item, data: JsonObject) -> None:
        subagent = self._subagents.get(item.subagent or "")
        if subagent is not None and subagent.span is not None:
            self._draft.end_span(subagent.span, data, ts=item.ts, call=subagent.call)
            subagent.span = None

    def _note_left_out(self, item: Item) -> None:
        self._draft.note_omission(
            "subagent", item.place, f"what a subagent did (subagents={self._draft.subagents})"
        )


def _read_usage(entry: JsonObject) -> Usage | None:
    """Return the counts of a run; the totals include cached and reasoning tokens."""
    return build_usage(
        input_tokens=entry.get("inputTokens"),
        output_tokens=entry.get("outputTokens"),
        reasoning_tokens=entry.get("reasoningTokens"),
        cache_read_tokens=entry.get("cachedInputTokens"),
        cache_write_tokens=entry.get("cacheWriteInputTokens"),
    )
