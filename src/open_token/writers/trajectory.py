"""The conversation as a tree of agent runs: the model that the ATIF and OpenTelemetry writers share.

A run holds input messages, model responses with their tool calls, and nested subagent runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from open_token.jsontools.objects import as_object, get_data, get_link
from open_token.model.document import Event, Participant, Record
from open_token.model.omissions import Note

JsonObject = dict[str, Any]

MAX_DEPTH = 16
JSON_TEXT_NOTE = "a block that is neither text nor media, as JSON in a text"
_MEDIA_TYPES = ("image", "audio", "video", "file", "document")


class Losses:
    """Collects what the target format cannot represent: one note per code, with a count."""

    def __init__(self, format_name: str) -> None:
        self._format_name = format_name
        self._notes: dict[str, Note] = {}

    def report_missing(self, code: str, event: Event | None, what: str) -> None:
        """Note that something is not in the output."""
        self._add(code, event, f"not in {self._format_name}: {what}")

    def report_changed(self, code: str, event: Event, what: str) -> None:
        """Note that something is in the output in another form."""
        self._add(code, event, f"represented differently in {self._format_name}: {what}")

    def _add(self, code: str, event: Event | None, detail: str) -> None:
        known = self._notes.get(code)
        if known is not None:
            self._notes[code] = Note(code, known.place, detail, known.count + 1)
            return
        place = str(event.get("id")) if event else "conversation"
        self._notes[code] = Note(code, place, detail, 1)

    @property
    def notes(self) -> list[Note]:
        """All notes, in the order of their first occurrence."""
        return list(self._notes.values())


@dataclass(slots=True)
class ToolCall:
    """A tool call with its result and the subagents it started."""

    event: Event
    id: str
    """The native call id where it is unique, else the id of the record."""
    tool: str
    arguments: Any
    result: Event | None = None
    facts: JsonObject = field(default_factory=dict)
    runs: list["AgentRun"] = field(default_factory=list)


@dataclass(slots=True)
class InputMessage:
    """A message that no model of this run produced, or a result whose call is not in the record."""

    event: Event
    facts: JsonObject = field(default_factory=dict)


@dataclass(slots=True)
class ModelResponse:
    """The reasoning, text and tool calls that a model produced in one response."""

    actor: str
    events: list[Event] = field(default_factory=list)
    thoughts: list[Event] = field(default_factory=list)
    message: Event | None = None
    calls: list[ToolCall] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    facts: JsonObject = field(default_factory=dict)
    has_results: bool = False
    """Whether one of its calls has its result: after that a new response begins."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing but token usage is known of it."""
        return not (self.thoughts or self.message or self.calls)

    def accepts(self, event: Event, actor: str) -> bool:
        """Return whether an event is a further part of this response."""
        if self.has_results:
            return False
        if self.actor and actor and self.actor != actor:
            return False
        if event.get("usage") and self.usage:
            return False
        if event.get("type") != "message":
            return True
        return self.message is None and not self.calls


@dataclass(slots=True)
class AgentRun:
    """The part of one agent, in order: the main conversation or a subagent."""

    id: str = ""
    """The span id; empty for the main conversation."""
    start: Event | None = None
    end: Event | None = None
    about: JsonObject = field(default_factory=dict)
    items: list["InputMessage | ModelResponse | AgentRun"] = field(default_factory=list)
    """Includes subagents that no tool call started."""
    tools: list[JsonObject] = field(default_factory=list)
    context: JsonObject = field(default_factory=dict)
    cost: float = 0.0
    depth: int = 0

    @property
    def responses(self) -> Iterator[ModelResponse]:
        """The model responses of this run."""
        return (item for item in self.items if isinstance(item, ModelResponse))

    @property
    def subagents(self) -> Iterator["AgentRun"]:
        """The subagents of this run, in order."""
        for item in self.items:
            if isinstance(item, AgentRun):
                yield item
            elif isinstance(item, ModelResponse):
                for call in item.calls:
                    yield from call.runs


class Media(msgspec.Struct, frozen=True):
    """An image, sound, video or file: its bytes, or its address."""

    kind: str
    media_type: str | None
    base64: str | None
    address: str | None
    block: JsonObject


