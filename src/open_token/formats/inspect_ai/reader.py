"""Read one sample of an Inspect AI log: its events in order, then its remaining final messages."""

from dataclasses import replace
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai import log_files
from open_token.formats.inspect_ai.message_pool import MessageLog, MessagePool
from open_token.formats.inspect_ai.messages import (
    Thread,
    read_answer,
    read_content,
    read_message,
    read_result,
    read_usage,
)
from open_token.formats.inspect_ai.spans import SpanTree
from open_token.formats.shared.fields import as_dicts, as_text, drop_nulls, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]
_USUAL_STOP_REASONS = ("stop", "tool_calls", None)
_SKIPPED_FIELDS = (
    "metadata",
    "store",
    "files",
    "setup",
    "timelines",
    "error_retries",
    "invalidation",
)
_CONTENT_FIELDS = ("messages", "events", "transcript", "input", "output")
_CHANGED_MESSAGE = "another form of a message that was read before"
_ANNOTATED_EVENTS = {
    "error": "error",
    "sample_limit": "stop",
    "interrupt": "interrupted",
    "compaction": "compaction",
    "info": "notice",
    "logger": "notice",
    "input": "notice",
    "approval": "notice",
    "score": "outcome",
}
"""Events that become annotations, and the kinds of these."""
_ANNOTATED_FIELDS = (
    "source",
    "interrupted",
    "tokens_before",
    "tokens_after",
    "data",
    "message",
    "limit",
    "input",
    "approver",
    "decision",
    "explanation",
    "type",
    "score",
    "scorer",
    "intermediate",
)
_MARKER_EVENTS = ("begin", "end")


def read(source: Source, draft: Draft) -> None:
    """Read the sample into the draft."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    sample = log_files.read_sample(source)
    _SampleReader(sample, log_files.read_header(source), draft).read()


def list_conversations(source: Source) -> list[Found]:
    """List every sample of every epoch."""
    return log_files.list_samples(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the sample that a part of the log belongs to."""
    return log_files.find_owner(source, at)


