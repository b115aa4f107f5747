"""Read a session of Chatbox."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.chatbox.detect import LAYOUT
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_dict,
    get_text,
    parse_arguments,
)
from open_token.formats.shared.message_tree import BranchRecorder
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, parse_time
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Found, Usage
from open_token.sources.source import Source

_SESSION_FIELDS = ("id", "name", "messages", "threads", "messageForksHash")
_MESSAGE_FIELDS = frozenset(
    (
        "id role contentParts content reasoningContent model aiProvider timestamp updatedAt usage"
        " wordCount tokenCount tokensUsed tokenCountMap tokenCalculatedAt cancel isStreamingMode"
        " error"
    ).split()
)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session into the draft."""
    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(source, draft, lambda part: _SessionReader(draft).read(part.value))


def list_conversations(source: Source) -> list[Found]:
    """List the sessions, in the order of the backup."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the session that a part of the backup belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    title = get_text(part.value, "name")
    return Found(part.id, title=title, messages=len(part.value["messages"]))


class _SessionReader:
    """Reads one session."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._chat = ProductChat(draft, "Chatbox", "other")
        self._forks: JsonObject = {}

    def read(self, session: JsonObject) -> None:
        self._chat.add_context(session, _SESSION_FIELDS)
        self._forks = dict(get_dict(session, "messageForksHash"))
        branches = BranchRecorder(self._draft, "another thread or fork took its place")
        threads = session.get("threads")
        for number, thread in enumerate(threads if isinstance(threads, list) else [], 1):
            self._read_branch(branches, thread, f"thread {number}")
        self._read_messages(branches, session["messages"], "")
        # Forks of messages that are not there any more.
        for fork in list(self._forks.values()):
            self._read_fork(branches, fork, "fork")
        branches.close()
        self._chat.finish(session.get("id"), session.get("name"), None)

    def _read_messages(self, branches: BranchRecorder, messages: list[Any], where: str) -> None:
        for number, message in enumerate(messages, 1):
            place = f"{where} message {number}".strip()
            if not isinstance(message, dict):
                self._draft.note_omission("unknown-record", place, "it is not an object")
                continue
            self._read_message(message, place)
            fork = self._forks.pop(str(message.get("id")), None)
            if fork is not None:
                self._read_fork(branches, fork, place)

    def _read_fork(self, branches: BranchRecorder, fork: Any, place: str) -> None:
        """Read what followed a message before it was answered anew; the current line is empty."""
        lists = fork.get("lists") if isinstance(fork, dict) else None
        if not isinstance(lists, list):
            self._draft.note_omission("unknown-record", place, "a fork without lists")
            return
        for item in lists:
            if not isinstance(item, dict) or item.get("messages") != []:
                self._read_branch(branches, item, f"{place}, fork")

    def _read_branch(self, branches: BranchRecorder, branch: Any, where: str) -> None:
        branches.begin()
        if isinstance(branch, dict) and isinstance(branch.get("messages"), list):
            self._read_messages(branches, branch["messages"], where)
            self._chat.add_facts(branch, ("id", "messages", "createdAt"))
        else:
            self._draft.note_omission("unknown-record", where, "a branch without messages")
        branches.end()

    def _read_message(self, message: JsonObject, place: str) -> None:
        ts = parse_time(message.get("timestamp"))
        parent: Event | None
        if message.get("role") == "assistant":
            parent = self._read_answer(message, place, ts)
        else:
            parent = self._chat.add_text(message.get("role"), _build_content(message), place, ts)
        self._chat.add_facts(message, _MESSAGE_FIELDS, parent=parent, ts=ts)
        if message.get("error"):
            data = {"kind": "error", "error": message["error"]}
            self._draft.add_annotation(data, parent=parent, actor=self._chat.client, ts=ts)

    def _read_answer(self, message: JsonObject, place: str, ts: str | None) -> Event | None:
        usage = _parse_usage(get_dict(message, "usage"))
        writer = self._chat.open_answer(
            message.get("model"), place, provider=message.get("aiProvider"), ts=ts, usage=usage
        )
        count = self._draft.count
        if message.get("reasoningContent"):
            _read_part(writer, {"type": "reasoning", "text": message["reasoningContent"]})
        for part in _list_parts(message):
            _read_part(writer, part)
        if self._draft.count == count and not message.get("error"):
            self._draft.note_omission("empty-message", place, "message without text")
        writer.close()
        return writer.last


def _list_parts(message: JsonObject) -> list[Any]:
    """Return the parts of a message; the first versions have one text instead."""
    parts = message.get("contentParts")
    made = list(parts) if isinstance(parts, list) else []
    if parts and not isinstance(parts, list):
        made.append(parts)
    content = message.get("content")
    if content:
        made.append({"type": "text", "text": content} if isinstance(content, str) else content)
    return made


def _read_part(writer: MessageWriter, part: Any) -> None:
    kind = get_text(part, "type")
    text = part.get("text") if kind in ("text", "reasoning") else None
    if text == "":
        return
    if kind == "text" and isinstance(text, str):
        writer.add_message(text)
    elif kind == "reasoning" and isinstance(text, str):
        writer.add_reasoning(text)
    elif kind == "tool-call":
        native_id = as_text(part.get("toolCallId"))
        tool = as_text(part.get("toolName")) or "tool"
        writer.add_tool_call(native_id, tool, parse_arguments(part.get("args")))
        if part.get("result") is not None:
            facts = {"is_error": True} if part.get("state") == "error" else None
            writer.add_tool_result(native_id, part["result"], tool, facts)
    elif kind == "info":
        # What the program shows about an answer.
        writer.add_annotation("notice", detail=part)
    else:
        writer.add_message([part])


def _build_content(message: JsonObject) -> Any:
    """Return a single text as it is, anything else as blocks."""
    parts = _list_parts(message)
    if len(parts) == 1 and get_text(parts[0], "type") == "text":
        text = parts[0].get("text")
        if isinstance(text, str):
            return text
    return parts


def _parse_usage(counts: JsonObject) -> Usage | None:
    return build_usage(
        input_tokens=counts.get("inputTokens"),
        output_tokens=counts.get("outputTokens"),
        reasoning_tokens=counts.get("reasoningTokens"),
        cache_read_tokens=counts.get("cachedInputTokens"),
    )
