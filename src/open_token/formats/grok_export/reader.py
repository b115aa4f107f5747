"""Tells a conversation of a Grok export: the tree of its responses, thoughts, steps, images and
files."""

import re
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.grok_export.detect import LAYOUT
from open_token.formats.shared.export_archive import (
    ExportedConversation,
    ExportedConversations,
    note_empty_conversation,
)
from open_token.formats.shared.export_assets import Assets, build_media_block, detect_media_type
from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.message_tree import BEGIN, NODE, BranchRecorder, walk_tree
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Found, Role
from open_token.sources.source import Source

_ASSET = re.compile(r"(?:^|/)([0-9A-Fa-f-]{32,36})/content[^/]*$")
_SOURCES = {
    "cited_web_search_results": "citations",
    **{
        name: name
        for name in (
            "web_search_results",
            "xposts",
            "xpost_ids",
            "webpage_urls",
            "card_attachments_json",
        )
    },
}
_SENDERS = ("assistant", "model", "grok")


def _read_part(source: Source, draft: Draft, parts: ExportedConversations) -> None:
    """Tell the chosen conversation to the draft."""
    parts.note_other_content(draft)
    value = parts.get_selected(source).value
    _Conversation(
        draft, value, Assets(source, _ASSET, beside="prod-mc-asset-server/*/content*")
    ).tell()
    note_empty_conversation(source, draft)


