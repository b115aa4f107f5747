"""Match the lines of a rollout that hold the same content twice.

A response_item is what the model saw; an event_msg is what the user interface showed. Most messages
and reasoning are written as both, in either order, a few lines apart.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from open_token.agents.codex.records import Line
from open_token.formats.shared.fields import as_text

WINDOW = 48
"""How many lines a line waits for its counterpart."""
_MAX_UNMATCHED = 256
_INJECTED_PREFIXES = (
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<apps_instructions>",
    "<collaboration_mode>",
    "<environment_context>",
    "<goal_context>",
    "<hook_prompt",
    "<multi_agent_mode>",
    "<permissions",
    "<plugins",
    "<skill>",
    "<skills_instructions>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_action>",
    "<user_instructions>",
    "<user_shell_command>",
)
# A plan within an answer is shown apart from it.
_PLAN = re.compile(r"<proposed_plan>.*?</proposed_plan>\n?", re.DOTALL)
_Key = tuple[str, int, int]


def match_duplicates(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines in order, each with what is known of its counterpart."""
    matcher = DuplicateMatcher()
    for line in lines:
        yield from matcher.add(line)
    yield from matcher.flush()


class DuplicateMatcher:
    """Delays lines until their counterparts are known, and returns them in order."""

    def __init__(self) -> None:
        self._queue: deque[Line] = deque()
        self._waiting: list[tuple[Line, list[_Key]]] = []
        """Events in the queue, with the keys of texts that no item has held yet."""
        self._unshown_prompts: list[Line] = []
        """User messages in the queue that no event has shown yet."""
        self._unmatched: dict[_Key, list[Line]] = {}
        """Items that no event has shown yet, by the keys of their texts."""
        self._shows_prompts = False
        """Whether events show what the user types, which not all versions do."""

    def add(self, line: Line) -> Iterable[Line]:
        """Add one line; return those that are decided now."""
        if line.kind == "response_item":
            self._add_item(line)
        elif line.kind == "event_msg":
            shown = _parse_event(line.payload)
            if shown is not None:
                self._add_event(line, *shown)
        if not self._queue and not line.is_pending:
            return (line,)
        self._queue.append(line)
        return self._pop_decided()

    def flush(self) -> Iterator[Line]:
        """Yield the lines that are still pending at the end."""
        while self._queue:
            yield self._expire_first()

    def _pop_decided(self) -> Iterator[Line]:
        while self._queue:
            if not self._queue[0].is_pending:
                yield self._queue.popleft()
            elif len(self._queue) > WINDOW:
                yield self._expire_first()
            else:
                return

    def _expire_first(self) -> Line:
        """Remove the first line, which waits no longer; an unmatched event is no duplicate."""
        line = self._queue.popleft()
        if line in self._unshown_prompts:
            self._decide_prompts()
        self._waiting = [entry for entry in self._waiting if entry[0] is not line]
        return line

    def _add_item(self, line: Line) -> None:
        payload = line.payload
        kind = payload.get("type")
        role = payload.get("role") if kind == "message" else None
        # The model answers: the prompts before it are complete.
        if self._unshown_prompts and role != "user" and role != "developer":
            self._decide_prompts()
        keys = _build_item_keys(kind, payload)
        if keys and self._waiting:
            keys = self._match_waiting(line, kind, keys)
        if role == "user" and not line.is_shown:
            line.is_injected = _has_injected_prefix(payload)
            line.is_pending = True
            self._unshown_prompts.append(line)
        for key in keys:
            self._unmatched.setdefault(key, []).append(line)
        # Bounds memory: items without an event would otherwise stay for ever.
        while len(self._unmatched) > _MAX_UNMATCHED:
            del self._unmatched[next(iter(self._unmatched))]

    def _match_waiting(self, item: Line, kind: Any, keys: list[_Key]) -> list[_Key]:
        """Match an item with earlier events; return the keys that later events may still show."""
        for entry in self._waiting[:]:
            event, wanted = entry
            matched = [key for key in wanted if key in keys]
            if not matched:
                continue
            _link(item, event)
            self._remove_texts(entry, matched)
            # Each part of reasoning has its own event; any other item has one event.
            if kind != "reasoning":
                return []
            keys = [key for key in keys if key not in matched]
        return keys

    def _remove_texts(self, entry: tuple[Line, list[_Key]], matched: list[_Key]) -> None:
        """Remove the texts of a waiting event that an item holds."""
        event, wanted = entry
        remaining = [key for key in wanted if key not in matched]
        self._waiting.remove(entry)
        if remaining:
            kind = wanted[0][0]
            event.texts = [
                text for text in event.texts or () if _build_key(kind, text) in remaining
            ]
            self._waiting.append((event, remaining))
        else:
            event.is_duplicate = True
            event.is_pending = False

    def _add_event(self, line: Line, kind: str, texts: list[str]) -> None:
        self._shows_prompts = self._shows_prompts or kind == "user"
        wanted = []
        line.texts = []
        for text in texts:
            key = _build_key(kind, text)
            items = self._unmatched.get(key)
            if items:
                self._match_item(items[0], line, key)
            else:
                wanted.append(key)
                line.texts.append(text)
        line.is_duplicate = not wanted
        if wanted:
            line.is_pending = True
            self._waiting.append((line, wanted))

    def _match_item(self, item: Line, event: Line, key: _Key) -> None:
        """Match an event with an item before it."""
        _link(item, event)
        kind = item.payload.get("type")
        keys = [key] if kind == "reasoning" else _build_item_keys(kind, item.payload)
        for used in keys:
            items = self._unmatched.get(used, [])
            if item in items:
                items.remove(item)
            if not items:
                self._unmatched.pop(used, None)
        if item in self._unshown_prompts:
            self._unshown_prompts.remove(item)
            item.is_pending = False

    def _decide_prompts(self) -> None:
        """Decide about earlier prompts: if events show what is typed, unshown ones are injected."""
        for line in self._unshown_prompts:
            line.is_injected = line.is_injected or self._shows_prompts
            line.is_pending = False
        self._unshown_prompts = []


