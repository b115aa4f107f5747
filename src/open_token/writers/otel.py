"""Writer for OpenTelemetry: the conversation as one trace in OTLP JSON.

Agents, model calls and tool calls become spans with GenAI semantic-convention attributes.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from open_token.jsontools.objects import get_data
from open_token.jsontools.timestamps import to_epoch_ms
from open_token.model.document import Event, Integrity, Participant, Record
from open_token.model.omissions import Note
from open_token.writers.trajectory import (
    AgentRun,
    InputMessage,
    JsonObject,
    Losses,
    Media,
    ModelResponse,
    ToolCall,
    build_agent_runs,
    find_actor,
    find_string,
    get_blocks,
    get_text,
    index_participants,
    iter_content,
    to_json_text,
)

_PROVIDER_NAMES = {"google": "gcp.gen_ai"}
_USAGE_ATTRIBUTES = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_FINISH_REASONS = ("finish_reason", "stop_reason")
_MODALITIES = ("image", "audio", "video")

# OTLP span kinds: agents and tools run inside the process, a model is called as a client.
_KIND_INTERNAL = 1
_KIND_CLIENT = 3
_STATUS_ERROR = 2
_MAX_NANOSECONDS = (1 << 64) - 1

_HEAD = (
    b'{"resourceSpans":[{"resource":{"attributes":'
    b'[{"key":"service.name","value":{"stringValue":"open-token"}}]},'
    b'"scopeSpans":[{"scope":{"name":"open-token"},"spans":['
)
_TAIL = b"]}]}]}\n"


def write(record: Record, integrity: Integrity | None, out: BinaryIO) -> tuple[int, list[Note]]:
    """Write the trace as one line; return the byte count and notes on what it cannot hold."""
    losses = Losses("OpenTelemetry")
    main = build_agent_runs(record, losses)
    trace = _TraceWriter(record, losses, out)
    clock = Clock(_find_start(record))
    trace.write_agent(main, None, clock, _describe_origin(record, integrity))
    return trace.spans.close(), losses.notes


def _describe_origin(record: Record, integrity: Integrity | None) -> JsonObject:
    events_hash = f"sha256:{integrity['events_hash']}" if integrity else None
    return {
        "open_token.title": record.conversation.get("title"),
        "open_token.redaction.mode": record.conversation.get("redaction", {}).get("mode"),
        "open_token.events_hash": events_hash,
    }


def _find_start(record: Record) -> int:
    """Return the first known time in nanoseconds, or 0, which means unknown in OTLP."""
    started = parse_nanoseconds(record.conversation.get("started_at"))
    if started:
        return started
    for event in record.events:
        time = parse_nanoseconds(event.get("ts"))
        if time:
            return time
    return 0


class Clock:
    """The time within one run. It never goes back: siblings are ordered by their start."""

    def __init__(self, now: int) -> None:
        self.now = now

    def advance(self, events: Iterable[Event | None]) -> bool:
        """Advance to the latest of these events; False when none has a usable time."""
        times: list[int] = []
        for event in events:
            time = parse_nanoseconds(event.get("ts")) if event else None
            if time is not None:
                times.append(time)
        if not times or max(times) < self.now:
            return False
        self.now = max(times)
        return True


def parse_nanoseconds(ts: Any) -> int | None:
    """Return a UTC timestamp as nanoseconds since 1970, where OTLP can hold it."""
    if not isinstance(ts, str) or not ts.endswith("Z"):
        return None
    milliseconds = to_epoch_ms(f"{ts[:19]}Z")
    if milliseconds is None:
        return None
    fraction = ts[20:-1].ljust(9, "0")
    if not fraction.isdecimal() or len(fraction) != 9:
        return None
    nanoseconds = milliseconds * 1_000_000 + int(fraction)
    if 0 < nanoseconds <= _MAX_NANOSECONDS:
        return nanoseconds
    return None


class SpanWriter:
    """Writes the spans of one trace, each when it ends: a parent comes after its children."""

    def __init__(self, conversation_id: str, out: BinaryIO) -> None:
        self._written = 0
        self._out = out
        self._separator = _HEAD
        self._conversation_id = conversation_id
        self._trace_id = _hash_id(conversation_id)[:32]
        self._span_ids: set[str] = set()

    def begin(
        self, name: str, kind: int, parent: str | None, key: str, attributes: JsonObject
    ) -> JsonObject:
        """Return a new span. Its id is derived from the key, so that output is reproducible."""
        span_id = _hash_id(self._conversation_id, key)[:16]
        while span_id in self._span_ids:  # a document may use an event id twice
            span_id = _hash_id(span_id)[:16]
        self._span_ids.add(span_id)
        span: JsonObject = {"traceId": self._trace_id, "spanId": span_id}
        if parent:
            span["parentSpanId"] = parent
        span["name"] = name
        span["kind"] = kind
        span["startTimeUnixNano"] = "0"
        span["endTimeUnixNano"] = "0"
        operation = {"gen_ai.operation.name": name.split(" ")[0]}
        conversation = {"gen_ai.conversation.id": self._conversation_id}
        span["attributes"] = encode_attributes(operation | attributes)
        span["attributes"] += encode_attributes(conversation)
        return span

    def end(
        self, span: JsonObject, start: int, end: int, *, is_exact: bool, failed: bool = False
    ) -> None:
        """Write a span; a time that the record does not state is marked as estimated."""
        span["startTimeUnixNano"] = str(start)
        span["endTimeUnixNano"] = str(end)
        if not is_exact:
            span["attributes"] += encode_attributes({"open_token.time.estimated": True})
        if failed:
            span["attributes"] += encode_attributes({"error.type": "_OTHER"})
            span["status"] = {"code": _STATUS_ERROR}
        self._written += self._out.write(self._separator + msgspec.json.encode(span))
        self._separator = b","

    def close(self) -> int:
        """Write the end of the trace; return the byte count."""
        return self._written + self._out.write(_TAIL)


class _TraceWriter:
    """Writes the spans of all runs."""

    def __init__(self, record: Record, losses: Losses, out: BinaryIO) -> None:
        self.spans = SpanWriter(record.conversation["id"], out)
        self.losses = losses
        self._participants = index_participants(record)
        self._provider = record.conversation.get("provider")

    def write_agent(
        self, run: AgentRun, parent: str | None, clock: Clock, attributes: JsonObject
    ) -> int:
        """Write the span of an agent with everything in it; return its end time."""
        is_exact = clock.advance([run.start]) or run.start is None
        start = clock.now
        actor = find_actor(run, self._participants)
        name = find_string(run.about, "subagent_type", "name", "nickname")
        if name is None:
            participant = self._participants.get(actor)
            name = participant["name"] if participant else "agent"
        tools = [{"type": "function", **tool} for tool in run.tools]
        agent_attributes: JsonObject = {
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": find_string(run.about, "agent_id"),
            "gen_ai.agent.description": find_string(run.about, "spawn_reason", "reason"),
            **self.describe_model(actor, find_string(run.about, "model")),
            "gen_ai.tool.definitions": to_json_text(tools) if tools else None,
        }
        span = self.spans.begin(
            f"invoke_agent {name}",
            _KIND_INTERNAL,
            parent,
            f"agent {run.id}",
            agent_attributes | attributes,
        )
        # The span is begun before what is inside it, since that needs its id, and ended after: a
        # span in OTLP must not end before its children.
        last_end = _RunWriter(self, run, span["spanId"], clock).write()
        clock.now = max(clock.now, last_end)
        has_exact_end = clock.advance([run.end]) or run.end is None
        self.spans.end(span, start, clock.now, is_exact=is_exact and has_exact_end)
        if run.context:
            self.losses.report_missing(
                "context", run.start, "the working directory and version of an agent"
            )
        if run.cost:
            self.losses.report_missing("cost", run.start, "the cost of an agent")
        return clock.now

    def write_tool(self, call: ToolCall, parent: str, clock: Clock) -> int:
        """Write the span of a tool call with its subagents; return its end time."""
        has_exact_start = clock.advance([call.event])
        start = clock.now
        result = call.result
        attributes: JsonObject = {
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.call.arguments": to_json_text(call.arguments),
            "gen_ai.tool.call.result": get_output_text(result) if result else None,
            "open_token.missing_result": None if result else True,
        }
        span = self.spans.begin(
            f"execute_tool {call.tool}",
            _KIND_INTERNAL,
            parent,
            f"tool {call.event.get('id')}",
            attributes,
        )
        # A clock of its own: calls of one response run in parallel, and the next one of them
        # starts when this one does, not after it.
        inner_clock = Clock(start)
        for run in call.runs:
            self.write_agent(run, span["spanId"], inner_clock, {})
        if result and call.facts.keys() - {"is_error"}:
            self.losses.report_missing("result-facts", result, "facts about a result")
        has_exact_end = inner_clock.advance([result])
        self.spans.end(
            span,
            start,
            inner_clock.now,
            is_exact=has_exact_start and has_exact_end,
            failed=call.facts.get("is_error") is True,
        )
        return inner_clock.now

    def describe_model(self, actor: str, model: str | None = None) -> JsonObject:
        """Return the attributes that name provider and model."""
        participant: Participant | JsonObject = self._participants.get(actor, {})
        provider = participant.get("provider") or self._provider or "other"
        return {
            "gen_ai.provider.name": _PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": model or participant.get("model"),
        }

    def build_parts(self, event: Event) -> list[JsonObject]:
        """Return the message parts of an event."""
        return [build_part(content) for content in iter_content(event, self.losses)]


class _RunWriter:
    """Writes the model calls, tool calls and subagents of one run."""

    def __init__(self, trace: _TraceWriter, run: AgentRun, span_id: str, clock: Clock) -> None:
        self._trace = trace
        self._run = run
        self._span_id = span_id
        self._clock = clock
        # Input of the next model call: the last response with its results, then what came since.
        self._history: list[JsonObject] = []
        self._new_messages: list[tuple[Event, JsonObject]] = []
        self._tool_end_times: list[int] = []

    def write(self) -> int:
        """Write all items; return when the last call ended."""
        last_end = 0
        for item in self._run.items:
            if isinstance(item, InputMessage):
                self._add_input(item)
            elif isinstance(item, AgentRun):
                self._clock.advance([item.start])
                end = self._trace.write_agent(item, self._span_id, Clock(self._clock.now), {})
                last_end = max(last_end, end)
            else:
                self._write_response(item)
                last_end = max([last_end, *self._tool_end_times])
        if self._new_messages:
            # The conversation ends with input that no model answered.
            event = self._new_messages[0][0]
            attributes = {"open_token.no_answer": True}
            self._write_model_call(event, ModelResponse(""), attributes, is_exact=True)
        return last_end

    def _add_input(self, item: InputMessage) -> None:
        event = item.event
        self._clock.advance([event])
        if event.get("type") == "tool_result":
            links = event.get("links") or {}
            message = _build_tool_message(str(links.get("call_id") or event.get("id")), event)
        else:
            role = str(event.get("role") or "system")
            message = {"role": role, "parts": self._trace.build_parts(event)}
            if role == "user" and event.get("visibility") == "internal" and not self._run.id:
                self._trace.losses.report_missing(
                    "visibility", event, "that the runtime wrote a message of the user role"
                )
        self._new_messages.append((event, message))
        self._report_facts(item.facts, event)

    def _write_response(self, response: ModelResponse) -> None:
        self._wait_for_tools(response)
        attributes: JsonObject = {}
        for name, count in response.usage.items():
            if name in _USAGE_ATTRIBUTES:
                attributes[_USAGE_ATTRIBUTES[name]] = count
        finish_reason = find_string(response.facts, *_FINISH_REASONS)
        parts = self._build_response_parts(response)
        message: JsonObject = {"role": "assistant", "parts": parts}
        if parts:
            default_reason = "tool_call" if response.calls else "unknown"
            output = message | {"finish_reason": finish_reason or default_reason}
            attributes["gen_ai.output.messages"] = to_json_text([output])
        attributes["gen_ai.response.finish_reasons"] = [finish_reason] if finish_reason else None
        self._write_model_call(response.events[0], response, attributes)
        self._tool_end_times = []
        for call in response.calls:
            end = self._trace.write_tool(call, self._span_id, self._clock)
            self._tool_end_times.append(end)
        if response.message or response.calls:
            self._history = [message]
            for call in response.calls:
                if call.result:
                    self._history.append(_build_tool_message(call.id, call.result))
        other_facts = {
            name: value for name, value in response.facts.items() if name not in _FINISH_REASONS
        }
        self._report_facts(other_facts, response.events[0])

    def _wait_for_tools(self, response: ModelResponse) -> None:
        """Advance the clock past the tool calls that ended before this response."""
        time = None
        for event in response.events:
            time = parse_nanoseconds(event.get("ts"))
            if time:
                break
        ended = [end for end in self._tool_end_times if not time or end <= time]
        self._clock.now = max([self._clock.now, *ended])

    def _write_model_call(
        self,
        key: Event,
        response: ModelResponse,
        attributes: JsonObject,
        *,
        is_exact: bool = False,
    ) -> None:
        start = self._clock.now
        is_exact = self._clock.advance(response.events) or is_exact
        self._history += [message for _, message in self._new_messages]
        self._new_messages.clear()
        model = self._trace.describe_model(response.actor)
        model_name = model["gen_ai.request.model"]
        name = f"chat {model_name}" if model_name else "chat"
        history = to_json_text(self._history) if self._history else None
        span = self._trace.spans.begin(
            name,
            _KIND_CLIENT,
            self._span_id,
            f"chat {key.get('id')}",
            model | {"gen_ai.input.messages": history} | attributes,
        )
        self._trace.spans.end(span, start, self._clock.now, is_exact=is_exact)

    def _build_response_parts(self, response: ModelResponse) -> list[JsonObject]:
        parts: list[JsonObject] = []
        for thought in response.thoughts:
            parts.append({"type": "reasoning", "content": get_text(thought)})
            if get_data(thought).get("summary"):
                self._trace.losses.report_changed(
                    "summary", thought, "a summary of reasoning, as reasoning"
                )
        if response.message:
            parts += self._trace.build_parts(response.message)
        for call in response.calls:
            part = {"type": "tool_call", "id": call.id, "name": call.tool}
            parts.append(part | {"arguments": call.arguments})
        return parts

    def _report_facts(self, facts: JsonObject, event: Event) -> None:
        if facts:
            self._trace.losses.report_missing("message-facts", event, "facts about a message")


def _build_tool_message(call_id: str, event: Event) -> JsonObject:
    response = {"type": "tool_call_response", "id": call_id, "response": get_output(event)}
    return {"role": "tool", "parts": [response]}


def encode_attributes(attributes: JsonObject) -> list[JsonObject]:
    """Return attributes as OTLP key-value pairs; None is left out."""
    return [
        {"key": key, "value": _encode_value(value)}
        for key, value in attributes.items()
        if value is not None
    ]


def _encode_value(value: str | bool | int | list[str]) -> JsonObject:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_encode_value(item) for item in value]}}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value}


def build_part(content: str | Media) -> JsonObject:
    """Return a message part: a text, a blob or a URI."""
    if isinstance(content, str):
        return {"type": "text", "content": content}
    modality = content.kind if content.kind in _MODALITIES else "file"
    about: JsonObject = {"modality": modality}
    if content.media_type:
        about["mime_type"] = content.media_type
    if content.base64 is not None:
        return {"type": "blob", **about, "content": content.base64}
    return {"type": "uri", **about, "uri": content.address}


def get_output(event: Event) -> Any:
    """Return what a tool returned: its text, or the value."""
    text = get_text(event)
    if text is not None:
        return text
    blocks = get_blocks(event)
    if isinstance(event["content"].get("data"), list):
        return blocks
    return blocks[0] if blocks else ""


def get_output_text(event: Event) -> str:
    """Return the output of a tool as a string attribute: other values as JSON."""
    value = get_output(event)
    if isinstance(value, str):
        return value
    return to_json_text(value)


def _hash_id(*words: str) -> str:
    key = "\0".join(("open-token", *words))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
