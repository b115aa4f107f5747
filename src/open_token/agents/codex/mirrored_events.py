"""Tells which lines of a rollout show the same thing twice: items the model saw, and events its
screen showed."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from open_token.agents.codex.lines import Line
from open_token.formats.shared.fields import as_text

WINDOW = 48
"""How many lines a line waits for the one that shows the same."""
_OFFERED = 256
_MARKS = (
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
_PLAN = re.compile(r"<proposed_plan>.*?</proposed_plan>\n?", re.DOTALL)
"""A plan in an answer, which the screen shows apart."""
_Key = tuple[str, int, int]


class Mirrors:
    """Holds lines back until it is known what they mirror, and hands them on in their order."""

    def __init__(self) -> None:
        self._queue: deque[Line] = deque()
        self._waiting: list[tuple[Line, list[_Key]]] = []
        """Mirrors in the queue, with what they show and no item holds yet."""
        self._untyped: list[Line] = []
        """Messages of the user in the queue that no event has shown yet."""
        self._offered: dict[_Key, list[Line]] = {}
        """Items that no event has shown yet, by what they hold."""
        self._shows_users = False

    def take(self, line: Line) -> Iterable[Line]:
        """Take one line; give those that are settled now."""
        if line.kind == "response_item":
            self._item(line)
        elif line.kind == "event_msg" and (shown := _shown(line.payload)) is not None:
            self._mirror(line, *shown)
        if not self._queue and not line.is_held:
            return (line,)
        self._queue.append(line)
        return self._settled()

    def rest(self) -> Iterator[Line]:
        """At the end: the lines that were still held."""
        while self._queue:
            yield self._expire()

    def _settled(self) -> Iterator[Line]:
        while self._queue:
            if not self._queue[0].is_held:
                yield self._queue.popleft()
            elif len(self._queue) > WINDOW:
                yield self._expire()
            else:
                return

    def _expire(self) -> Line:
        """The first line of the queue, waiting no longer: a mirror of nothing says it itself."""
        line = self._queue.popleft()
        if line in self._untyped:
            self._model_speaks()
        self._waiting = [entry for entry in self._waiting if entry[0] is not line]
        return line

    def _item(self, line: Line) -> None:
        payload = line.payload
        kind = payload.get("type")
        role = payload.get("role") if kind == "message" else None
        if self._untyped and role != "user" and role != "developer":
            self._model_speaks()
        keys = _held_keys(kind, payload)
        for entry in self._waiting[:] if keys else ():
            if found := [key for key in entry[1] if key in keys]:
                _match(line, entry[0])
                self._answer(entry, found)
                keys = [key for key in keys if key not in found] if kind == "reasoning" else []
        if role == "user" and not line.is_mirrored:
            line.is_injected, line.is_held = is_marked(payload), True
            self._untyped.append(line)
        for key in keys:
            self._offered.setdefault(key, []).append(line)
        while len(self._offered) > _OFFERED:
            del self._offered[next(iter(self._offered))]

    def _answer(self, entry: tuple[Line, list[_Key]], found: list[_Key]) -> None:
        """A waiting mirror has met these of its texts in an item."""
        mirror, wanted = entry
        left = [key for key in wanted if key not in found]
        self._waiting.remove(entry)
        if left:
            mirror.texts = [text for text in mirror.texts or () if _key(wanted[0][0], text) in left]
            self._waiting.append((mirror, left))
        else:
            mirror.is_mirror, mirror.is_held = True, False

    def _mirror(self, line: Line, kind: str, texts: list[str]) -> None:
        self._shows_users = self._shows_users or kind == "user"
        wanted, line.texts = [], []
        for text in texts:
            key = _key(kind, text)
            if items := self._offered.get(key):
                self._shown_by(items[0], line, key)
            else:
                wanted.append(key)
                line.texts.append(text)
        line.is_mirror = not wanted
        if wanted:
            line.is_held = True
            self._waiting.append((line, wanted))

    def _shown_by(self, item: Line, mirror: Line, key: _Key) -> None:
        """An event shows an item that came before it."""
        _match(item, mirror)
        kind = item.payload.get("type")
        for used in [key] if kind == "reasoning" else _held_keys(kind, item.payload):
            items = self._offered.get(used, [])
            if item in items:
                items.remove(item)
            if not items:
                self._offered.pop(used, None)
        if item in self._untyped:
            self._untyped.remove(item)
            item.is_held = False

    def _model_speaks(self) -> None:
        """Messages before it that no event showed were not typed, if events show what is typed."""
        for line in self._untyped:
            line.is_injected = line.is_injected or self._shows_users
            line.is_held = False
        self._untyped = []


def _match(item: Line, mirror: Line) -> None:
    item.is_mirrored, item.partner, mirror.partner = True, mirror, item
    item.is_injected = False


def is_marked(payload: dict[str, Any]) -> bool:
    """Whether a message begins as those do that Codex itself puts in."""
    content = payload.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    return isinstance(text, str) and text.lstrip().startswith(_MARKS)


def _key(kind: str, text: str) -> _Key:
    return kind, len(text), hash(text)


def _held_keys(kind: Any, payload: dict[str, Any]) -> list[_Key]:
    """What an item holds that an event may show."""
    if kind == "message":
        role = {"user": "user", "assistant": "agent"}.get(str(payload.get("role")))
        return [_key(role, text) for text in _message_texts(payload.get("content"))] if role else []
    if kind == "reasoning":
        return [
            _key("thought", text)
            for text in texts_in(payload.get("summary")) + texts_in(payload.get("content"))
        ]
    if kind == "web_search_call":
        return [_key("web", _search(payload.get("action")))]
    if kind == "image_generation_call":
        return [_key("image", str(payload.get("id")))]
    return []


def _message_texts(content: Any) -> list[str]:
    """The texts a screen may show of a message: each, all in one, or none beside a picture."""
    texts = texts_in(content)
    if len(texts) == 1 and (isinstance(content, str) or len(content) == 1):
        return [*texts, _PLAN.sub("", texts[0])] if "<proposed_plan>" in texts[0] else texts
    has_media = isinstance(content, list) and len(content) > len(texts)
    return [*texts, "".join(texts), *([""] if has_media else [])]


def texts_in(parts: Any) -> list[str]:
    """The texts of a list of parts, or of one text."""
    if isinstance(parts, str):
        return [parts]
    if not isinstance(parts, list):
        return []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]


def _shown(payload: dict[str, Any]) -> tuple[str, list[str]] | None:
    """What an event shows of an item: its kind and texts; None when it is another event."""
    kind = payload.get("type")
    if kind == "item_completed":
        return _shown_item(payload.get("item"))
    if kind == "user_message":
        return "user", texts_in(payload.get("message"))
    if kind == "agent_message":
        return "agent", texts_in(payload.get("message"))
    if kind in ("agent_reasoning", "agent_reasoning_raw_content"):
        return "thought", texts_in(payload.get("text"))
    if kind == "web_search_end":
        return "web", [_search(payload.get("action")) or str(payload.get("query") or "")]
    if kind == "image_generation_end":
        return "image", [str(payload.get("call_id"))]
    return None


def _shown_item(item: Any) -> tuple[str, list[str]] | None:
    """The same of the newer events, which wrap an item of the screen (0.14x, paginated history)."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    if kind == "UserMessage":
        return "user", ["".join(texts_in(item.get("content")))]
    if kind == "AgentMessage":
        return "agent", ["".join(texts_in(item.get("content")))]
    if kind == "Reasoning":
        return "thought", texts_in(item.get("summary_text")) + texts_in(item.get("raw_content"))
    if kind == "WebSearch" or (kind == "Extension" and "action" in item):
        return "web", [_search(item.get("action")) or str(item.get("query") or "")]
    if kind == "ImageGeneration":
        return "image", [str(item.get("id"))]
    return None


def _search(action: Any) -> str:
    if not isinstance(action, dict):
        return ""
    for name in ("query", "url", "pattern"):
        if text := as_text(action.get(name)):
            return text
    queries = action.get("queries")
    return "\n".join(texts_in(queries))