def build_agent_runs(record: Record, losses: Losses) -> AgentRun:
    """Return the run of the main conversation, with its subagents nested in it."""
    return _RunBuilder(losses).build(record.events)


def index_participants(record: Record) -> dict[str, Participant]:
    """Return the participants by their ids."""
    return {participant["actor_id"]: participant for participant in record.participants}


def get_text(event: Event) -> str | None:
    """Return `content.text` of an event where it is a string."""
    text = as_object(event.get("content")).get("text")
    return text if isinstance(text, str) else None


def get_blocks(event: Event) -> list[Any]:
    """Return `content.data` of an event as a list of blocks."""
    data = as_object(event.get("content")).get("data")
    if data is None:
        return []
    return data if isinstance(data, list) else [data]


def find_string(values: JsonObject, *names: str) -> str | None:
    """Return the first of these fields that is a non-empty string."""
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def find_actor(run: AgentRun, participants: dict[str, Any]) -> str:
    """Return the id of the first known participant that responds in a run, or an empty string."""
    for response in run.responses:
        if response.actor in participants:
            return response.actor
    return ""


def to_json_text(value: Any) -> str:
    """Return a value as compact JSON."""
    return msgspec.json.encode(value).decode()


def iter_content(event: Event, losses: Losses) -> Iterator[str | Media]:
    """Yield the content of an event as texts and media; other blocks become JSON text."""
    text = get_text(event)
    if text is not None:
        yield text
        return
    for block in get_blocks(event):
        if isinstance(block, str):
            yield block
        elif _is_text_block(block):
            if len(block) > 2:
                losses.report_missing(
                    "marked-text", event, "citations and other annotations of a text"
                )
            yield block["text"]
        else:
            media = _parse_media(block) if isinstance(block, dict) else None
            if media is None:
                losses.report_changed("json-text", event, JSON_TEXT_NOTE)
                yield to_json_text(block)
            else:
                yield media


def _is_text_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _parse_media(block: JsonObject) -> Media | None:
    data = find_string(block, "base64")
    address = find_string(block, "url", "path")
    is_reference = address is not None and block.get("type") in _MEDIA_TYPES
    if data is None and not is_reference:
        return None
    kind = find_string(block, "type") or "file"
    return Media(kind, find_string(block, "media_type"), data, address, block)


