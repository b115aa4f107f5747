"""Read a conversation of a Grok export: the tree of its responses, reasoning, steps and files."""

import re
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.grok_export.detect import LAYOUT
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.export_archive import ExportedConversation
from open_token.formats.shared.export_assets import Assets, build_asset_block, detect_media_type
from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.message_tree import MessageTree
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Found, Role
from open_token.sources.source import Source

_ASSET_PATH = re.compile(r"(?:^|/)([0-9A-Fa-f-]{32,36})/content[^/]*$")
_ID_FIELDS = ("response_id", "_id", "responseId", "id")
_PARENT_FIELDS = ("parent_response_id", "parentResponseId")
_CONTEXT_FIELDS = ("summary", "system_prompt_name")
_SOURCE_FIELDS = {
    "cited_web_search_results": "citations",
    "web_search_results": "web_search_results",
    "xposts": "xposts",
    "xpost_ids": "xpost_ids",
    "webpage_urls": "webpage_urls",
    "card_attachments_json": "card_attachments_json",
}
"""Fields with the sources of a message, and the names of the facts that they become."""
_MODEL_SENDERS = ("assistant", "model", "grok")


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""

    def read_conversation(part: ExportedConversation) -> None:
        assets = Assets(source, _ASSET_PATH, beside="prod-mc-asset-server/*/content*")
        _ConversationReader(draft, part.value, assets).read()

    conversations = LAYOUT.find_conversations(source)
    conversations.read_selected(source, draft, read_conversation)


def list_conversations(source: Source) -> list[Found]:
    """List the conversations, in the order of the export."""
    return LAYOUT.find_conversations(source).list_all(_describe)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def _describe(part: ExportedConversation) -> Found:
    conversation = part.value["conversation"]
    title = conversation.get("title")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=to_utc(conversation.get("create_time")),
        updated_at=to_utc(conversation.get("modify_time")),
        messages=len(part.value["responses"]),
    )


