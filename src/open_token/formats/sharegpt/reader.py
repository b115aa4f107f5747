"""Tells a conversation of ShareGPT data: who speaks by the tag of a turn, calls as JSON text, media
by placeholders."""

from collections import deque
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.export_archive import Part, Parts, fill
from open_token.formats.shared.fields import note_definitions
from open_token.formats.shared.model_message import Body
from open_token.formats.shared.responses_content import arguments, name_of, word
from open_token.formats.sharegpt.detect import LAYOUT
from open_token.model.document import Found
from open_token.sources.source import Source

_ROLES = {
    **dict.fromkeys(("human", "user", "prompter"), "user"),
    **dict.fromkeys(
        ("gpt", "assistant", "model", "chatgpt", "bing", "bard", "claude"), "assistant"
    ),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(
        ("observation", "function_response", "tool_response", "tool", "function"), "result"
    ),
}
_PLACEHOLDERS = {"image": "<image>", "video": "<video>", "audio": "<audio>"}

_ASKING = ("human", "user")


def _read_part(source: Source, draft: Draft, parts: Parts) -> None:
    """Tell the chosen conversation to the draft."""
    parts.note(draft)
    draft.without_thoughts = "unknown"
    part = parts.chosen(source)
    if name := word(part.value.get("id")):
        draft.conversation["id"] = name
    _Conversation(draft, part.value).tell()
    fill(source, draft)


class _Conversation:
    """One conversation on its way into the draft."""

    def __init__(self, draft: Draft, value: Body) -> None:
        self._draft = draft
        self._value = value
        self._open: deque[tuple[str, str]] = deque()
        self._media = {kind: deque(_listed(value.get(f"{kind}s"))) for kind in _PLACEHOLDERS}

    def tell(self) -> None:
        value = self._value
        if system := word(value.get("system")):
            self._say("system", system, "message 0")
        if names := _tools(value.get("tools")):
            self._draft.add_annotation({"kind": "tools", "names": names})
            note_definitions(
                self._draft.note_omission, _listed(arguments(value.get("tools"))), "message 0"
            )
        turns = value.get("conversations") or value.get("messages")
        for number, turn in enumerate(turns if isinstance(turns, list) else (), 1):
            self._tell_turn(turn, f"message {number}")
        self._tell_choice()
        for kind, left in self._media.items():
            if left:
                self._draft.add_annotation({"kind": "attachment", f"{kind}s": list(left)})
        if value.get("kto_tag") is not None:
            self._draft.add_annotation({"kind": "message_facts", "kto_tag": value["kto_tag"]})

    def _tell_turn(self, turn: Any, place: str) -> None:
        tag, text = _turn(turn)
        role = _ROLES.get(tag.lower()) if isinstance(tag, str) else None
        if role is None:
            self._draft.note_omission("unknown-role", place, f"tag {name_of(tag)}")
        elif role == "call":
            self._call(text, place)
        elif role == "result":
            self._answer(text)
        else:
            self._say(role, text, place)

    def _tell_choice(self) -> None:
        """Preference data: the better answer is the conversation, the worse one a branch that was
        left."""
        for name in ("rejected", "chosen"):
            if isinstance(self._value.get(name), dict):
                first = self._draft.count
                self._tell_turn(self._value[name], name)
                if name == "rejected":
                    data = {"kind": "abandoned_branch", "detail": "the answer that was rejected"}
                    self._draft.drop_branch(
                        first, self._draft.count, data, self._draft.get_actor("system", "runtime")
                    )

    def _say(self, role: str, text: Any, place: str) -> None:
        words = text if isinstance(text, str) else "" if text is None else [text]
        blocks = self._shown(words) if isinstance(words, str) else []
        content = [{"type": "text", "text": words}, *blocks] if blocks else words
        if role == "user":
            self._open.clear()
            self._draft.add_message("user", content, self._draft.get_actor("human", "user"))
        elif role == "system":
            self._draft.add_message("system", content, self._draft.get_actor("system", "system"))
        else:
            self._draft.add_message("assistant", content, self._model())

    def _shown(self, text: str) -> list[Any]:
        """The media that a text has placeholders for, in order."""
        made: list[Any] = []
        for kind, mark in _PLACEHOLDERS.items():
            left = self._media[kind]
            for _ in range(min(text.count(mark), len(left))):
                item = left.popleft()
                made.append(
                    {"type": kind, "url": item}
                    if isinstance(item, str)
                    else {"type": kind, "value": item}
                )
        return made

    def _model(self) -> str:
        return self._draft.get_actor("model", "assistant", model=word(self._value.get("model")))

    def _call(self, text: Any, place: str) -> None:
        """One call or several, as JSON in a text."""
        given = arguments(text)
        for call in given if isinstance(given, list) else [given]:
            about = call if isinstance(call, dict) else {}
            inner = about.get("function")
            about = inner if isinstance(inner, dict) else about
            name = word(about.get("name"))
            if name is None:
                name, made = "tool", call
            else:
                made = arguments(about.get("arguments", about.get("parameters")))
            self._open.append(
                (self._draft.add_tool_call(None, name, made, self._model(), group=place), name)
            )

    def _answer(self, text: Any) -> None:
        key, _ = self._open.popleft() if self._open else (None, "")
        self._draft.add_tool_result(key, "" if text is None else text)


def _turn(turn: Any) -> tuple[Any, Any]:
    """The tag and the words of a turn."""
    if not isinstance(turn, dict):
        return None, None
    return turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tools(value: Any) -> list[str]:
    """The names of the tools, which are given as a list or as JSON in a text."""
    made = []
    for tool in _listed(arguments(value)):
        inner = tool.get("function") if isinstance(tool, dict) else None
        about = inner if isinstance(inner, dict) else tool if isinstance(tool, dict) else {}
        if name := word(about.get("name")):
            made.append(name)
    return made


def list_conversations(source: Source) -> list[Found]:
    """The conversations of the file, in its order."""
    return LAYOUT.parts(source).listed(_found)


def _found(part: Part) -> Found:
    given = part.value.get("conversations") or part.value.get("messages")
    turns = [turn for turn in given if isinstance(turn, dict)] if isinstance(given, list) else []
    said = [
        turn.get("value", turn.get("content"))
        for turn in turns
        if turn.get("from", turn.get("role")) in _ASKING
    ]
    first = next((" ".join(text[:400].split()) for text in said if isinstance(text, str)), "")
    return Found(part.id, title=first[:80] or None, messages=len(turns))


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the file belongs to."""
    return LAYOUT.parts(source).owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    _read_part(source, draft, LAYOUT.parts(source))
