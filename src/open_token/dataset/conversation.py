"""One exported conversation with everything that a dataset says about it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import orjson

from open_token.context import Context
from open_token.errors import InputError
from open_token.jsontools.objects import as_object, as_text, get_data
from open_token.library.index.events import EventReader
from open_token.model.document import Event, Record
from open_token.model.omissions import summarize_omissions
from open_token.pipeline import MAX_BUFFERED, BoundedBuffer, Receipt, export
from open_token.sources.source import Source
from open_token.writers.trajectory import AgentRun, Losses, build_agent_runs

JsonObject = dict[str, Any]
FindCost = Callable[[EventReader], float | None]

_COMPACTIONS = ("compaction", "compaction_summary")
_INTERRUPTIONS = ("interrupted", "aborted", "turn_aborted")
_ERRORS = ("error", "api_error", "turn_failed")
_VERSIONS = ("version", "cli_version", "agent_version")
# Names that data sets and agents give to the outcome of a task, most telling first.
_REWARDS = ("reward", "score", "resolved", "success")
_MAX_LABEL_DEPTH = 3


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The columns that every profile has, in their order; `schema` derives the Arrow types."""

    content_hash: str
    conversation_id: str
    title: str | None
    runtime: str
    runtime_version: str | None
    provider: str | None
    models: list[str]
    started_at: str | None
    ended_at: str | None
    cwd: str | None
    git_branch: str | None
    event_count: int
    prompt_count: int
    call_count: int
    failed_call_count: int
    missing_result_count: int
    subagent_count: int
    abandoned_branch_count: int
    compaction_count: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    characters: int
    reward: float | None
    success: bool | None
    error: str | None
    interrupted: bool
    truncated: bool
    labels: str | None
    fidelity: float
    omissions: str | None
    redaction: str
    redaction_notes: list[str]
    source: str
    source_root: str | None
    open_token_version: str


@dataclass
class ExportedConversation:
    """A document as an export writes it, and what is known about how it was made."""

    document: JsonObject
    receipt: Receipt
    source: str
    """The name of the source, relative to what the user named."""
    prices: FindCost

    @classmethod
    def of(
        cls, source: Source, reader: str, name: str, context: Context, prices: FindCost
    ) -> "ExportedConversation":
        """Export one conversation in memory; one that is too long for that is an error."""
        out = BoundedBuffer(MAX_BUFFERED, _too_long())
        options = context.options.changed(mode="json", pretty=False)
        receipt = export(source, out, replace(context, options=options), reader)
        return cls(orjson.loads(out.getvalue()), receipt, name, prices)

    @property
    def content_hash(self) -> str:
        """The hash of the events, which is the same for copies of a session."""
        return str(self.document["integrity"]["events_hash"])

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return str(self.document["conversation"]["id"])

    @property
    def events(self) -> list[Event]:
        """The events of the document."""
        events: list[Event] = self.document["events"]
        return events

    @cached_property
    def record(self) -> Record:
        """The document as writers take it."""
        document = self.document
        return Record(document["conversation"], document["participants"], document["events"])

    @cached_property
    def losses(self) -> Losses:
        """Collects what chat messages cannot hold."""
        return Losses("messages")

    @cached_property
    def main_run(self) -> AgentRun:
        """The run of the main conversation, with its subagents."""
        return build_agent_runs(self.record, self.losses)

    @cached_property
    def first_prompt(self) -> str | None:
        """The first words of a person."""
        for event in self.events:
            if event.get("type") == "message" and event.get("role") == "user":
                text = as_object(event.get("content")).get("text")
                if isinstance(text, str) and event.get("visibility") != "internal":
                    return text
        return None

    @cached_property
    def facts(self) -> Facts:
        """What every profile says about the conversation."""
        counts = _count_events(self.record)
        annotations = _list_annotations(self.events)
        labels = _collect_labels(annotations)
        reward = _find_reward(labels)
        conversation = self.document["conversation"]
        redaction = conversation.get("redaction", {})
        times = [event["ts"] for event in self.events if "ts" in event]
        omissions = self.receipt.notes
        models = [participant.get("model") for participant in self.document["participants"]]
        return Facts(
            content_hash=self.content_hash,
            conversation_id=self.id,
            title=self.receipt.title,
            runtime=self.receipt.reader,
            runtime_version=_find_version(annotations),
            provider=conversation.get("provider"),
            models=list(dict.fromkeys(model for model in models if model)),
            started_at=conversation.get("started_at") or min(times, default=None),
            ended_at=max(times, default=None),
            cwd=counts.cwd or None,
            git_branch=counts.branch or None,
            event_count=len(self.events),
            prompt_count=counts.prompts,
            call_count=len(counts.calls),
            failed_call_count=sum(call.has_failed for call in counts.calls),
            missing_result_count=self.receipt.missing_results,
            subagent_count=_count_spans(self.events, "subagent"),
            abandoned_branch_count=_count_spans(self.events, "abandoned_branch"),
            compaction_count=_count_kinds(annotations, _COMPACTIONS),
            input_tokens=sum(row.input for row in counts.usage),
            output_tokens=sum(row.output for row in counts.usage),
            reasoning_tokens=sum(row.reasoning for row in counts.usage),
            cache_read_tokens=sum(row.cache_read for row in counts.usage),
            cache_write_tokens=sum(row.cache_write for row in counts.usage),
            cost_usd=self.prices(counts),
            characters=counts.characters,
            reward=reward,
            success=None if reward is None else reward > 0,
            error=_find_error(annotations),
            interrupted=_count_kinds(annotations, _INTERRUPTIONS) > 0,
            truncated=any(_is_truncated(event) for event in self.events),
            labels=orjson.dumps(labels).decode() if labels else None,
            fidelity=_estimate_fidelity(counts.characters, sum(note.size for note in omissions)),
            omissions=summarize_omissions(omissions) or None,
            redaction=redaction.get("mode", "none"),
            redaction_notes=redaction.get("notes", []),
            source=self.source,
            source_root=as_object(self.document["integrity"].get("source")).get("root"),
            open_token_version=self.document["open_token_version"],
        )