class _Conversation:
    """One conversation on its way into the draft."""

    def __init__(self, draft: Draft, value: JsonObject, assets: Assets) -> None:
        self._draft = draft
        self._about: JsonObject = value["conversation"]
        self._assets = assets
        self._responses: dict[str, tuple[JsonObject, str]] = {}
        for number, item in enumerate(value["responses"], 1):
            response = item.get("response") if isinstance(item, dict) else None
            if not isinstance(response, dict):
                draft.note_omission(
                    "unknown-record", f"response {number}", "a response that is not an object"
                )
                continue
            name = as_text(response.get("_id"))
            key = name if name and name not in self._responses else f"\0{number}"
            self._responses[key] = (response, f"response {number}")

    def tell(self) -> None:
        self._tell_facts()
        branches = BranchRecorder(self._draft, "another message took its place")
        leaf = as_text(self._about.get("leaf_response_id"))
        last = next(reversed(self._responses), None)
        for what, key in walk_tree(self._parents(), leaf if leaf in self._responses else last):
            if what == NODE:
                self._tell_response(*self._responses[key])
            elif what == BEGIN:
                branches.begin()
            else:
                branches.end()
        branches.close()

    def _tell_facts(self) -> None:
        facts, about = self._draft.conversation, self._about
        facts["source_runtime"] = "web"
        facts["provider"] = "other"
        if name := as_text(about.get("id")):
            facts["id"] = name
        if title := as_text(about.get("title")):
            facts["title"] = title
        if started := to_utc(about.get("create_time")):
            facts["started_at"] = started
        if context := {
            name: about[name] for name in ("summary", "system_prompt_name") if about.get(name)
        }:
            self._draft.add_annotation({"kind": "context", **context})

    def _parents(self) -> dict[str, str | None]:
        """Who follows whom; a response that names nobody follows the one before it."""
        made: dict[str, str | None] = {}
        before: str | None = None
        for key, (response, _) in self._responses.items():
            made[key] = as_text(response.get("parent_response_id")) or before
            before = key
        return made

    def _tell_response(self, response: JsonObject, place: str) -> None:
        if not isinstance(response.get("message"), str):
            self._draft.note_omission("no-content", place, "a response without a message")
        sender = as_text(response.get("sender")) or "assistant"
        ts = _time(response.get("create_time"))
        if sender.lower() in ("human", "user"):
            self._say("user", response, self._draft.get_actor("human", "user"), ts, place)
            return
        model = as_text(response.get("model")) or (
            sender if sender.lower() not in _SENDERS else None
        )
        actor = self._draft.get_actor("model", "assistant", provider="xai", model=model)
        self._think(response, actor, model, ts, place)
        self._say("assistant", response, actor, ts, place)

    def _think(
        self, response: JsonObject, actor: str, model: str | None, ts: str | None, place: str
    ) -> None:
        trace = as_text(response.get("thinking_trace"))
        ts = _time(response.get("thinking_start_time")) or ts
        if trace:
            self._draft.add_reasoning(trace, actor, ts=ts)
        traces = response.get("agent_thinking_traces")
        for item in traces if isinstance(traces, list) else ():
            text = as_text(item.get("thinking_trace")) if isinstance(item, dict) else as_text(item)
            if not text:
                self._draft.note_omission("empty-reasoning", place, "a thought without words")
            elif text != trace:
                agent = as_text(item.get("agent_id")) if isinstance(item, dict) else None
                thinker = self._draft.get_actor(
                    "model", "assistant", provider="xai", model=model, instance_id=agent
                )
                self._draft.add_reasoning(text, thinker, ts=ts)
        if response.get("steps"):
            self._draft.add_annotation(
                {"kind": "steps", "steps": response["steps"]}, actor=actor, ts=ts
            )

    def _say(
        self, role: Role, response: JsonObject, actor: str, ts: str | None, place: str
    ) -> None:
        text = as_text(response.get("message")) or ""
        blocks = self._files(response, place)
        words: str | list[Any] = (
            [*([{"type": "text", "text": text}] if text else ()), *blocks] if blocks else text
        )
        event = self._draft.add_message(role, words, actor, ts=ts)
        facts = {told: response[name] for name, told in _SOURCES.items() if response.get(name)}
        query = as_text(response.get("query"))
        if query and query != text:
            facts |= {"query": query, **pick_fields(response, "query_type")}
        if response.get("partial") is True:
            facts["broke_off"] = True
        if facts:
            self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=ts)
        if response.get("error"):
            self._draft.add_annotation(
                {"kind": "error", "error": response["error"]}, parent=event, ts=ts
            )

    def _files(self, response: JsonObject, place: str) -> list[Any]:
        made: list[Any] = [
            {"type": "image", "url": url} for url in _words(response.get("generated_image_urls"))
        ]
        for kind in ("image", "file"):
            for key in _words(response.get(f"{kind}_attachments")):
                made.append(self._file(key, kind, place))
        return made

    def _file(self, key: str, kind: str, place: str) -> JsonObject:
        data = self._assets.get(key)
        if data is None:
            self._draft.note_omission(
                "missing-file", place, f"{kind} that is not in the export, kept as a reference"
            )
            return {"type": kind, "id": key}
        is_image = (detect_media_type(data) or "").startswith("image/")
        return build_media_block(data, "image" if is_image else kind) | {"id": key}


def _words(value: Any) -> list[str]:
    given = value if isinstance(value, list) else []
    found = [
        item.get("asset_id") or item.get("id") or item.get("url")
        if isinstance(item, dict)
        else item
        for item in given
    ]
    return [item for item in found if isinstance(item, str) and item]


def _time(value: Any) -> str | None:
    """A time in MongoDB's spelling, or as text; never guessed."""
    if isinstance(value, dict):
        value = value.get("$date")
    if isinstance(value, dict):
        value = value.get("$numberLong")
        value = (
            int(value)
            if isinstance(value, str) and value.isdecimal() and len(value) < 16
            else value
        )
    return to_utc(value) if isinstance(value, str) else from_epoch(value, 0.001)


def list_conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.find_conversations(source).list_all(_found)


def _found(part: ExportedConversation) -> Found:
    about = part.value["conversation"]
    title = about.get("title")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=to_utc(about.get("create_time")),
        updated_at=to_utc(about.get("modify_time")),
        messages=len(part.value["responses"]),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    _read_part(source, draft, LAYOUT.find_conversations(source))
