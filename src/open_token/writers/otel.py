"""Writes a conversation as one OpenTelemetry trace in OTLP JSON: spans of agents, of models and of
tools."""

from typing import BinaryIO

from open_token.model.document import Event, Integrity, Note, Participant, Record
from open_token.writers._blocks import blocks, spelled
from open_token.writers._otel_spans import (
    AGENT,
    MODEL,
    TOOL,
    Clock,
    Spans,
    nanoseconds,
    output,
    output_text,
    part,
)
from open_token.writers._runs import (
    Answer,
    Body,
    Call,
    Heard,
    Losses,
    Run,
    data_of,
    first_word,
    runs_of,
    speakers,
    text_of,
)

_PROVIDERS = {"google": "gcp.gen_ai"}
_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_REASONS = ("finish_reason", "stop_reason")


def write(record: Record, integrity: Integrity | None, out: BinaryIO) -> tuple[int, list[Note]]:
    """Write all of it as one line; gives the count of bytes, and what such a trace has no place
    for."""
    losses = Losses("OpenTelemetry")
    main = runs_of(record, losses)
    trace = _Trace(record, losses, out)
    trace.agent(main, None, Clock(_begin(record)), _origin(record, integrity))
    return trace.spans.close(), losses.notes


def _origin(record: Record, integrity: Integrity | None) -> Body:
    """What is known of the whole, and the hash of the document that the same export would be."""
    return {
        "open_token.title": record.conversation.get("title"),
        "open_token.redaction.mode": record.conversation.get("redaction", {}).get("mode"),
        "open_token.events_hash": f"sha256:{integrity['events_hash']}" if integrity else None,
    }


def _begin(record: Record) -> int:
    """The first moment that is known; 0, which stands for none in OTLP, where nothing is."""
    moments = (nanoseconds(event.get("ts")) for event in record.events)
    began = nanoseconds(record.conversation.get("started_at"))
    return began or next((moment for moment in moments if moment), 0)


class _Trace:
    """What the spans of all runs share."""

    def __init__(self, record: Record, losses: Losses, out: BinaryIO) -> None:
        self.spans = Spans(record.conversation["id"], out)
        self.losses = losses
        self._people = speakers(record)
        self._provider = record.conversation.get("provider")

    def agent(self, run: Run, parent: str | None, clock: Clock, more: Body) -> int:
        """The span of an agent with everything in it; gives when it ended."""
        known = clock.reach([run.start]) or run.start is None
        start = clock.now
        actor = next((item.actor for item in run.answers if item.actor in self._people), "")
        speaker = self._people.get(actor)
        name = first_word(run.about, "subagent_type", "name", "nickname") or (
            speaker["name"] if speaker else "agent"
        )
        tools = [{"type": "function", **tool} for tool in run.tools]
        given: Body = {
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": first_word(run.about, "agent_id"),
            "gen_ai.agent.description": first_word(run.about, "spawn_reason", "reason"),
            **self.model(actor, first_word(run.about, "model")),
            "gen_ai.tool.definitions": spelled(tools) if tools else None,
        }
        span = self.spans.begin(
            f"invoke_agent {name}", AGENT, parent, f"agent {run.id}", given | more
        )
        last = _Talk(self, run, span["spanId"], clock).tell()
        clock.now = max(clock.now, last)
        known = (clock.reach([run.end]) or run.end is None) and known
        self.spans.end(span, start, clock.now, known=known)
        self._without_place(run)
        return clock.now

    def _without_place(self, run: Run) -> None:
        if run.context:
            self.losses.lost(
                "context", run.start, "in which folder and with which version an agent ran"
            )
        if run.cost:
            self.losses.lost("cost", run.start, "what an agent cost")

    def tool(self, call: Call, parent: str, clock: Clock) -> int:
        """The span of a tool with the subagents that served it; gives when it ended."""
        known = clock.reach([call.event])
        start, result = clock.now, call.result
        given: Body = {
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.call.arguments": spelled(call.arguments),
            "gen_ai.tool.call.result": output_text(result) if result else None,
            "open_token.missing_result": None if result else True,
        }
        span = self.spans.begin(
            f"execute_tool {call.tool}", TOOL, parent, f"tool {call.event.get('id')}", given
        )
        inside = Clock(start)
        for run in call.runs:
            self.agent(run, span["spanId"], inside, {})
        if result and call.facts.keys() - {"is_error"}:
            self.losses.lost("result-facts", result, "what is known of a result beside its output")
        known = inside.reach([result]) and known
        self.spans.end(
            span, start, inside.now, known=known, failed=call.facts.get("is_error") is True
        )
        return inside.now

    def model(self, actor: str, model: str | None = None) -> Body:
        """Which model of whom."""
        person: Participant | Body = self._people.get(actor, {})
        provider = person.get("provider") or self._provider or "other"
        made: Body = {"gen_ai.provider.name": _PROVIDERS.get(provider, provider)}
        return made | {"gen_ai.request.model": model or person.get("model")}

    def parts(self, event: Event) -> list[Body]:
        """What a message holds."""
        return [part(block) for block in blocks(event, self.losses)]


