"""Read the answer to a request: its parts as shown, with the calls as the model made them."""

from collections import deque
from collections.abc import Callable
from typing import Any

from open_token.agents.tools import normalize_name
from open_token.agents.vscode_copilot.values import (
    get_markdown,
    get_path,
    parse_shown_result,
    parse_tool_result,
)
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    get_dict,
    get_dicts,
    get_text,
    parse_arguments,
    pick_fields,
)

_MARKDOWN_KINDS = (None, "markdownContent", "markdownVuln")
_PROGRESS_KINDS = ("progressMessage", "progressTask", "progressTaskSerialized")
_EDIT_KINDS = ("textEditGroup", "notebookEditGroup", "workspaceEdit", "codeblockUri")
_TECHNICAL_KINDS = ("undoStop", "prepareToolInvocation", "clearToPreviousToolInvocation")
_CALL_KINDS = ("toolInvocationSerialized", "toolInvocation")
_DENIED = 0


class AnswerReader:
    """Reads one answer. Calls that were not shown stand before the next one that was."""

    def __init__(
        self, draft: Draft, actor: str, client: str, request: JsonObject, place: str
    ) -> None:
        self._draft = draft
        self._actor = actor
        self._client = client
        self._place = place
        self._parts = request.get("response")
        metadata = get_dict(get_dict(request, "result"), "metadata")
        self._rounds = get_dicts(metadata, "toolCallRounds")
        self._results = get_dict(metadata, "toolCallResults")
        self._calls: list[JsonObject] = []
        """The calls of all rounds, in the order in which the model made them."""
        for step in self._rounds:
            self._calls += get_dicts(step, "toolCalls")
        self._by_id: dict[str, int] = {}
        """The positions of calls by their ids, and by tool."""
        self._by_tool: dict[str, deque[int]] = {}
        for position, call in enumerate(self._calls):
            self._by_id.setdefault(get_text(call, "id") or "", position)
            name = _normalize_tool(get_text(call, "name") or "")
            self._by_tool.setdefault(name, deque()).append(position)
        self._next_call = 0
        self._texts: list[str] = []
        """The texts of the current message."""
        self._thoughts: list[str] = []
        self._references: list[JsonObject] = []
        self._shown: list[str] = []
        """All texts of the answer."""

    def read(self) -> None:
        """Read the parts, then what only the rounds of the model have."""
        # An answer is stored twice: as the parts that were shown, and as rounds of the model.
        # Neither is complete: the parts have the order, the rounds what the model really returned.
        parts = self._parts if isinstance(self._parts, list) else []
        for part in parts:
            self._read_part(part)
        self._flush()
        self._add_calls(len(self._calls))
        self._add_hidden_words()

    def _read_part(self, part: Any) -> None:
        if isinstance(part, str):
            part = {"value": part}
        if not isinstance(part, dict):
            self._draft.note_omission("skipped-record", self._place, "part is not a JSON object")
            return
        kind = part.get("kind")
        if not isinstance(kind, str):
            kind = None
        if kind == "thinking":
            self._flush_text()
            self._thoughts.append(_join_thinking(part.get("value")))
            return
        if kind in _TECHNICAL_KINDS:
            self._draft.note_omission("bookkeeping", self._place, f"parts {kind}")
            return
        # Consecutive parts of text are one message, and a mention of a file does not end it.
        if kind in _MARKDOWN_KINDS and ("value" in part or "content" in part):
            self._flush_thoughts()
            self._texts.append(get_markdown(part))
        elif kind == "inlineReference":
            self._flush_thoughts()
            self._read_reference(part)
        else:
            self._flush()
            self._find_handler(kind)(part)

    def _find_handler(self, kind: str | None) -> Callable[[JsonObject], None]:
        if kind in _CALL_KINDS:
            return self._read_invocation
        if kind in _PROGRESS_KINDS:
            return self._read_progress
        if kind in _EDIT_KINDS:
            return self._read_edit
        return self._read_other

    def _read_reference(self, part: JsonObject) -> None:
        """Read the mention of a file or a symbol within a text."""
        target = part.get("inlineReference")
        path = get_path(target)
        name = get_text(part, "name") or get_text(target, "name")
        if not name and path:
            name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if name:
            # The text around it has a gap where the editor shows the name.
            self._texts.append(f"`{name}`")
        facts = {"name": name, "path": path}
        self._references.append(pick_fields(facts, *facts))

    def _flush(self) -> None:
        self._flush_thoughts()
        self._flush_text()

    def _flush_thoughts(self) -> None:
        text = "".join(self._thoughts)
        self._thoughts = []
        if text:
            self._draft.add_reasoning(text, self._actor)
            self._shown.append(text)

    def _flush_text(self) -> None:
        text = "".join(self._texts)
        references = self._references
        self._texts = []
        self._references = []
        if not text.strip():
            return
        self._shown.append(text)
        event = self._draft.add_message("assistant", text, self._actor)
        if references:
            data = {"kind": "message_facts", "references": references}
            self._draft.add_annotation(data, parent=event)

    def _read_invocation(self, part: JsonObject) -> None:
        """Read a call that was shown; the rounds have its name and arguments, the part its state."""
        position = self._find_call(part)
        if position is not None:
            # Calls before it were not shown; they come first, as the model made them first.
            self._add_calls(position)
            self._next_call = position + 1
            self._add_call(self._calls[position], part)
            return
        if self._calls:
            self._read_editor_action(part)
            return
        # Without rounds the part is all that is known of the call.
        specific = get_dict(part, "toolSpecificData")
        details = get_dict(part, "resultDetails")
        arguments = parse_arguments(details.get("input"))
        if not arguments:
            names = ("command", "commandLine", "language", "rawInput", "description", "prompt")
            arguments = pick_fields(specific, *names, "todoList", "agentName")
        call = {
            "id": get_text(part, "toolCallId"),
            "name": get_text(part, "toolId") or get_text(part, "toolName"),
            "arguments": arguments,
        }
        self._add_call(call, part)

    def _find_call(self, part: JsonObject) -> int | None:
        """Return the position of the call that a part shows, after all that were added.

        Until 2025 the parts had ids of their own: the first open call of the same tool is taken.
        """
        call_id = get_text(part, "toolCallId")
        position: int | None = None
        if call_id:
            position = self._by_id.get(call_id)
        if position is None:
            name = _normalize_tool(get_text(part, "toolId") or "")
            waiting = self._by_tool.get(name, deque())
            while waiting and waiting[0] < self._next_call:
                waiting.popleft()
            if waiting:
                position = waiting[0]
        if position is None or position < self._next_call:
            return None
        return position

    def _read_editor_action(self, part: JsonObject) -> None:
        """Read what a tool did in turn, which is no call of the model."""
        facts = {
            "tool": get_text(part, "toolId"),
            "text": _build_facts(part).get("shown"),
            "output": parse_shown_result(part),
        }
        data = {"kind": "activity", **pick_fields(facts, *facts)}
        self._draft.add_annotation(data, actor=self._client)

    def _add_calls(self, end: int) -> None:
        """Add the calls before this position that were not shown."""
        while self._next_call < end:
            self._add_call(self._calls[self._next_call], {})
            self._next_call += 1

    def _add_call(self, call: JsonObject, part: JsonObject) -> None:
        call_id = get_text(call, "id")
        extra = None
        if get_text(part, "subAgentInvocationId"):
            extra = {"subagent_call_id": part["subAgentInvocationId"]}
        key = self._draft.add_tool_call(
            call_id,
            get_text(call, "name") or "tool",
            parse_arguments(call.get("arguments")),
            self._actor,
            group=self._place,
            extra=extra,
        )
        given: JsonObject = {}
        if call_id:
            given = get_dict(self._results, call_id)
        # What the model received comes before what was shown to the person.
        if given:
            output = parse_tool_result(given, self._note_part)
        else:
            output = parse_shown_result(part)
        facts = _build_facts(part)
        has_ended = part.get("isComplete") or "refused" in facts
        if output is None and not has_ended:
            # The draft marks the result as missing.
            if facts:
                self._draft.add_annotation({"kind": "call_status", **facts}, actor=self._client)
            return
        self._draft.add_tool_result(key, "" if output is None else output, facts=facts or None)

    def _note_part(self, detail: str) -> None:
        self._draft.note_omission("unknown-part", self._place, detail)

    def _read_progress(self, part: JsonObject) -> None:
        text = get_markdown(part.get("content")) or get_markdown(part)
        if text:
            data = {"kind": "activity", "text": text}
            self._draft.add_annotation(data, actor=self._client)

    def _read_edit(self, part: JsonObject) -> None:
        """Read an edit that the editor made for the model."""
        facts = {
            "type": part.get("kind"),
            "path": get_path(part.get("uri")),
            "edits": part.get("edits") or None,
        }
        data = {"kind": "patch", **pick_fields(facts, *facts)}
        self._draft.add_annotation(data, actor=self._client)

    def _read_other(self, part: JsonObject) -> None:
        """Keep any other part as it is: warnings, confirmations, questions, cards."""
        notice: JsonObject = {"kind": "notice", "type": part.get("kind")}
        data = {name: value for name, value in part.items() if name != "kind"}
        if data:
            notice["data"] = data
        self._draft.add_annotation(notice, actor=self._client)

    def _add_hidden_words(self) -> None:
        """Add words of the model that the rounds have and the shown parts do not."""
        # Compared without spaces: the editor breaks and joins the texts of a round as it shows them.
        shown = "".join("\n".join(self._shown).split())
        for step in self._rounds:
            if not {"response", "toolCalls", "thinking"} & step.keys():
                self._note_part("a round of the model of an unknown form")
            thought = _join_thinking(get_dict(step, "thinking").get("text"))
            if thought and "".join(thought.split()) not in shown:
                self._draft.add_reasoning(thought, self._actor)
            text = get_text(step, "response")
            if not text or "".join(text.split()) in shown:
                continue
            if not shown:
                self._draft.add_message("assistant", text, self._actor)
            else:
                # What was shown is the message; what the model returned stands beside it.
                data = {"kind": "message_facts", "raw_answer": text}
                self._draft.add_annotation(data, actor=self._actor)


def _normalize_tool(name: str) -> str:
    return normalize_name(name.removeprefix("copilot_"))


def _join_thinking(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(text for text in value if isinstance(text, str))


def _build_facts(part: JsonObject) -> JsonObject:
    """Return what the editor says about a call: its line in the chat, errors, a refusal."""
    shown = get_markdown(part.get("pastTenseMessage")) or get_markdown(
        part.get("invocationMessage")
    )
    confirmed = part.get("isConfirmed")
    is_denied = confirmed is False or get_dict(part, "isConfirmed").get("type") == _DENIED
    facts = {
        "shown": shown or None,
        "is_error": get_dict(part, "resultDetails").get("isError") or None,
        "refused": True if is_denied and "isConfirmed" in part else None,
        "exit_code": get_dict(get_dict(part, "toolSpecificData"), "terminalCommandState").get(
            "exitCode"
        ),
    }
    return pick_fields(facts, *facts)