class _RunBuilder:
    """Sorts events into runs, responses and calls in one pass."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._main = AgentRun()
        # By span id; None marks a span that is left out with everything in it.
        self._runs: dict[str, AgentRun | None] = {"": self._main}
        self._calls: dict[str, tuple[ToolCall, ModelResponse, AgentRun]] = {}
        self._call_ids: set[str] = set()
        self._calls_by_result: dict[str, ToolCall] = {}
        self._items_by_event: dict[str, InputMessage | ModelResponse] = {}

    def build(self, events: Iterable[Event]) -> AgentRun:
        for event in events:
            kind = event.get("type")
            span_id = get_link(event, "span_id")
            if kind == "span_start":
                self._start_run(event, span_id)
                continue
            run = self._runs.get(span_id, self._main)
            if run is None:
                continue
            if kind == "span_end":
                run.end = event
            else:
                self._add_event(event, str(kind), run)
        return self._main

    def _start_run(self, event: Event, span_id: str) -> None:
        about = get_data(event)
        call, _, calling_run = self._calls.get(get_link(event, "call_id"), (None, None, None))
        parent = calling_run or self._runs.get(str(about.get("parent_span") or ""), self._main)
        if about.get("kind", "subagent") != "subagent" or "branch" in about:
            self._losses.report_missing("branch", event, "a branch or a scorer with its contents")
            parent = None
        elif parent is not None and parent.depth >= MAX_DEPTH:
            self._losses.report_missing(
                "deep-subagent", event, f"a subagent more than {MAX_DEPTH} levels down"
            )
            parent = None
        if parent is None:
            self._runs[span_id] = None
            return
        run = AgentRun(span_id, event, about=about, depth=parent.depth + 1)
        self._runs[span_id] = run
        if call is not None:
            call.runs.append(run)
        else:
            parent.items.append(run)

    def _add_event(self, event: Event, kind: str, run: AgentRun) -> None:
        role = event.get("role")
        if get_data(event).get("truncated") is True and get_text(event) is not None:
            self._losses.report_missing("truncated", event, "the original length of a cut text")
        if kind == "message" and role == "assistant_thought":
            self._add_thought(event, run)
        elif kind == "message" and role == "assistant":
            self._extend_response(event, run).message = event
        elif kind == "message":
            message = InputMessage(event)
            run.items.append(message)
            self._items_by_event[str(event.get("id"))] = message
        elif kind == "tool_use":
            self._add_call(event, run)
        elif kind == "tool_result":
            self._add_result(event, run)
        else:
            self._add_annotation(event, run)

    def _add_thought(self, event: Event, run: AgentRun) -> None:
        if get_text(event):
            self._extend_response(event, run).thoughts.append(event)
            return
        self._losses.report_missing("thought", event, "reasoning without its text")
        if event.get("usage"):
            self._extend_response(event, run)

    def _extend_response(self, event: Event, run: AgentRun) -> ModelResponse:
        """Add an event to the response it belongs to, which may be a new one."""
        actor = ""
        if event.get("type") != "annotation":
            actor = str(event.get("actor_id") or "")
        response = run.items[-1] if run.items else None
        if not isinstance(response, ModelResponse) or not response.accepts(event, actor):
            response = ModelResponse(actor)
            run.items.append(response)
        response.actor = response.actor or actor
        response.events.append(event)
        for name, count in as_object(event.get("usage")).items():
            # In a record 0 is also what the source did not count, which other formats leave out.
            if type(count) is int and count > 0:
                response.usage[name] = count
        self._items_by_event[str(event.get("id"))] = response
        return response

    def _add_call(self, event: Event, run: AgentRun) -> None:
        data = get_data(event)
        record_id = get_link(event, "call_id")
        native_id = find_string(data, "native_call_id")
        if native_id and native_id not in self._call_ids:
            call_id = native_id
        else:
            call_id = record_id or str(event.get("id"))
        self._call_ids.add(call_id)
        tool = str(data.get("tool_name") or "tool")
        call = ToolCall(event, call_id, tool, data.get("arguments", {}))
        response = self._extend_response(event, run)
        response.calls.append(call)
        self._calls[record_id] = call, response, run

    def _add_result(self, event: Event, run: AgentRun) -> None:
        if get_data(event).get("missing_result") is True:
            return
        call, response, _ = self._calls.get(get_link(event, "call_id"), (None, None, None))
        if call is None or response is None or call.result is not None:
            run.items.append(InputMessage(event))
            return
        call.result = event
        response.has_results = True
        self._calls_by_result[str(event.get("id"))] = call

    def _add_annotation(self, event: Event, run: AgentRun) -> None:
        data = get_data(event)
        kind = data.get("kind")
        facts = {name: value for name, value in data.items() if name != "kind"}
        parent = get_link(event, "parent_id")
        cost = data.get("cost_usd")
        tools = _parse_tools(data) if kind == "tools" else []
        if event.get("usage"):
            self._extend_response(event, run)
        if kind == "result_facts" and parent in self._calls_by_result:
            self._calls_by_result[parent].facts |= facts
        elif kind == "message_facts" and parent in self._items_by_event:
            self._items_by_event[parent].facts |= facts
        elif kind == "context":
            # What was said first describes the start of a run, and stays.
            run.context = facts | run.context
        elif tools:
            known = {tool["name"] for tool in run.tools}
            run.tools += [tool for tool in tools if tool["name"] not in known]
        elif kind == "cost" and isinstance(cost, int | float) and 0 <= cost < 1e9:
            run.cost += cost
        elif kind not in ("usage", "orphan_result"):
            # Usage was added above, and an orphan result is input of the run without its call.
            self._losses.report_missing("annotation", event, "an annotation")


def _parse_tools(data: JsonObject) -> list[JsonObject]:
    """Return the tools that a model was offered, as far as the record names them."""
    names = data.get("names")
    if not isinstance(names, list):
        return []
    descriptions = as_object(data.get("descriptions"))
    tools: list[JsonObject] = []
    for name in names:
        if not isinstance(name, str):
            continue
        tool: JsonObject = {"name": name}
        if name in descriptions:
            tool["description"] = descriptions[name]
        tools.append(tool)
    return tools
