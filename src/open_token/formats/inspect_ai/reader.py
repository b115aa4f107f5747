"""Tells one sample of an Inspect AI log: its events in order, then what stands only among its final
messages."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai import log_files
from open_token.formats.inspect_ai import log_files as log
from open_token.formats.inspect_ai.message_pool import Pool, Told
from open_token.formats.inspect_ai.messages import (
    Thread,
    content,
    tell,
    tell_answer,
    tell_result,
    usage_of,
)
from open_token.formats.inspect_ai.side_events import ASIDES, CONSUMED, aside
from open_token.formats.inspect_ai.spans import Spans
from open_token.formats.shared.fields import as_dicts, as_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]
_USUAL_ENDS = ("stop", "tool_calls", None)
_LEFT = ("metadata", "store", "files", "setup", "timelines", "error_retries", "invalidation")


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    reading = _Reading(log.sample(source), log.header(source), draft)
    reading.meet()
    reading.events(reading.all_events(), "")
    reading.finish()


_TOLD = ("messages", "events", "transcript", "input", "output")


class _Reading:
    """One sample."""

    def __init__(self, sample: Body, header: Body, draft: Draft) -> None:
        self._sample = sample
        self._header = header
        self._draft = draft
        self._runtime = draft.get_actor("system", "inspect")
        self._pool = Pool(sample, draft)
        self._main = Thread(draft, self._runtime, Told({}))
        self._spans = Spans(draft, self._main)
        self._begun: str | None = None
        self._counted = False
        self._heard: list[str] = []
        self._kinds: dict[Any, Callable[[Body, str], None]] = {
            "model": self._model,
            "tool": self._tool,
            "subtask": self._subtask,
            "span_begin": lambda event, place: self._spans.begin(event),
            "span_end": lambda event, place: self._spans.end(event),
            "step": lambda event, place: self._spans.step(event),
            "sample_init": self._init,
        }

    def meet(self) -> None:
        """What is known of the sample and the run."""
        sample, found = self._sample, self._header.get("eval")
        spec: Body = found if isinstance(found, dict) else {}
        dataset, packages = spec.get("dataset"), spec.get("packages")
        facts = {
            "task": as_text(spec.get("task")),
            "model": as_text(spec.get("model")),
            "dataset": as_text(dataset.get("name")) if isinstance(dataset, dict) else None,
            "sample_id": sample.get("id"),
            "epoch": sample.get("epoch"),
            "version": as_text(packages.get("inspect_ai")) if isinstance(packages, dict) else None,
            "choices": sample.get("choices") or None,
        }
        known = {name: value for name, value in facts.items() if value is not None}
        self._draft.add_annotation({"kind": "context"} | known, actor=self._runtime)
        run = as_text(spec.get("run_id")) or as_text(spec.get("task_id"))
        conversation = self._draft.conversation
        part = f"{sample.get('id')}_epoch_{sample.get('epoch', 1)}"
        if name := as_text(sample.get("uuid")) or (f"{run}_{part}" if run else None):
            conversation["id"] = name
        if task := known.get("task"):
            conversation["title"] = f"{task} {part}"
        self._main.model = known.get("model")
        if provider := identify_provider(self._main.model):
            conversation["provider"] = provider
        if started := to_utc(sample.get("started_at")):
            conversation["started_at"] = started
        if "status" not in self._header and self._header:
            self._draft.note_omission(
                "no-header", "header.json", "the log broke off before its results were written"
            )
        if sample.keys().isdisjoint(_TOLD):
            self._draft.note_omission(
                "no-content", "sample", "a sample without messages and events"
            )
        for name in _LEFT:
            if sample.get(name):
                self._draft.note_omission("skipped-field", "sample", f"field {name}")

    def all_events(self) -> list[Any]:
        """The events of the sample, which once were called its transcript."""
        events, old = self._sample.get("events"), self._sample.get("transcript")
        if not isinstance(events, list) and isinstance(old, dict):
            events = old.get("events")
        return events if isinstance(events, list) else []

    def events(self, events: list[Any], label: str) -> None:
        """Tell events in order."""
        for number, event in enumerate(events, 1):
            place = f"{label}event {number}"
            if not isinstance(event, dict):
                self._draft.note_omission("unknown-record", place, "an event that is no object")
                continue
            kind = event.get("event")
            tell_kind = self._kinds.get(kind) if isinstance(kind, str) else None
            if tell_kind is not None:
                tell_kind(event, place)
            elif isinstance(kind, str) and kind in ASIDES:
                thread = self._spans.thread(event, opens=False)
                if not thread.muted:
                    scored = bool(self._sample.get("scores") or self._sample.get("score"))
                    aside(self._pool.whole(event), kind, thread, scored)
            elif kind not in CONSUMED:
                self._draft.note_omission("skipped-event", place, f"event {format_kind(kind)}")

    def _init(self, event: Body, place: str) -> None:
        """The sample begins: what was put in, was put in now."""
        self._begun = to_utc(event.get("timestamp"))
        if self._begun:
            self._draft.conversation.setdefault("started_at", self._begun)

    def _model(self, event: Body, place: str) -> None:
        """A call of a model: what it was given that was not told yet, then its answer."""
        thread = self._spans.thread(event)
        thread.records += 1
        if thread.muted:
            return
        given = event.get("input")
        if event.get("input_refs") is not None and not given:
            given = self._pool.referred(event["input_refs"])
        messages = given if isinstance(given, list) else []
        self._announce(event, thread, messages, place)
        self._messages(messages, thread, place)
        if event.get("call"):
            self._draft.note_omission(
                "skipped-field", place, "the provider's own request and answer"
            )
        self._answer(self._pool.whole(event.get("output")), event, thread, place)

    def _announce(self, event: Body, thread: Thread, messages: list[Any], place: str) -> None:
        """A call that does not go on from the answer before it says so: a critique, a retry, a
        shortened context."""
        if thread.told.leaves(messages):
            self._draft.add_annotation(
                {"kind": "new_request"}, actor=self._runtime, span=thread.span
            )
        tools = [
            name for tool in as_dicts(event.get("tools")) if (name := as_text(tool.get("name")))
        ]
        if tools and tools != thread.tools:
            thread.tools = tools
            self._draft.add_annotation(
                {"kind": "tools", "names": tools}, actor=self._runtime, span=thread.span
            )
            note_tool_definitions(self._draft.note_omission, event.get("tools"), place)

    def _messages(self, messages: list[Any], thread: Thread, place: str) -> None:
        for message in thread.told.rest(messages):
            if not isinstance(message, dict):
                self._draft.note_omission("unknown-record", place, "a message that is no object")
                continue
            whole = self._pool.whole(message)
            if not thread.told.is_new(whole):
                if thread.told.changed:
                    self._draft.note_omission(
                        "changed-message", place, "another form of a message that was told before"
                    )
                continue
            if whole.get("role") == "user" and place == "messages" and self._is_joined(whole):
                self._draft.note_omission(
                    "changed-message", place, "another form of a message that was told before"
                )
                continue
            ts = (
                self._begun
                if whole.get("source") == "input" and whole.get("role") == "user"
                else None
            )
            facts = None
            if whole.get("role") == "tool":
                ts, facts = _ran(thread.run_of(as_text(whole.get("tool_call_id"))))
            tell(whole, thread, place, ts, facts)
            if (
                whole.get("role") == "user"
                and isinstance(words := content(whole), str)
                and "\n" in words
            ):
                self._heard.append(f"\n{words}\n")

    def _is_joined(self, message: Body) -> bool:
        """Whether a final message was heard as a part of another: those in a row of one role are
        sent as one."""
        words = content(message)
        if message.get("source") == "input" or not isinstance(words, str):
            return False
        return any(f"\n{words}\n" in heard for heard in self._heard)

    def _answer(self, output: Any, event: Body, thread: Thread, place: str) -> None:
        found: Body = output if isinstance(output, dict) else {}
        ts = to_utc(event.get("completed")) or to_utc(event.get("timestamp"))
        model = as_text(found.get("model")) or as_text(event.get("model"))
        usage = usage_of(found.get("usage"))
        self._counted = self._counted or usage is not None
        for number, choice in enumerate(as_dicts(found.get("choices")), 1):
            message = choice.get("message")
            if not isinstance(message, dict):
                self._draft.note_omission("no-content", place, "a choice without a message")
                continue
            first = self._draft.count
            speaker = thread if number == 1 else replace(thread, keys={})
            if number == 1:
                thread.told.expect(message)
            tell_answer(message, speaker, place, as_text(message.get("model")) or model, ts, usage)
            usage = None
            if choice.get("stop_reason") not in _USUAL_ENDS:
                data = {"kind": "message_facts", "finish_reason": choice["stop_reason"]}
                self._draft.add_annotation(data, parent=speaker.last, ts=ts, span=thread.span)
            if number > 1:
                data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
                self._draft.drop_branch(first, self._draft.count, data, thread.actor(model))
        if error := event.get("error") or found.get("error"):
            self._draft.add_annotation(
                {"kind": "api_error", "error": error}, actor=self._runtime, ts=ts, span=thread.span
            )

    def _tool(self, event: Body, place: str) -> None:
        """A tool ran: when, and what came of it; its result is told where the model got to see
        it."""
        if native := as_text(event.get("id")):
            self._spans.thread(event, opens=False).ran[native] = event
        self._spans.tool(event)
        if nested := event.get("events"):
            self._nested(
                nested, {"kind": "subagent", "subagent_type": event.get("function")}, event, place
            )

    def _subtask(self, event: Body, place: str) -> None:
        """A part of the work with events of its own."""
        data = {
            "kind": "subagent",
            "subagent_type": event.get("name"),
            "spawn_reason": event.get("input"),
        }
        self._nested(event.get("events"), self._pool.whole(data), event, place)

    def _nested(self, events: Any, data: Body, event: Body, place: str) -> None:
        if isinstance(events, list) and any(
            isinstance(part, dict) and part.get("event") == "model" for part in events
        ):
            with self._spans.inside(data, event):
                self.events(events, f"{place}, ")
        elif events:
            self._draft.note_omission(
                "skipped-event", place, "events inside a tool or a subtask that called no model"
            )

    def finish(self) -> None:
        """What the events did not show: final messages, results that no model saw, scores, sums."""
        self._spans.close()
        final = self._sample.get("messages")
        if final is None and isinstance(self._sample.get("message_refs"), list):
            final = self._pool.referred(self._sample["message_refs"])
        messages = final if isinstance(final, list) else []
        if not self._main.asked and not any(
            message.get("role") == "user" for message in as_dicts(messages)
        ):
            given = self._sample.get("input")
            asked = (
                [{"role": "user", "content": given, "source": "input"}]
                if isinstance(given, str)
                else given
            )
            messages = [*(asked if isinstance(asked, list) else []), *messages]
        self._messages(messages, self._main, "messages")
        self._last_output()
        for thread in self._spans.all():
            for native, key in thread.keys.items():
                self._unseen(native, key, thread)
        self._outcome()

    def _last_output(self) -> None:
        """Without events the last answer may stand alone."""
        output = self._pool.whole(self._sample.get("output"))
        if isinstance(output, dict) and not self._counted and not self.all_events():
            for choice in as_dicts(output.get("choices"))[:1]:
                message = choice.get("message")
                if isinstance(message, dict) and self._main.told.is_new_answer(message):
                    tell_answer(message, self._main, "output", as_text(output.get("model")), None)

    def _unseen(self, native: str, key: str, thread: Thread) -> None:
        """A call whose result no model saw, because the sample ended: the tool's own record has
        it."""
        event = thread.run_of(native)
        if event is None or not self._draft.is_call_open(key) or event.get("pending"):
            return
        ts, facts = _ran(event)
        message = {
            "content": event.get("result"),
            "error": event.get("error"),
            "tool_call_id": native,
        }
        tell_result(self._pool.whole(message), thread, ts, facts)

    def _outcome(self) -> None:
        sample = self._sample
        data: Body = {"kind": "outcome"}
        scores = self._pool.whole(
            sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else None)
        )
        if isinstance(scores, dict) and scores:
            data["scores"] = {name: _score(score) for name, score in scores.items()}
            if any(isinstance(score, dict) and score.get("metadata") for score in scores.values()):
                self._draft.note_omission("skipped-field", "scores", "metadata of a score")
        data |= pick_fields(sample, "target") | pick_fields(sample, "limit")
        data |= pick_fields(self._header, "status")
        if isinstance(error := sample.get("error"), dict):
            self._draft.add_annotation(
                {"kind": "error"} | pick_fields(error, "message", "traceback"), actor=self._runtime
            )
        self._draft.add_annotation(data, actor=self._runtime, ts=to_utc(sample.get("completed_at")))
        spent = sample.get("model_usage")
        if isinstance(spent, dict) and spent and not self._counted:
            for model, usage in spent.items():
                known = {"kind": "usage", "model": model}
                self._draft.add_annotation(known, actor=self._runtime, usage=usage_of(usage))


def _score(score: Any) -> Any:
    if not isinstance(score, dict):
        return score
    return {
        name: value
        for name, value in score.items()
        if name not in ("metadata", "history") and value is not None
    }


def _ran(event: Body | None) -> tuple[str | None, Body | None]:
    """When a tool was done, and what else is known of its run."""
    if event is None:
        return None, None
    facts = pick_fields(event, "working_time", "truncated", "agent")
    if event.get("failed"):
        facts["failed"] = True
    return to_utc(event.get("completed")), facts


def list_conversations(source: Source) -> list[Found]:
    """List every sample of every epoch."""
    return log_files.found(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the sample that a part of the log belongs to."""
    return log_files.owner(source, at, value)
