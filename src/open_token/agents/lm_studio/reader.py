"""Read conversations of LM Studio."""

from typing import Any

from open_token.agents.lm_studio.detect import get_selected, is_conversation
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_dict,
    get_first,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_tree import BranchRecorder
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, parse_time
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

_CONVERSATION_FIELDS = frozenset(
    (
        "name createdAt messages systemPrompt pinned usePerChatPredictionConfig clientInput"
        " clientInputFiles userFilesSizeBytes tokenCount looseFiles"
    ).split()
)
_VERSION_FIELDS = frozenset("type role content steps senderInfo preprocessed processed".split())
_STEP_FIELDS = frozenset(
    (
        "type stepIdentifier content genInfo style prefix suffix defaultShouldIncludeInContext"
        " shouldIncludeInContext"
    ).split()
)
_FILE_SUFFIX = ".conversation.json"


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    for number, record in source.records():
        if is_conversation(record):
            reader = _ConversationReader(draft)
            reader.read(record)
            reader.finish(record, _get_id(source))
        else:
            detail = "a record that is not a conversation"
            draft.note_omission("unknown-record", f"record {number}", detail)


def _get_id(source: Source) -> str | None:
    """Return the name of the file: a conversation has no id in it."""
    name = source.path.name if source.path is not None else ""
    return name.removesuffix(_FILE_SUFFIX) if name.endswith(_FILE_SUFFIX) else None


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._chat = ProductChat(draft, "LM Studio", "other")
        self._model: str | None = None

    def read(self, conversation: JsonObject) -> None:
        self._model = get_text(get_dict(conversation, "lastUsedModel"), "identifier")
        self._chat.add_context(conversation, _CONVERSATION_FIELDS)
        if conversation.get("systemPrompt"):
            self._chat.add_text("system", conversation["systemPrompt"], "system prompt")
        branches = BranchRecorder(self._draft, "another version is selected")
        for number, message in enumerate(conversation["messages"], 1):
            place = f"message {number}"
            versions = message.get("versions") if isinstance(message, dict) else None
            if not isinstance(versions, list) or not versions:
                self._draft.note_omission("unknown-record", place, "a message without versions")
                continue
            selected = get_selected(message)
            for index, version in enumerate(versions):
                if index != selected:
                    branches.begin()
                    self._read_version(version, place)
                    branches.end()
            self._read_version(versions[selected], place)
            self._chat.add_facts(message, ("versions", "currentlySelected"))
        branches.close()

    def finish(self, conversation: JsonObject, chat_id: str | None) -> None:
        """Set the facts about the conversation."""
        started_at = parse_time(conversation.get("createdAt"))
        self._chat.finish(chat_id, conversation.get("name"), started_at)

    def _read_version(self, version: Any, place: str) -> None:
        if not isinstance(version, dict):
            self._draft.note_omission("unknown-record", place, "a version that is not an object")
            return
        parent: Event | None = None
        content = version.get("content")
        if version.get("role") == "assistant":
            model = get_text(get_dict(version, "senderInfo"), "senderName") or self._model
            steps = version.get("steps")
            if not isinstance(steps, list) or not steps:
                steps = [{"type": "contentBlock", "content": content}]
            for step in steps:
                parent = self._read_step(step, model, place) or parent
        else:
            parent = self._chat.add_text(version.get("role"), _parse_content(content), place)
        self._chat.add_facts(version, _VERSION_FIELDS, parent=parent)

    def _read_step(self, step: Any, model: str | None, place: str) -> Event | None:
        if not isinstance(step, dict):
            self._draft.note_omission("unknown-record", place, "a step that is not an object")
            return None
        ts = _parse_identifier(step.get("stepIdentifier"))
        info = get_dict(step, "genInfo")
        named = get_first(info, "identifier", "indexedModelIdentifier") or model
        usage = _parse_usage(get_dict(info, "stats"))
        writer = self._chat.open_answer(named, place, ts=ts, usage=usage)
        is_thinking = get_dict(step, "style").get("type") == "thinking"
        content = step.get("content")
        if content is not None and not isinstance(content, list):
            content = [content]
        for part in content or []:
            _read_part(writer, part, is_thinking)
        known = _STEP_FIELDS
        if step.get("type") != "contentBlock":
            # The state of a call, or what the program shows about itself.
            known = known - {"type"}
        self._chat.add_facts(step, known, parent=writer.last, ts=ts)
        writer.close()
        return writer.last


def _read_part(writer: MessageWriter, part: Any, is_thinking: bool) -> None:
    kind = get_text(part, "type")
    text = part.get("text") if kind == "text" else None
    if isinstance(text, str):
        if text and is_thinking:
            writer.add_reasoning(text)
        elif text:
            writer.add_message(text)
    elif kind == "toolCallRequest":
        call = get_dict(part, "toolCallRequest") or part
        given = get_first(call, "parameters", "arguments")
        tool = as_text(call.get("name")) or "tool"
        facts = pick_fields(call, "pluginIdentifier")
        writer.add_tool_call(_get_call_id(call), tool, parse_arguments(given), facts)
    elif kind == "toolCallResult":
        output = part.get("content")
        name = as_text(part.get("name"))
        writer.add_tool_result(_get_call_id(part), "" if output is None else output, name)
    elif part:
        writer.add_message([part] if isinstance(part, dict) else str(part))


def _get_call_id(part: JsonObject) -> str | None:
    value = get_first(part, "toolCallRequestId", "callId", "toolCallId", "id")
    return str(value) if isinstance(value, str | int) and value != "" else None


def _parse_content(content: Any) -> Any:
    """Return a single text as it is, anything else as blocks."""
    if isinstance(content, list) and len(content) == 1:
        text = get_text(content[0], "text")
        if text and get_text(content[0], "type") == "text":
            return text
    return content


def _parse_identifier(value: Any) -> str | None:
    """Return the time in the id of a step, such as `1780959836856-0.2`."""
    digits = value.partition("-")[0] if isinstance(value, str) else ""
    is_time = len(digits) == 13 and digits.isascii() and digits.isdecimal()
    return parse_time(int(digits)) if is_time else None


def _parse_usage(stats: JsonObject) -> Usage | None:
    return build_usage(
        input_tokens=stats.get("promptTokensCount"),
        output_tokens=stats.get("predictedTokensCount"),
    )