class _Talk:
    """What was heard and answered in one run."""

    def __init__(self, trace: _Trace, run: Run, span: str, clock: Clock) -> None:
        self._trace = trace
        self._run = run
        self._span = span
        self._clock = clock
        self._known: list[Body] = []
        """The last answer that says or calls something, and what was heard since: what a model is
        given again."""
        self._fresh: list[tuple[Event, Body]] = []
        """What was heard since the last call of a model."""
        self._ends: list[int] = []
        """When the calls of the last answer ended."""

    def tell(self) -> int:
        """Tell it all; gives when the last call ended."""
        last = 0
        for item in self._run.items:
            if isinstance(item, Heard):
                self._hear(item)
            elif isinstance(item, Run):
                self._clock.reach([item.start])
                last = max(last, self._trace.agent(item, self._span, Clock(self._clock.now), {}))
            else:
                self._answer(item)
                last = max([last, *self._ends])
        if self._fresh:
            self._ask(self._fresh[0][0], Answer(""), {"open_token.no_answer": True}, known=True)
        return last

    def _hear(self, item: Heard) -> None:
        event = item.event
        self._clock.reach([event])
        if event.get("type") == "tool_result":
            name = str((event.get("links") or {}).get("call_id") or event.get("id"))
            message = _result(name, event)
        else:
            role = str(event.get("role") or "system")
            message = {"role": role, "parts": self._trace.parts(event)}
            if role == "user" and event.get("visibility") == "internal" and not self._run.id:
                self._trace.losses.lost(
                    "visibility", event, "that the runtime spoke in the user's place"
                )
        self._fresh.append((event, message))
        self._note(item.facts, event)

    def _answer(self, item: Answer) -> None:
        moment = next(
            (found for event in item.events if (found := nanoseconds(event.get("ts")))), None
        )
        heard = [when for when in self._ends if moment is None or when <= moment]
        self._clock.now = max([self._clock.now, *heard])
        given: Body = {_USAGE[name]: count for name, count in item.usage.items() if name in _USAGE}
        reason = first_word(item.facts, *_REASONS)
        parts = self._parts(item)
        said: Body = {"role": "assistant", "parts": parts}
        ended = reason or ("tool_call" if item.calls else "unknown")
        if parts:
            given["gen_ai.output.messages"] = spelled([said | {"finish_reason": ended}])
        given["gen_ai.response.finish_reasons"] = [reason] if reason else None
        self._ask(item.events[0], item, given)
        self._ends = [self._trace.tool(call, self._span, self._clock) for call in item.calls]
        if item.words or item.calls:
            self._known = [
                said,
                *(_result(call.id, call.result) for call in item.calls if call.result),
            ]
        left = {name: value for name, value in item.facts.items() if name not in _REASONS}
        self._note(left, item.events[0])

    def _ask(self, key: Event, item: Answer, given: Body, *, known: bool = False) -> None:
        """The span of one call of a model, with what it was given and what it gave."""
        start = self._clock.now
        known = self._clock.reach(item.events) or known
        self._known += [message for _, message in self._fresh]
        self._fresh.clear()
        model = self._trace.model(item.actor)
        name = " ".join(filter(None, ("chat", model["gen_ai.request.model"])))
        heard = {"gen_ai.input.messages": spelled(self._known) if self._known else None}
        span = self._trace.spans.begin(
            name, MODEL, self._span, f"chat {key.get('id')}", model | heard | given
        )
        self._trace.spans.end(span, start, self._clock.now, known=known)

    def _parts(self, item: Answer) -> list[Body]:
        parts: list[Body] = [
            {"type": "reasoning", "content": text_of(thought)} for thought in item.thoughts
        ]
        for thought in item.thoughts:
            if data_of(thought).get("summary"):
                self._trace.losses.changed(
                    "summary", thought, "the summary of a thought, as if it were all of it"
                )
        if item.words:
            parts += self._trace.parts(item.words)
        for call in item.calls:
            parts.append(
                {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": call.arguments}
            )
        return parts

    def _note(self, facts: Body, event: Event) -> None:
        if facts:
            self._trace.losses.lost(
                "message-facts", event, "what is known of a message beside its words"
            )


def _result(name: str, event: Event) -> Body:
    response = {"type": "tool_call_response", "id": name, "response": output(event)}
    return {"role": "tool", "parts": [response]}
