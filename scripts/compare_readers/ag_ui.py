"""Fold AG-UI streams: what the assistant said and thought, calls with arguments, results, tokens.

What a person said is only in the input of a run and in snapshots, which repeat it; each message is
folded where it stands first. A snapshot may also hold the result of a call that no event has, and
calls that no event has beside one that events have.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare_readers.common import MAIN, Fold, describe_call, describe_result, dump

_TEXT = ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK")
_REASONING = ("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK")
_THINKING = ("THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT")
_CALL = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK")
_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cachedInputTokens",
}


def is_session(path: Path) -> bool:
    """Return whether a file is a stream."""
    return path.suffix == ".jsonl" and path.stat().st_size > 0


def fold_session(path: Path) -> Fold:
    """Fold one stream, with its subagents."""
    folder = _StreamFolder()
    for event in _iter_events(path):
        folder.take(event)
    return folder.finish()


def _iter_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of JSON lines or of a saved event stream."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.removeprefix("data:").strip()
        if text:
            yield json.loads(text)


class _Step:
    """Something that was said or done; its text comes in pieces."""

    def __init__(
        self,
        kind: str,
        thread: str,
        key: Any = None,
        tool: Any = None,
        text: str = "",
        is_empty: bool = False,
    ) -> None:
        self.kind = kind
        self.thread = thread
        self.key = key
        self.tool = tool
        self.text = text
        self.is_empty = is_empty
        """Whether it is exported though it has no text."""


class _StreamFolder:
    def __init__(self) -> None:
        self._fold = Fold()
        self._steps: list[_Step] = []
        self._open: dict[tuple[str, Any], _Step] = {}
        self._last: dict[str, Any] = {}
        """The id of the last message or call of each kind: chunks may leave it out."""
        self._answered: set[Any] = set()
        self._repeated: set[Any] = set()
        self._said: set[str] = set()
        """What a person said, which every snapshot repeats."""
        self._run_start = 0
        self._thoughts = 0
        self._subagents: list[Any] = []

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("type", "")
        if kind in _TEXT:
            self._add_piece("answer", event, event.get("messageId"))
        elif kind in _REASONING:
            self._add_piece("thought", event, event.get("messageId"))
        elif kind in _THINKING:
            self._thoughts += kind == "THINKING_TEXT_MESSAGE_START"
            self._add_piece("thought", event, self._thoughts)
        elif kind in _CALL:
            self._add_call_piece(kind, event)
        elif kind == "TOOL_CALL_RESULT":
            self._add_result(event)
        elif kind == "THINKING_START" and event.get("title"):
            self._steps.append(_Step("thought", MAIN, text=event["title"]))
        elif kind == "REASONING_ENCRYPTED_VALUE":
            self._take_encrypted(event)
        elif kind == "SUBAGENT_STARTED":
            self._get_thread(event)
        elif kind == "RUN_STARTED":
            self._run_start = len(self._steps)
            self._take_messages((event.get("input") or {}).get("messages"))
        elif kind == "MESSAGES_SNAPSHOT":
            self._take_messages(event.get("messages"))
        elif kind == "RUN_FINISHED":
            for usage in event.get("usage") or ():
                self._fold.add_tokens({ours: usage.get(name, 0) for ours, name in _TOKENS.items()})

    def _get_thread(self, event: dict[str, Any]) -> str:
        """Return the thread of an event; subagents are distinguished by their order."""
        run = event.get("subagentRunId")
        if run is None:
            return MAIN
        if run not in self._subagents:
            self._subagents.append(run)
            self._fold.threads.setdefault(f"#{len(self._subagents)}", [])
        return f"#{self._subagents.index(run) + 1}"

    def _take_encrypted(self, event: dict[str, Any]) -> None:
        """Fold reasoning that has no text; next to its text it is not repeated."""
        is_known = ("thought", event.get("entityId")) in self._open
        if event.get("subtype") == "message" and not is_known:
            self._steps.append(_Step("thought", self._get_thread(event), is_empty=True))

    def _add_piece(self, kind: str, event: dict[str, Any], key: Any) -> None:
        key = self._last.get(kind) if key is None else key
        self._last[kind] = key
        step = self._open.get((kind, key))
        if step is None:
            step = _Step(kind, self._get_thread(event), key, event.get("toolCallName"))
            self._open[kind, key] = step
            self._steps.append(step)
        step.text += event.get("delta") or ""

    def _add_call_piece(self, kind: str, event: dict[str, Any]) -> None:
        """Add a piece of a call; one that comes again as a whole is added once."""
        call_id = event.get("toolCallId")
        step = self._open.get(("call", call_id))
        if kind == "TOOL_CALL_START" and step is not None and step.text:
            self._repeated.add(call_id)
        if call_id not in self._repeated:
            self._add_piece("call", event, call_id)

    def _add_result(self, message: dict[str, Any], position: int | None = None) -> None:
        call_id = message.get("toolCallId")
        if call_id in self._answered:
            return
        self._answered.add(call_id)
        text = describe_result(call_id, message.get("content") or "")
        step = _Step("result", self._get_thread(message), call_id, text=text)
        self._insert(len(self._steps) if position is None else position, step)

    def _take_messages(self, messages: Any) -> None:
        for message in messages or ():
            content = message.get("content")
            call = self._open.get(("call", message.get("toolCallId")))
            answer = self._open.get(("answer", message.get("id")))
            # A snapshot has the whole of an answer whose stream broke off.
            if answer is not None and str(content).startswith(answer.text):
                answer.text = content
            self._add_missed_calls(message)
            if message.get("role") == "tool" and call is not None:
                self._add_result(message, self._find_end_of_calls(call))
            elif message.get("role") == "user" and dump(content) not in self._said:
                self._said.add(dump(content))
                text = content if isinstance(content, str) else dump(content)
                # A snapshot comes after the answer that it repeats.
                self._insert(self._run_start, _Step("human", MAIN, text=text))

    def _add_missed_calls(self, message: dict[str, Any]) -> None:
        """Add the calls of a message that only the snapshot has, after those made with them."""
        siblings = [call for call in message.get("toolCalls") or () if isinstance(call, dict)]
        previous: _Step | None = None
        for call in siblings:
            step = self._open.get(("call", call.get("id")))
            if step is None and previous is not None:
                function = call.get("function") or {}
                step = _Step("call", MAIN, call.get("id"), function.get("name"))
                step.text = function.get("arguments") or ""
                self._open["call", call.get("id")] = step
                self._insert(self._steps.index(previous) + 1, step)
            previous = step

    def _insert(self, position: int, step: _Step) -> None:
        self._steps.insert(position, step)
        if position <= self._run_start:
            self._run_start += 1

    def _find_end_of_calls(self, call: _Step) -> int:
        """Return where the calls that were made with this one, and their results, end."""
        position = self._steps.index(call)
        while position < len(self._steps) and self._steps[position].kind in ("call", "result"):
            position += 1
        return position

    def finish(self) -> Fold:
        for step in self._steps:
            if step.kind == "call":
                arguments = _parse(step.text or "{}")
                self._fold.add(step.thread, "call", describe_call(step.key, step.tool, arguments))
                if step.key not in self._answered:
                    self._fold.add(step.thread, "missing", str(step.key))
            elif step.text or step.is_empty:
                self._fold.add(step.thread, step.kind, step.text)
        return self._fold


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
