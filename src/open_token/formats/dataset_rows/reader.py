"""Read one row of a chat dataset: its messages, its answers, and its labels."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.dataset_rows.detect import LAYOUT
from open_token.formats.shared.export_archive import (
    ExportedConversation,
    add_labels,
)
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, parse_json_text
from open_token.formats.shared.message_dicts import parse_message
from open_token.formats.shared.notes import list_tool_names, note_tool_definitions
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.formats.shared.row_shapes import (
    get_message_column,
    get_messages,
    is_preference,
)
from open_token.model.document import Found
from open_token.model.titles import make_title
from open_token.sources.source import Source

_ROLES_OF_TURNS = {"gpt": "assistant", "observation": "tool"}
_KNOWN_MESSAGE_FIELDS = frozenset(
    (
        "role from content value name model tool_calls tool_call_id function_call refusal audio"
        " reasoning_content reasoning thinking parts id error thought thinking_blocks"
        " tool_call_ids"
    ).split()
)


def read(source: Source, draft: Draft) -> None:
    """Add the chosen row to the draft."""

    def read_row(row: ExportedConversation) -> None:
        if LAYOUT.id_of(row.value):
            draft.conversation["id"] = row.id
        _RowReader(draft, row.value).read()

    draft.without_thoughts = "unknown"
    LAYOUT.find_conversations(source).read_selected(source, draft, read_row)


def list_conversations(source: Source) -> list[Found]:
    """List the rows of the file, in its order."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the row that a part of the file belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(row: ExportedConversation) -> Found:
    messages, _, chosen = _split_row(row.value)
    title = None
    for message in as_dicts([*messages, *chosen]):
        role, content = _normalize_turn(message).get("role"), message.get("content")
        text = content if isinstance(content, str) else message.get("value")
        if role in ("user", "human") and isinstance(text, str):
            title = make_title(text)
            break
    return Found(row.id, title=title or None, messages=len(messages) + len(chosen))


def _split_row(row: JsonObject) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the messages of a row, the answer that was rejected, and the one that was chosen."""
    if is_preference(row):
        return _split_preference(row)
    messages = get_messages(row)
    if messages is not None:
        return messages, [], []
    return (
        _to_messages(row.get("prompt"), "user"),
        [],
        _to_messages(row.get("completion"), "assistant"),
    )


def _split_preference(row: JsonObject) -> tuple[list[Any], list[Any], list[Any]]:
    if "preferred_output" in row:
        prompt = row["input"]["messages"]
        rejected = _to_messages(row.get("non_preferred_output"), "assistant")
        return prompt, rejected, _to_messages(row["preferred_output"], "assistant")
    prompt = get_messages(row) or _to_messages(row.get("prompt"), "user")
    rejected = _to_messages(row["rejected"], "assistant")
    chosen = _to_messages(row["chosen"], "assistant")
    # Each answer may repeat the prompt.
    shared = 0
    while shared < min(len(rejected), len(chosen)) and rejected[shared] == chosen[shared]:
        shared += 1
    if shared:
        repeats_prompt = chosen[: len(prompt)] == prompt or _repeats_text(prompt, chosen[:shared])
        prompt = chosen[:shared] if repeats_prompt else [*prompt, *chosen[:shared]]
    return prompt, rejected[shared:], chosen[shared:]


def _repeats_text(prompt: list[Any], messages: list[Any]) -> bool:
    """Return whether a prompt that is a text is among these messages."""
    texts = [message.get("content") for message in as_dicts(messages)]
    return all(message.get("content") in texts for message in as_dicts(prompt))


def _to_messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []


def _normalize_turn(message: JsonObject) -> JsonObject:
    """Return a turn from a speaker, as some datasets write it, as a message with a role."""
    role = message.get("role", message.get("from"))
    name = role.lower() if isinstance(role, str) else ""
    turn = {**message, "role": _ROLES_OF_TURNS.get(name, role)}
    if "content" not in turn and "value" in turn:
        turn["content"] = turn["value"]
    call_ids = turn.get("tool_call_ids")
    if "tool_call_id" not in turn and isinstance(call_ids, list) and len(call_ids) == 1:
        turn["tool_call_id"] = call_ids[0]
    if turn["role"] == "assistant":
        _move_reasoning(turn)
    return turn


def _move_reasoning(turn: JsonObject) -> None:
    """Put reasoning that SWE-agent and LiteLLM write beside the content where it is recognized."""
    thought = turn.get("thought")
    if as_text(thought) and thought != turn.get("content"):
        turn.setdefault("reasoning", thought)
    blocks = as_dicts(turn.get("thinking_blocks"))
    content = turn.get("content")
    if blocks and not isinstance(content, list):
        turn["content"] = [*blocks, {"type": "text", "text": content}] if content else blocks


class _RowReader:
    """Adds one row to the draft."""

    def __init__(self, draft: Draft, row: JsonObject) -> None:
        self._draft = draft
        self._row = row
        # Nothing is remembered: what a row repeats was said again.
        self._history = HistoryWriter(draft, remember=False)

    def read(self) -> None:
        self._add_labels()
        self._add_tools()
        messages, rejected, chosen = _split_row(self._row)
        self._add_messages(messages, "message")
        if rejected:
            first = self._draft.count
            self._add_messages(rejected, "rejected message")
            data = {"kind": "abandoned_branch", "detail": "the answer that was rejected"}
            actor = self._draft.get_actor("system", "runtime")
            self._draft.drop_branch(first, self._draft.count, data, actor)
        self._add_messages(chosen, "chosen message")

    def _add_messages(self, messages: list[Any], unit: str) -> None:
        for number, value in enumerate(messages, 1):
            place = f"{unit} {number}"
            message = parse_message(_normalize_turn(value)) if isinstance(value, dict) else None
            if message is None:
                self._draft.note_omission("unknown-message", place, "a message without a role")
                continue
            model = message.model or as_text(self._row.get("model"))
            actor = self._draft.get_actor("model", "assistant", model=model)
            event = self._history.add_message(message, MessageContext(actor, place))
            facts = {
                name: field
                for name, field in value.items()
                if name not in _KNOWN_MESSAGE_FIELDS and field not in (None, "", [], {})
            }
            if facts:
                self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event)

    def _add_labels(self) -> None:
        """Add the columns besides the conversation: what the row is about, and how it is rated."""
        used = {"tools", get_message_column(self._row)}
        if is_preference(self._row):
            used |= {"input", "prompt", "chosen", "rejected"}
            used |= {"preferred_output", "non_preferred_output"}
        elif get_message_column(self._row) is None:
            used |= {"prompt", "completion"}
        columns = {name: value for name, value in self._row.items() if name not in used}
        given = self._row.get("input")
        if "preferred_output" in self._row and isinstance(given, dict):
            columns |= {
                name: value for name, value in given.items() if name not in ("messages", "tools")
            }
        add_labels(self._draft, columns)

    def _add_tools(self) -> None:
        """Add the names of the tools, which are given as a list or as JSON text."""
        value = self._row.get("tools")
        given = self._row.get("input")
        if value is None and isinstance(given, dict):
            value = given.get("tools")
        tools = parse_json_text(value)
        if value is not None and not isinstance(tools, list):
            add_labels(self._draft, {"tools": value})
            return
        names = list_tool_names(tools)
        if names:
            self._draft.add_annotation({"kind": "tools", "names": names})
            note_tool_definitions(self._draft.note_omission, tools, "column tools")