def _too_long() -> InputError:
    return InputError(
        f"the document of this conversation is larger than {MAX_BUFFERED >> 20} MiB",
        help="cut it to what fits, for example max_bytes=200000000 drop=oldest",
        code="output.long",
    )


def _count_events(record: Record) -> EventReader:
    counts = EventReader(counts_lines=False)
    counts.meet(record)
    for event in record.events:
        counts.take(event)
        counts.pop_rows()
    return counts


def _estimate_fidelity(kept: int, omitted: int) -> float:
    """Return the share of what was said that the document has, by its own notes on omissions."""
    return kept / (kept + omitted) if omitted else 1.0


def _count_spans(events: list[Event], kind: str) -> int:
    starts = (event for event in events if event.get("type") == "span_start")
    return sum(get_data(event).get("kind", "subagent") == kind for event in starts)


def _list_annotations(events: list[Event]) -> list[JsonObject]:
    return [get_data(event) for event in events if event.get("type") == "annotation"]


def _count_kinds(annotations: list[JsonObject], kinds: tuple[str, ...]) -> int:
    return sum(data.get("kind") in kinds for data in annotations)


def _find_version(annotations: list[JsonObject]) -> str | None:
    """Return the version of the agent that its first description names."""
    for data in annotations:
        if data.get("kind") not in ("context", "settings"):
            continue
        for name in _VERSIONS:
            if as_text(data.get(name)):
                return as_text(data[name])
    return None


def _collect_labels(annotations: list[JsonObject]) -> JsonObject:
    """Return what the record says about the outcome of a task."""
    labels: JsonObject = {}
    for data in annotations:
        if data.get("kind") == "labels":
            labels |= as_object(data.get("labels"))
        elif data.get("kind") == "outcome":
            labels |= {name: value for name, value in data.items() if name != "kind"}
    return labels


def _find_reward(labels: JsonObject, depth: int = 0) -> float | None:
    """Return the first number or truth value with the name of a reward, outermost first."""
    for name in _REWARDS:
        value = labels.get(name)
        if isinstance(value, bool | int | float):
            return float(value)
    if depth < _MAX_LABEL_DEPTH:
        for value in labels.values():
            reward = _find_reward(as_object(value), depth + 1)
            if reward is not None:
                return reward
    return None


def _find_error(annotations: list[JsonObject]) -> str | None:
    """Return the error that a conversation ended with: one after which nothing was said."""
    for data in reversed(annotations):
        if data.get("kind") in _ERRORS:
            return as_text(data.get("message")) or as_text(data.get("error")) or str(data["kind"])
    return None


def _is_truncated(event: Event) -> bool:
    data = get_data(event)
    return data.get("truncated") is True or data.get("kind") == "dropped"
