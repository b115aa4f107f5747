"""What the index holds of a conversation: its events as texts, its counts and its token usage."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from open_token.agents.tools import DIRECTORY, PATH, find_text
from open_token.builder.draft import MISSING_RESULT
from open_token.handoff.copies import HandoffCopyDetector
from open_token.jsontools.objects import get_data, get_link
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.model.titles import choose_title, iter_prompts
from open_token.redaction.markers import MARKER_START
from open_token.writers.rows import classify_tool, parse_changes, split_output
from open_token.writers.timeline import MACHINE_NOTES, classify_message

PERSON = "person"
AGENT = "agent"
THINKING = "thinking"
COMMAND = "command"
OUTPUT = "output"
SYSTEM = "system"
ROLES = (PERSON, AGENT, COMMAND, OUTPUT, THINKING, SYSTEM)
"""Who says a text: `command` is a tool call with its arguments, `output` what came back."""

_MESSAGE_ROLES = {"prompt": PERSON, "say": AGENT, "thought": THINKING, "system": SYSTEM}
_MAX_TITLE_PROMPTS = 20
_USAGE_FIELDS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)


class IndexedEvent(NamedTuple):
    """One event as a search sees it."""

    seq: int
    id: str
    role: str
    tool: str
    path: str
    ts: float | None
    text: str


class UsageRow(NamedTuple):
    """The tokens of one model response."""

    seq: int
    ts: float | None
    model: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int


@dataclass
class CallRow:
    """One tool call, and whether the record says that it failed."""

    seq: int
    ts: float | None
    tool: str
    has_failed: bool = False
    is_answered: bool = False
    added: int = 0
    """Lines that it adds to files."""
    removed: int = 0


class EventReader:
    """An observer of an export that turns its events into rows of the index."""

    def __init__(self, *, counts_lines: bool = True) -> None:
        """`counts_lines` finds out how many lines edits add and remove, which takes a diff of each."""
        self._counts_lines = counts_lines
        self.title = ""
        self.cwd = ""
        self.branch = ""
        self.started: float | None = None
        self.events = 0
        self.prompts = 0
        self.characters = 0
        self.masked = 0
        """How many redaction markers the texts have."""
        self.usage: list[UsageRow] = []
        self.calls: list[CallRow] = []
        self._pending: list[IndexedEvent] = []
        self._models: dict[str, str] = {}
        self._open_calls: dict[str, CallRow] = {}
        """By call id: calls that have no result yet."""
        self._answered_calls: dict[str, CallRow] = {}
        """By the id of the result: calls whose outcome may still be reported."""
        self._copy_detector = HandoffCopyDetector()
        self._explicit_title: object = None
        self._first_prompts: list[str] = []
        self._conversation_id = ""

    def meet(self, record: Record) -> None:
        """Take what the record says about the whole conversation."""
        self._explicit_title = record.conversation.get("title")
        self._conversation_id = record.conversation["id"]
        self.started = _parse_time(record.conversation.get("started_at"))
        for participant in record.participants:
            self._models[participant["actor_id"]] = participant.get("model", "")

    def take(self, event: Event) -> None:
        """Take one event."""
        self.events += 1
        self._copy_detector.take(event)
        if self.started is None:
            self.started = _parse_time(event.get("ts"))
        kind = event.get("type")
        if kind == "message":
            self._take_message(event)
        elif kind == "tool_use":
            self._take_call(event)
        elif kind == "tool_result":
            self._take_result(event)
        elif kind == "annotation":
            self._take_annotation(event)
        if "usage" in event:
            self._take_usage(event)

    def pop_rows(self) -> list[IndexedEvent]:
        """Return the rows since the last call."""
        rows = self._pending
        self._pending = []
        return rows

    @property
    def added(self) -> int:
        """Lines that calls added to files, as far as the record says that they succeeded."""
        return sum(call.added for call in self.calls if call.is_answered and not call.has_failed)

    @property
    def removed(self) -> int:
        """Lines that calls removed from files."""
        return sum(call.removed for call in self.calls if call.is_answered and not call.has_failed)

    @property
    def origin(self) -> str:
        """The id of the conversation that this is a copy of, if it was handed over and not
        continued."""
        return self._copy_detector.origin or ""

    def finish(self) -> None:
        """Choose the title, once all prompts are known."""
        self.title = choose_title(self._explicit_title, self._first_prompts, self._conversation_id)

    def _take_message(self, event: Event) -> None:
        role = _MESSAGE_ROLES[classify_message(event)]
        text = split_output(event)[0]
        self._add(event, role, text)
        is_in_subagent = bool(get_link(event, "span_id"))
        if role == PERSON and not is_in_subagent:
            self.prompts += 1
            if len(self._first_prompts) < _MAX_TITLE_PROMPTS:
                self._first_prompts += iter_prompts([event])

    def _take_call(self, event: Event) -> None:
        data = get_data(event)
        tool = str(data.get("tool_name") or "")
        arguments = data.get("arguments")
        path = find_text(arguments, PATH) or find_text(arguments, DIRECTORY)
        text = "\n".join([tool, *iter_strings(arguments, keys=False)])
        self._add(event, COMMAND, text, tool, path)
        call = CallRow(self.events, _parse_time(event.get("ts")), tool)
        kind = classify_tool(tool, arguments)
        if self._counts_lines and kind in ("edit", "write"):
            changes = parse_changes(kind, arguments)
            call.added = sum(change.added for change in changes)
            call.removed = sum(change.removed for change in changes)
        self.calls.append(call)
        self._open_calls[get_link(event, "call_id")] = call

    def _take_result(self, event: Event) -> None:
        call = self._open_calls.pop(get_link(event, "call_id"), None)
        if call is not None:
            self._answered_calls[str(event.get("id"))] = call
        if event["content"].get("data") == MISSING_RESULT:
            return
        if call is not None:
            call.is_answered = True
        text, blocks = split_output(event)
        others = [block for block in blocks if not _is_media(block)]
        tool = call.tool if call is not None else ""
        self._add(event, OUTPUT, "\n".join([text, *iter_strings(others, keys=False)]), tool)

    def _take_annotation(self, event: Event) -> None:
        data = get_data(event)
        kind = data.get("kind")
        if kind == "context":
            self.cwd = self.cwd or _get_text(data, "cwd")
            self.branch = _get_text(data, "git_branch") or self.branch
        elif kind == "result_facts":
            self._take_result_facts(data, get_link(event, "parent_id"))
        elif not isinstance(kind, str) or kind not in MACHINE_NOTES:
            self._add(event, SYSTEM, "\n".join(iter_strings(data, keys=False)))

    def _take_result_facts(self, data: dict[str, Any], result_id: str) -> None:
        exit_code = data.get("exit_code")
        has_failed = data.get("is_error") is True or data.get("rejected") is True
        if type(exit_code) is int and exit_code != 0:
            has_failed = True
        if has_failed and result_id in self._answered_calls:
            self._answered_calls[result_id].has_failed = True

    def _take_usage(self, event: Event) -> None:
        usage = event["usage"]
        counts = [_get_count(usage, name) for name in _USAGE_FIELDS]
        if not any(counts):
            return
        model = self._models.get(event.get("actor_id", ""), "")
        self.usage.append(UsageRow(self.events, _parse_time(event.get("ts")), model, *counts))

    def _add(self, event: Event, role: str, text: str, tool: str = "", path: str = "") -> None:
        text = text.strip()
        if not text:
            return
        self.characters += len(text)
        self.masked += text.count(MARKER_START)
        self._pending.append(
            IndexedEvent(
                self.events,
                str(event.get("id") or ""),
                role,
                tool,
                path,
                _parse_time(event.get("ts")),
                text,
            )
        )


def _get_count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int else 0


def _is_media(block: Any) -> bool:
    return isinstance(block, dict) and ("base64" in block or "media_type" in block)


def _get_text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _parse_time(moment: object) -> float | None:
    if not isinstance(moment, str):
        return None
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return None
