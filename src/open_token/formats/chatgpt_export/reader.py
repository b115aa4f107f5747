"""Read a conversation of a ChatGPT export: the tree of its messages, tool calls, results, reasoning."""

from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.chatgpt_export.content import FILE_ID, Body, ContentReader, get_object
from open_token.formats.chatgpt_export.detect import LAYOUT
from open_token.formats.chatgpt_export.tool_calls import CallTracker
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.export_assets import Assets
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.message_tree import BEGIN, NODE, BranchRecorder, walk_tree
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Event, Found, Role, Visibility
from open_token.sources.source import Source

_NODE_FIELDS = {"id", "parent", "children", "message"}
_NO_TOOLS = ("all", "assistant", "user")
"""Recipients of messages that are no calls."""
_CONTEXT_FIELDS = (
    "gizmo_id",
    "gizmo_type",
    "conversation_template_id",
    "plugin_ids",
    "conversation_origin",
    "voice",
)
_USUAL_FINISH_REASONS = ("stop", "unknown", None)
_EDITABLE_CONTEXT = ("user_editable_context", "model_editable_context")


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""

    def read_conversation(part: ExportedConversation) -> None:
        assets = Assets(source, FILE_ID, beside="file*")
        _ConversationReader(draft, part.value, ContentReader(draft, assets)).read()

    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(source, draft, read_conversation)