class _SampleReader:
    """Reads one sample."""

    def __init__(self, sample: Body, header: Body, draft: Draft) -> None:
        self._sample = sample
        self._header = header
        self._draft = draft
        self._runtime = draft.get_actor("system", "inspect")
        self._pool = MessagePool(sample, draft)
        hashes_by_id: dict[str, bytes] = {}
        self._main = Thread(draft, self._runtime, MessageLog(hashes_by_id))
        self._spans = SpanTree(draft, self._main, hashes_by_id)
        self._events = _get_events(sample)
        self._started_at: str | None = None
        self._has_usage = False
        self._multiline_prompts: list[str] = []

    def read(self) -> None:
        self._read_facts()
        self._note_skipped_fields()
        self._read_events(self._events, "")
        self._spans.close()
        self._read_final_messages()
        self._read_lone_output()
        self._read_unseen_results()
        self._read_outcome()

    def _read_facts(self) -> None:
        """Read what is known of the sample and the evaluation."""
        sample = self._sample
        spec = _get_object(self._header, "eval")
        facts = {
            "task": as_text(spec.get("task")),
            "model": as_text(spec.get("model")),
            "dataset": as_text(_get_object(spec, "dataset").get("name")),
            "sample_id": sample.get("id"),
            "epoch": sample.get("epoch"),
            "version": as_text(_get_object(spec, "packages").get("inspect_ai")),
            "choices": sample.get("choices") or None,
        }
        facts = drop_nulls(facts)
        self._draft.add_annotation({"kind": "context"} | facts, actor=self._runtime)
        conversation = self._draft.conversation
        # A log holds each sample once per epoch; only newer logs give it a uuid.
        sample_name = f"{sample.get('id')}_epoch_{sample.get('epoch', 1)}"
        run_id = as_text(spec.get("run_id")) or as_text(spec.get("task_id"))
        uuid = as_text(sample.get("uuid"))
        if uuid:
            conversation["id"] = uuid
        elif run_id:
            conversation["id"] = f"{run_id}_{sample_name}"
        if facts.get("task"):
            conversation["title"] = f"{facts['task']} {sample_name}"
        self._main.model = facts.get("model")
        provider = identify_provider(self._main.model)
        if provider:
            conversation["provider"] = provider
        started_at = to_utc(sample.get("started_at"))
        if started_at:
            conversation["started_at"] = started_at

    def _note_skipped_fields(self) -> None:
        if self._header and "status" not in self._header:
            self._draft.note_omission(
                "no-header", "header.json", "the log was cut off before its results were written"
            )
        if self._sample.keys().isdisjoint(_CONTENT_FIELDS):
            self._draft.note_omission(
                "no-content", "sample", "a sample without messages and events"
            )
        for name in _SKIPPED_FIELDS:
            if self._sample.get(name):
                self._draft.note_omission("skipped-field", "sample", f"field {name}")

    def _read_events(self, events: list[Any], label: str) -> None:
        for number, event in enumerate(events, 1):
            place = f"{label}event {number}"
            if isinstance(event, dict):
                self._read_event(event, place)
            else:
                self._draft.note_omission("unknown-record", place, "an event that is no object")

    def _read_event(self, event: Body, place: str) -> None:
        kind = event.get("event")
        if kind == "model":
            self._read_model_event(event, place)
        elif kind == "tool":
            self._read_tool_event(event, place)
        elif kind == "subtask":
            self._read_subtask_event(event, place)
        elif kind == "span_begin":
            self._spans.begin_span(event)
        elif kind == "span_end":
            self._spans.end_span(event)
        elif kind == "step":
            self._spans.read_step(event)
        elif kind == "sample_init":
            self._read_init_event(event)
        elif isinstance(kind, str) and kind in _ANNOTATED_EVENTS:
            self._annotate_event(event, kind)
        elif kind not in _MARKER_EVENTS:
            self._draft.note_omission("skipped-event", place, f"event {format_kind(kind)}")

    def _read_init_event(self, event: Body) -> None:
        self._started_at = to_utc(event.get("timestamp"))
        if self._started_at:
            self._draft.conversation.setdefault("started_at", self._started_at)

    def _annotate_event(self, event: Body, kind: str) -> None:
        thread = self._spans.get_thread(event, opens=False)
        if thread.is_muted:
            return
        event = self._pool.resolve(event)
        is_scored = bool(self._sample.get("scores") or self._sample.get("score"))
        if kind == "score" and is_scored and event.get("intermediate") is not True:
            # The outcome of the sample repeats final scores.
            return
        data: Body = {"kind": _ANNOTATED_EVENTS[kind]}
        if data["kind"] == "notice":
            data["subtype"] = kind
        data |= pick_fields(event, *_ANNOTATED_FIELDS)
        error = event.get("error")
        if isinstance(error, dict):
            data |= pick_fields(error, "message", "traceback")
        call = event.get("call")
        if isinstance(call, dict):
            data |= {"native_call_id": call.get("id"), "tool_name": call.get("function")}
        ts = to_utc(event.get("timestamp"))
        self._draft.add_annotation(data, actor=self._runtime, ts=ts, span=thread.span)

    def _read_model_event(self, event: Body, place: str) -> None:
        """Read a call of a model: what is new in its input, then its answer."""
        thread = self._spans.get_thread(event)
        thread.records += 1
        if thread.is_muted:
            return
        messages = event.get("input")
        if not messages and event.get("input_refs") is not None:
            messages = self._pool.get_messages(event["input_refs"])
        if not isinstance(messages, list):
            messages = []
        self._annotate_request(event, thread, messages, place)
        self._read_messages(messages, thread, place)
        if event.get("call"):
            self._draft.note_omission(
                "skipped-field", place, "the raw request to the provider and its response"
            )
        self._read_output(event, thread, place)

    def _annotate_request(
        self, event: Body, thread: Thread, messages: list[Any], place: str
    ) -> None:
        if thread.log.is_new_request(messages):
            # A critique, a retry or a shortened context.
            self._draft.add_annotation(
                {"kind": "new_request"}, actor=self._runtime, span=thread.span
            )
        names = [as_text(tool.get("name")) for tool in as_dicts(event.get("tools"))]
        tools = [name for name in names if name]
        if tools and tools != thread.tools:
            thread.tools = tools
            self._draft.add_annotation(
                {"kind": "tools", "names": tools}, actor=self._runtime, span=thread.span
            )
            note_tool_definitions(self._draft.note_omission, event.get("tools"), place)

    def _read_messages(self, messages: list[Any], thread: Thread, place: str) -> None:
        """Read the messages of an input that were not read before."""
        for message in thread.log.skip_repeated(messages):
            if not isinstance(message, dict):
                self._draft.note_omission("unknown-record", place, "a message that is no object")
                continue
            message = self._pool.resolve(message)
            if not thread.log.add(message):
                if thread.log.has_changed:
                    self._draft.note_omission("changed-message", place, _CHANGED_MESSAGE)
                continue
            self._read_new_message(message, thread, place)

    def _read_new_message(self, message: Body, thread: Thread, place: str) -> None:
        role = message.get("role")
        if role == "tool":
            event = thread.find_tool_event(as_text(message.get("tool_call_id")))
            ts, facts = _get_tool_facts(event)
            read_message(message, thread, place, ts, facts)
            return
        if role != "user":
            read_message(message, thread, place)
            return
        if place == "messages" and self._is_merged(message):
            self._draft.note_omission("changed-message", place, _CHANGED_MESSAGE)
            return
        ts = self._started_at if message.get("source") == "input" else None
        read_message(message, thread, place, ts)
        content = read_content(message)
        if isinstance(content, str) and "\n" in content:
            self._multiline_prompts.append(f"\n{content}\n")

    def _is_merged(self, message: Body) -> bool:
        """Return whether a final message was sent as a part of another.

        Inspect merges consecutive messages of one role before it sends them.
        """
        content = read_content(message)
        if message.get("source") == "input" or not isinstance(content, str):
            return False
        return any(f"\n{content}\n" in prompt for prompt in self._multiline_prompts)

    def _read_output(self, event: Body, thread: Thread, place: str) -> None:
        """Read the answers to a call of a model; those after the first are alternatives."""
        output = self._pool.resolve(event.get("output"))
        if not isinstance(output, dict):
            output = {}
        ts = to_utc(event.get("completed")) or to_utc(event.get("timestamp"))
        model = as_text(output.get("model")) or as_text(event.get("model"))
        usage = read_usage(output.get("usage"))
        if usage is not None:
            self._has_usage = True
        for number, choice in enumerate(as_dicts(output.get("choices")), 1):
            message = choice.get("message")
            if not isinstance(message, dict):
                self._draft.note_omission("no-content", place, "a choice without a message")
                continue
            first = self._draft.count
            answer_thread = thread
            if number == 1:
                thread.log.add_answer(message)
            else:
                # Calls of an alternative never ran: they must not wait for results of the thread.
                answer_thread = replace(thread, keys={})
            answer_model = as_text(message.get("model")) or model
            read_answer(message, answer_thread, place, answer_model, ts, usage)
            usage = None
            if choice.get("stop_reason") not in _USUAL_STOP_REASONS:
                data = {"kind": "message_facts", "finish_reason": choice["stop_reason"]}
                parent = answer_thread.last_event
                self._draft.add_annotation(data, parent=parent, ts=ts, span=thread.span)
            if number > 1:
                data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
                self._draft.drop_branch(first, self._draft.count, data, thread.get_actor(model))
        error = event.get("error") or output.get("error")
        if error:
            self._draft.add_annotation(
                {"kind": "api_error", "error": error}, actor=self._runtime, ts=ts, span=thread.span
            )

    def _read_tool_event(self, event: Body, place: str) -> None:
        """Record the run of a tool; its result is read where the model received it."""
        native_id = as_text(event.get("id"))
        if native_id:
            self._spans.get_thread(event, opens=False).tool_events[native_id] = event
        self._spans.read_tool(event)
        if event.get("events"):
            data = {"kind": "subagent", "subagent_type": event.get("function")}
            self._read_nested(event["events"], data, event, place)

    def _read_subtask_event(self, event: Body, place: str) -> None:
        """Read a part of the work that has its own events."""
        data = {
            "kind": "subagent",
            "subagent_type": event.get("name"),
            "spawn_reason": event.get("input"),
        }
        self._read_nested(event.get("events"), self._pool.resolve(data), event, place)

    def _read_nested(self, events: Any, data: Body, event: Body, place: str) -> None:
        if any(nested.get("event") == "model" for nested in as_dicts(events)):
            with self._spans.enter_nested(data, event):
                self._read_events(events, f"{place}, ")
        elif events:
            self._draft.note_omission(
                "skipped-event", place, "events inside a tool or a subtask that called no model"
            )

    def _read_final_messages(self) -> None:
        """Read the final messages that no event showed."""
        messages = self._sample.get("messages")
        if messages is None and isinstance(self._sample.get("message_refs"), list):
            messages = self._pool.get_messages(self._sample["message_refs"])
        if not isinstance(messages, list):
            messages = []
        roles = [message.get("role") for message in as_dicts(messages)]
        if not self._main.has_prompt and "user" not in roles:
            messages = [*_build_prompt(self._sample.get("input")), *messages]
        self._read_messages(messages, self._main, "messages")

    def _read_lone_output(self) -> None:
        """Read the last answer, which may be only in the output if there are no events."""
        output = self._pool.resolve(self._sample.get("output"))
        if not isinstance(output, dict) or self._has_usage or self._events:
            return
        for choice in as_dicts(output.get("choices"))[:1]:
            message = choice.get("message")
            if isinstance(message, dict) and self._main.log.is_new_answer(message):
                read_answer(message, self._main, "output", as_text(output.get("model")), None)

    def _read_unseen_results(self) -> None:
        """Read results that no model received because the sample ended, from the tools' events."""
        for thread in self._spans.threads:
            for native_id, key in thread.keys.items():
                event = thread.find_tool_event(native_id)
                if event is None or not self._draft.is_call_open(key) or event.get("pending"):
                    continue
                ts, facts = _get_tool_facts(event)
                message = {
                    "content": event.get("result"),
                    "error": event.get("error"),
                    "tool_call_id": native_id,
                }
                read_result(self._pool.resolve(message), thread, ts, facts)

    def _read_outcome(self) -> None:
        """Read scores, limits and errors of the sample, and token totals where no event had any."""
        sample = self._sample
        data: Body = {"kind": "outcome"}
        scores = sample.get("scores")
        if not scores and sample.get("score"):
            # Logs of 2024 have a single score.
            scores = {"score": sample["score"]}
        scores = self._pool.resolve(scores)
        if isinstance(scores, dict) and scores:
            data["scores"] = {name: _read_score(score) for name, score in scores.items()}
            if any(isinstance(score, dict) and score.get("metadata") for score in scores.values()):
                self._draft.note_omission("skipped-field", "scores", "metadata of a score")
        data |= pick_fields(sample, "target", "limit")
        data |= pick_fields(self._header, "status")
        error = sample.get("error")
        if isinstance(error, dict):
            self._draft.add_annotation(
                {"kind": "error"} | pick_fields(error, "message", "traceback"), actor=self._runtime
            )
        self._draft.add_annotation(data, actor=self._runtime, ts=to_utc(sample.get("completed_at")))
        totals = sample.get("model_usage")
        if self._has_usage or not isinstance(totals, dict):
            return
        for model, usage in totals.items():
            self._draft.add_annotation(
                {"kind": "usage", "model": model}, actor=self._runtime, usage=read_usage(usage)
            )


def _get_object(body: Body, name: str) -> Body:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _get_events(sample: Body) -> list[Any]:
    """Return the events of the sample, which logs of 2024 call its transcript."""
    events = sample.get("events")
    transcript = sample.get("transcript")
    if not isinstance(events, list) and isinstance(transcript, dict):
        events = transcript.get("events")
    return events if isinstance(events, list) else []


def _build_prompt(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "user", "content": value, "source": "input"}]
    return value if isinstance(value, list) else []


def _read_score(score: Any) -> Any:
    if not isinstance(score, dict):
        return score
    return {
        name: value
        for name, value in score.items()
        if name not in ("metadata", "history") and value is not None
    }


def _get_tool_facts(event: Body | None) -> tuple[str | None, Body | None]:
    """Return when a tool was done, and what else is known of its run."""
    if event is None:
        return None, None
    facts = pick_fields(event, "working_time", "truncated", "agent")
    if event.get("failed"):
        facts["failed"] = True
    return to_utc(event.get("completed")), facts
