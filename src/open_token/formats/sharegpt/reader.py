"""Reader of ShareGPT data: roles by tags, calls as JSON text, media by placeholders."""

from collections import deque
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.export_archive import ExportedConversation, add_labels
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, parse_arguments
from open_token.formats.shared.notes import format_kind, list_tool_names, note_tool_definitions
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
# The columns that become something else than labels.
_KNOWN_COLUMNS = frozenset(
    "id conversations messages system tools images videos audios chosen rejected kto_tag".split()
)
_TITLE_TAGS = ("human", "user")


def read(source: Source, draft: Draft) -> None:
    """Add the chosen conversation to the draft."""

    def read_conversation(conversation: ExportedConversation) -> None:
        value = conversation.value
        set_conversation_facts(draft, conversation_id=as_text(value.get("id")))
        _ConversationReader(draft, value).read()

    draft.without_thoughts = "unknown"
    LAYOUT.find_conversations(source).read_selected(source, draft, read_conversation)


def list_conversations(source: Source) -> list[Found]:
    """List the conversations of the file, in its order."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def _describe(conversation: ExportedConversation) -> Found:
    turns = as_dicts(_get_turns(conversation.value))
    title = ""
    for turn in turns:
        tag, text = _split_turn(turn)
        if tag in _TITLE_TAGS and isinstance(text, str):
            title = " ".join(text[:400].split())
            break
    return Found(conversation.id, title=title[:80] or None, messages=len(turns))


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the conversation that a part of the file belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


class _ConversationReader:
    """Adds one conversation to the draft."""

    def __init__(self, draft: Draft, value: JsonObject) -> None:
        self._draft = draft
        self._value = value
        self._open_calls: deque[str] = deque()
        self._media = {kind: deque(_as_list(value.get(f"{kind}s"))) for kind in _PLACEHOLDERS}

    def read(self) -> None:
        value = self._value
        columns = {name: column for name, column in value.items() if name not in _KNOWN_COLUMNS}
        if value.get("conversations"):
            columns["messages"] = value.get("messages")
        add_labels(self._draft, columns)
        system = as_text(value.get("system"))
        if system:
            self._add_message("system", system)
        self._add_tools(value.get("tools"))
        turns = _get_turns(value)
        for number, turn in enumerate(turns if isinstance(turns, list) else (), 1):
            self._add_turn(turn, f"message {number}")
        self._add_preference()
        for kind, unused in self._media.items():
            if unused:
                self._draft.add_annotation({"kind": "attachment", f"{kind}s": list(unused)})
        if value.get("kto_tag") is not None:
            self._draft.add_annotation({"kind": "message_facts", "kto_tag": value["kto_tag"]})

    def _add_tools(self, value: Any) -> None:
        """Add the names of the tools, which are given as a list or as JSON text."""
        tools = _as_list(parse_arguments(value))
        names = list_tool_names(tools)
        if names:
            self._draft.add_annotation({"kind": "tools", "names": names})
            note_tool_definitions(self._draft.note_omission, tools, "message 0")
        elif value:
            add_labels(self._draft, {"tools": value})

    def _add_turn(self, turn: Any, place: str) -> None:
        tag, text = _split_turn(turn) if isinstance(turn, dict) else (None, None)
        role = _ROLES.get(tag.lower()) if isinstance(tag, str) else None
        if role is None:
            self._draft.note_omission("unknown-role", place, f"tag {format_kind(tag)}")
        elif role == "call":
            self._add_calls(text, place)
        elif role == "result":
            key = self._open_calls.popleft() if self._open_calls else None
            self._draft.add_tool_result(key, "" if text is None else text)
        else:
            self._add_message(role, text)

    def _add_preference(self) -> None:
        """Add preference data: the rejected answer is an abandoned branch."""
        rejected = self._value.get("rejected")
        if isinstance(rejected, dict):
            first = self._draft.count
            self._add_turn(rejected, "rejected")
            data = {"kind": "abandoned_branch", "detail": "the answer that was rejected"}
            actor = self._draft.get_actor("system", "runtime")
            self._draft.drop_branch(first, self._draft.count, data, actor)
        chosen = self._value.get("chosen")
        if isinstance(chosen, dict):
            self._add_turn(chosen, "chosen")

    def _add_message(self, role: str, text: Any) -> None:
        content: str | list[Any]
        if text is None:
            content = ""
        elif isinstance(text, str):
            media = self._take_media(text)
            content = [{"type": "text", "text": text}, *media] if media else text
        else:
            content = [text]
        if role == "user":
            self._open_calls.clear()
            self._draft.add_message("user", content, self._draft.get_actor("human", "user"))
        elif role == "system":
            self._draft.add_message("system", content, self._draft.get_actor("system", "system"))
        else:
            self._draft.add_message("assistant", content, self._get_model_actor())

    def _take_media(self, text: str) -> list[Any]:
        """Return the media that a text has placeholders for, in order."""
        blocks: list[Any] = []
        for kind, placeholder in _PLACEHOLDERS.items():
            unused = self._media[kind]
            for _ in range(min(text.count(placeholder), len(unused))):
                item = unused.popleft()
                field = "url" if isinstance(item, str) else "value"
                blocks.append({"type": kind, field: item})
        return blocks

    def _get_model_actor(self) -> str:
        return self._draft.get_actor("model", "assistant", model=as_text(self._value.get("model")))

    def _add_calls(self, text: Any, place: str) -> None:
        """Add one call or several, which are JSON text."""
        calls = parse_arguments(text)
        for call in calls if isinstance(calls, list) else [calls]:
            definition = call if isinstance(call, dict) else {}
            if isinstance(definition.get("function"), dict):
                definition = definition["function"]
            name = as_text(definition.get("name"))
            arguments = call
            if name is not None:
                arguments = parse_arguments(
                    definition.get("arguments", definition.get("parameters"))
                )
            key = self._draft.add_tool_call(
                None, name or "tool", arguments, self._get_model_actor(), group=place
            )
            self._open_calls.append(key)


def _get_turns(value: JsonObject) -> Any:
    return value.get("conversations") or value.get("messages")


def _split_turn(turn: JsonObject) -> tuple[Any, Any]:
    """Return the tag and the text of a turn."""
    return turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]