class _ConversationReader:
    """Reads one conversation."""

    def __init__(self, draft: Draft, value: JsonObject, assets: Assets) -> None:
        self._draft = draft
        self._conversation: JsonObject = value["conversation"]
        self._assets = assets
        self._responses: list[Any] = value["responses"]
        """Messages of users are responses too."""

    def read(self) -> None:
        self._read_facts()
        tree = MessageTree(self._draft, _ID_FIELDS, _PARENT_FIELDS)
        for number, item in enumerate(self._responses, 1):
            response = item.get("response") if isinstance(item, dict) else None
            tree.add(response, f"response {number}")
        tree.read(as_text(self._conversation.get("leaf_response_id")), self._read_response)

    def _read_facts(self) -> None:
        facts = self._draft.conversation
        conversation = self._conversation
        facts["source_runtime"] = "web"
        facts["provider"] = "other"
        set_conversation_facts(
            self._draft,
            conversation_id=as_text(conversation.get("id")),
            title=as_text(conversation.get("title")),
            started_at=to_utc(conversation.get("create_time")),
        )
        context = {name: conversation[name] for name in _CONTEXT_FIELDS if conversation.get(name)}
        if context:
            self._draft.add_annotation({"kind": "context", **context})

    def _read_response(self, response: JsonObject, place: str) -> None:
        if not isinstance(response.get("message"), str):
            self._draft.note_omission("no-content", place, "a response without a message")
        sender = as_text(response.get("sender")) or "assistant"
        ts = _parse_time(response.get("create_time"))
        if sender.lower() in ("human", "user"):
            actor = self._draft.get_actor("human", "user")
            self._read_message("user", response, actor, ts, place)
            return
        model = as_text(response.get("model"))
        if not model and sender.lower() not in _MODEL_SENDERS:
            # Some exports name the model as the sender.
            model = sender
        actor = self._draft.get_actor("model", "assistant", provider="xai", model=model)
        self._read_reasoning(response, actor, model, ts, place)
        self._read_message("assistant", response, actor, ts, place)

    def _read_reasoning(
        self, response: JsonObject, actor: str, model: str | None, ts: str | None, place: str
    ) -> None:
        """Add the reasoning of the model, and of each agent where several worked in parallel."""
        ts = _parse_time(response.get("thinking_start_time")) or ts
        trace = as_text(response.get("thinking_trace"))
        if trace:
            self._draft.add_reasoning(trace, actor, ts=ts)
        agent_traces = response.get("agent_thinking_traces")
        if not isinstance(agent_traces, list):
            agent_traces = []
        for item in agent_traces:
            # A trace is an object that names its agent, or the text alone.
            agent_id = None
            text = item
            if isinstance(item, dict):
                agent_id = as_text(item.get("agent_id"))
                text = item.get("thinking_trace")
            text = as_text(text)
            if not text:
                self._draft.note_omission("empty-reasoning", place, "a thought without text")
            elif text != trace:
                # One of the agents may repeat the trace of the response.
                agent = self._draft.get_actor(
                    "model", "assistant", provider="xai", model=model, instance_id=agent_id
                )
                self._draft.add_reasoning(text, agent, ts=ts)
        if response.get("steps"):
            data = {"kind": "steps", "steps": response["steps"]}
            self._draft.add_annotation(data, actor=actor, ts=ts)

    def _read_message(
        self, role: Role, response: JsonObject, actor: str, ts: str | None, place: str
    ) -> None:
        text = as_text(response.get("message")) or ""
        content: str | list[Any] = text
        files = self._read_files(response, place)
        if files:
            content = [{"type": "text", "text": text}, *files] if text else files
        event = self._draft.add_message(role, content, actor, ts=ts)
        facts: JsonObject = {}
        for field_name, name in _SOURCE_FIELDS.items():
            if response.get(field_name):
                facts[name] = response[field_name]
        query = as_text(response.get("query"))
        if query and query != text:
            facts |= {"query": query, **pick_fields(response, "query_type")}
        if response.get("partial") is True:
            facts["broke_off"] = True
        if facts:
            self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=ts)
        if response.get("error"):
            data = {"kind": "error", "error": response["error"]}
            self._draft.add_annotation(data, parent=event, ts=ts)

    def _read_files(self, response: JsonObject, place: str) -> list[Any]:
        blocks: list[Any] = []
        for url in _get_references(response, "generated_image_urls"):
            blocks.append({"type": "image", "url": url})
        for kind in ("image", "file"):
            for asset_id in _get_references(response, f"{kind}_attachments"):
                blocks.append(self._read_file(asset_id, kind, place))
        return blocks

    def _read_file(self, asset_id: str, kind: str, place: str) -> JsonObject:
        data = self._assets.get(asset_id)
        if data is None:
            self._draft.note_omission(
                "missing-file",
                place,
                f"{kind} that is not in the export, preserved as a reference",
                what="attachment",
            )
            return {"type": kind, "id": asset_id}
        if (detect_media_type(data) or "").startswith("image/"):
            kind = "image"
        return build_asset_block(data, kind) | {"id": asset_id}


def _get_references(response: JsonObject, name: str) -> list[str]:
    """Return ids or URLs of files, from a list of texts or of objects."""
    items = response.get(name)
    references: list[str] = []
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            item = item.get("asset_id") or item.get("id") or item.get("url")
        if isinstance(item, str) and item:
            references.append(item)
    return references


def _parse_time(value: Any) -> str | None:
    """Return a time given as text, or as MongoDB writes it: `{"$date": {"$numberLong": "..."}}`."""
    if isinstance(value, dict):
        value = value.get("$date")
    if isinstance(value, dict):
        value = value.get("$numberLong")
        if isinstance(value, str) and value.isdecimal() and len(value) < 16:
            value = int(value)
    if isinstance(value, str):
        return to_utc(value)
    return from_epoch(value, 0.001)