def list_conversations(source: Source) -> list[Found]:
    """List the conversations, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    conversation = part.value
    title = conversation.get("title")
    messages = 0
    for node in conversation["mapping"].values():
        if isinstance(node, dict) and node.get("message"):
            messages += 1
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=from_epoch(conversation.get("create_time")),
        updated_at=from_epoch(conversation.get("update_time")),
        messages=messages,
    )


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft, conversation: Body, contents: ContentReader) -> None:
        self._draft = draft
        self._conversation = conversation
        self._contents = contents
        self._calls = CallTracker(draft)
        mapping: Body = conversation["mapping"]
        self._nodes = {key: get_object(mapping, key) for key in mapping}
        self._numbers = {key: number for number, key in enumerate(self._nodes, 1)}

    def read(self) -> None:
        self._read_facts()
        branches = BranchRecorder(self._draft, "another message took its place")
        parents, ranks = self._read_tree()
        for step, key in walk_tree(parents, self._find_last_node(), ranks):
            if step == NODE:
                self._read_node(key, parents[key])
            elif step == BEGIN:
                branches.begin()
                self._calls.begin_branch()
            else:
                self._calls.end_branch()
                branches.end()
        self._calls.flush()
        branches.close()

    def _read_facts(self) -> None:
        facts = self._draft.conversation
        conversation = self._conversation
        facts["source_runtime"] = "web"
        facts["provider"] = "openai"
        conversation_id = as_text(conversation.get("conversation_id"))
        set_conversation_facts(
            self._draft,
            conversation_id=conversation_id or as_text(conversation.get("id")),
            title=as_text(conversation.get("title")),
            started_at=from_epoch(conversation.get("create_time")),
        )
        context = {name: conversation[name] for name in _CONTEXT_FIELDS if conversation.get(name)}
        if context:
            self._draft.add_annotation({"kind": "context", **context})

    def _read_tree(self) -> tuple[dict[str, str | None], dict[str, int]]:
        """Return the parent of each node, and its rank among siblings.

        A node names its parent and its children; either may be missing.
        """
        ranks: dict[str, int] = {}
        parents: dict[str, str] = {}
        for key, node in self._nodes.items():
            children = node.get("children")
            for rank, child in enumerate(children if isinstance(children, list) else ()):
                if isinstance(child, str):
                    ranks.setdefault(child, rank)
                    parents.setdefault(child, key)
        tree = {
            key: as_text(node.get("parent")) or parents.get(key)
            for key, node in self._nodes.items()
        }
        return tree, ranks

    def _find_last_node(self) -> str | None:
        """Return the last node of the displayed branch, or else the last message of the file."""
        current = as_text(self._conversation.get("current_node"))
        if current in self._nodes:
            return current
        for key in reversed(self._nodes):
            if isinstance(self._nodes[key].get("message"), dict):
                return key
        return None

    def _read_node(self, key: str, parent: str | None) -> None:
        node = self._nodes[key]
        message = node.get("message")
        place = f"message {self._numbers[key]}"
        if not isinstance(message, dict):
            # The root of the tree has no message.
            if message is not None or not node.keys() <= _NODE_FIELDS:
                self._draft.note_omission("unknown-record", place, "a node without a message")
            return
        role = get_object(message, "author").get("role")
        if role == "tool":
            self._read_result(message, parent, place)
            return
        self._calls.flush()
        if role == "assistant":
            self._read_assistant_message(message, key, place)
        elif role == "user":
            self._calls.drop_open_calls()
            name = as_text(get_object(message, "author").get("name"))
            actor = self._draft.get_actor("human", name or "user")
            self._read_message("user", message, actor, place)
        elif role in ("system", "developer"):
            actor = self._draft.get_actor("system", "system")
            self._read_message(cast(Role, role), message, actor, place)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _read_assistant_message(self, message: Body, key: str, place: str) -> None:
        actor = self._get_model_actor(message)
        ts = from_epoch(message.get("create_time"))
        content = get_object(message, "content")
        kind = content.get("content_type")
        recipient = as_text(message.get("recipient")) or "all"
        if kind == "thoughts":
            self._read_thoughts(content, actor, ts, place)
        elif kind == "reasoning_recap":
            text = content.get("content") or content.get("parts") or ""
            duration = pick_fields(get_object(message, "metadata"), "finished_duration_sec")
            self._draft.add_annotation(
                {"kind": "reasoning_recap", "text": text, **duration}, actor=actor, ts=ts
            )
        elif recipient not in _NO_TOOLS:
            arguments = self._contents.read_arguments(message, place)
            self._calls.add_call(key, recipient, arguments, actor, ts)
            self._annotate_facts(message, None, ts)
        else:
            self._read_message("assistant", message, actor, place)

    def _get_model_actor(self, message: Body) -> str:
        model = as_text(get_object(message, "metadata").get("model_slug"))
        if not model:
            model = as_text(self._conversation.get("default_model_slug"))
        name = as_text(get_object(message, "author").get("name")) or "assistant"
        return self._draft.get_actor("model", name, provider="openai", model=model)

    def _read_thoughts(self, content: Body, actor: str, ts: str | None, place: str) -> None:
        thoughts = content.get("thoughts")
        if not isinstance(thoughts, list):
            thoughts = [content.get("parts")]
        is_empty = True
        for thought in thoughts:
            title, text = _parse_thought(thought)
            if title:
                self._draft.add_reasoning(title, actor, ts=ts, summary=True)
            if text:
                self._draft.add_reasoning(text, actor, ts=ts)
            if title or text:
                is_empty = False
            else:
                self._draft.note_omission("empty-reasoning", place, "a thought without text")
        if is_empty:
            self._draft.note_omission("empty-reasoning", place, "reasoning without text")

    def _read_message(self, role: Role, message: Body, actor: str, place: str) -> None:
        content = self._contents.read_content(message, place)
        if not content:
            self._draft.note_omission("empty-message", place, "a message without content")
            return
        ts = from_epoch(message.get("create_time"))
        is_analysis = role == "assistant" and message.get("channel") == "analysis"
        if is_analysis and isinstance(content, str):
            event = self._draft.add_reasoning(content, actor, ts=ts)
        else:
            visibility = _get_visibility(role, message)
            event = self._draft.add_message(role, content, actor, ts=ts, visibility=visibility)
        self._annotate_facts(message, event, ts)

    def _annotate_facts(self, message: Body, event: Event | None, ts: str | None) -> None:
        """Add what is known of a message besides its content."""
        metadata = get_object(message, "metadata")
        facts: Body = {}
        finish_reason = get_object(metadata, "finish_details").get("type")
        if finish_reason not in _USUAL_FINISH_REASONS:
            facts["finish_reason"] = finish_reason
        if message.get("status") not in ("finished_successfully", None):
            facts["status"] = message["status"]
        if message.get("weight") == 0:
            facts["discarded"] = True
        citations = metadata.get("content_references") or metadata.get("citations")
        if citations:
            facts["citations"] = citations
        if facts:
            self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=ts)

    def _read_result(self, message: Body, parent: str | None, place: str) -> None:
        metadata = get_object(message, "metadata")
        facts: Body = {}
        for name in ("command", "search_result_groups"):
            if metadata.get(name):
                facts[name] = metadata[name]
        status = get_object(metadata, "aggregate_result").get("status")
        if status not in ("success", None):
            facts["status"] = status
        citations = get_object(metadata, "_cite_metadata").get("metadata_list")
        if citations:
            facts["citations"] = citations
        if get_object(message, "content").get("content_type") == "system_error":
            facts["is_error"] = True
        output = self._contents.read_output(message, place)
        tool = as_text(get_object(message, "author").get("name"))
        ts = from_epoch(message.get("create_time"))
        self._calls.add_result(parent, tool, output, facts, ts)


def _get_visibility(role: Role, message: Body) -> Visibility:
    metadata = get_object(message, "metadata")
    if role not in ("user", "assistant") or message.get("weight") == 0:
        return "internal"
    if metadata.get("is_visually_hidden_from_conversation") is True:
        return "internal"
    if metadata.get("is_user_system_message") is True:
        return "internal"
    if get_object(message, "content").get("content_type") in _EDITABLE_CONTEXT:
        return "internal"
    return "public"


def _parse_thought(thought: Any) -> tuple[str | None, str | None]:
    """Return the title and the text of a thought."""
    if isinstance(thought, list):
        text = "\n\n".join(part for part in thought if isinstance(part, str))
        return None, text or None
    if not isinstance(thought, dict):
        return None, as_text(thought)
    title = as_text(thought.get("summary"))
    content = as_text(thought.get("content"))
    chunks = thought.get("chunks")
    if content or not isinstance(chunks, list):
        return title, content
    return title, "".join(chunk for chunk in chunks if isinstance(chunk, str)) or None