def _link(item: Line, event: Line) -> None:
    item.is_shown = True
    item.is_injected = False
    item.counterpart = event
    event.counterpart = item


def _has_injected_prefix(payload: dict[str, Any]) -> bool:
    """Return whether a message begins like those that Codex itself writes."""
    text = payload.get("content")
    if isinstance(text, list) and text:
        text = text[0]
    if isinstance(text, dict):
        text = text.get("text")
    return isinstance(text, str) and text.lstrip().startswith(_INJECTED_PREFIXES)


def _build_key(kind: str, text: str) -> _Key:
    return kind, len(text), hash(text)


def _build_item_keys(kind: Any, payload: dict[str, Any]) -> list[_Key]:
    """Return a key for each content of an item that an event may show."""
    if kind == "message":
        role = payload.get("role")
        if role == "user":
            return [_build_key("user", text) for text in _get_shown_texts(payload.get("content"))]
        if role == "assistant":
            return [_build_key("agent", text) for text in _get_shown_texts(payload.get("content"))]
        return []
    if kind == "reasoning":
        texts = get_texts(payload.get("summary")) + get_texts(payload.get("content"))
        return [_build_key("reasoning", text) for text in texts]
    if kind == "web_search_call":
        return [_build_key("web", _get_search_text(payload.get("action")))]
    if kind == "image_generation_call":
        return [_build_key("image", str(payload.get("id")))]
    return []


def _get_shown_texts(content: Any) -> list[str]:
    """Return the texts that an event may have for a message.

    It shows each text, all joined, an answer without its plan, or nothing next to an image.
    """
    texts = get_texts(content)
    if len(texts) == 1 and (isinstance(content, str) or len(content) == 1):
        if "<proposed_plan>" in texts[0]:
            return [*texts, _PLAN.sub("", texts[0])]
        return texts
    shown = [*texts, "".join(texts)]
    has_media = isinstance(content, list) and len(content) > len(texts)
    if has_media:
        shown.append("")
    return shown


def get_texts(parts: Any) -> list[str]:
    """Return the texts in a list of parts, or a single text."""
    if isinstance(parts, str):
        return [parts]
    if not isinstance(parts, list):
        return []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]


def _parse_event(payload: dict[str, Any]) -> tuple[str, list[str]] | None:
    """Return kind and texts of what an event shows of an item; None for other events."""
    kind = payload.get("type")
    if kind == "item_completed":
        return _parse_completed_item(payload.get("item"))
    if kind == "user_message":
        return "user", get_texts(payload.get("message"))
    if kind == "agent_message":
        return "agent", get_texts(payload.get("message"))
    if kind in ("agent_reasoning", "agent_reasoning_raw_content"):
        return "reasoning", get_texts(payload.get("text"))
    if kind == "web_search_end":
        return "web", [_get_search_query(payload)]
    if kind == "image_generation_end":
        return "image", [str(payload.get("call_id"))]
    return None


def _parse_completed_item(item: Any) -> tuple[str, list[str]] | None:
    """Return the same for item_completed events (0.14x, paginated history)."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    if kind == "UserMessage":
        return "user", ["".join(get_texts(item.get("content")))]
    if kind == "AgentMessage":
        return "agent", ["".join(get_texts(item.get("content")))]
    if kind == "Reasoning":
        texts = get_texts(item.get("summary_text")) + get_texts(item.get("raw_content"))
        return "reasoning", texts
    if kind == "WebSearch" or (kind == "Extension" and "action" in item):
        return "web", [_get_search_query(item)]
    if kind == "ImageGeneration":
        return "image", [str(item.get("id"))]
    return None


def _get_search_query(event: dict[str, Any]) -> str:
    return _get_search_text(event.get("action")) or str(event.get("query") or "")


def _get_search_text(action: Any) -> str:
    if not isinstance(action, dict):
        return ""
    for name in ("query", "url", "pattern"):
        text = as_text(action.get(name))
        if text:
            return text
    return "\n".join(get_texts(action.get("queries")))
