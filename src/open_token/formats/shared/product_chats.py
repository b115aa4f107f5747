"""Conversations of chat products, whose messages have fields of their own.

A reader names the fields that it reads. All others become an annotation: products add fields all
the time, and nothing may be dropped because it is new.
"""

from collections.abc import Collection
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Role, Usage

# Times since 1970 above this are in milliseconds: in seconds, it is the year 5138.
_MAX_SECONDS = 10**11


def parse_time(value: Any) -> str | None:
    """Return a time given as text, or in seconds or milliseconds since 1970."""
    if isinstance(value, str):
        return to_utc(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > _MAX_SECONDS:
        return from_epoch(value, 0.001)
    return from_epoch(value)


def build_file_block(file: JsonObject) -> JsonObject:
    """Return an attachment as a block: the data of a `data:` URL is unpacked, fields are kept."""
    kind = "image" if "image" in str(file.get("type")) else "file"
    facts = {name: value for name, value in file.items() if name != "type" and value is not None}
    url = file.get("url")
    if isinstance(url, str) and url.startswith("data:"):
        del facts["url"]
        return build_media_url_block(url, kind) | facts
    return {**facts, "type": kind}


class ProductChat:
    """Adds one conversation of a chat product to a draft."""

    def __init__(self, draft: Draft, product: str, runtime: str = "web") -> None:
        self.draft = draft
        self.client = draft.get_actor("system", product)
        self._providers = ProviderTracker()
        self._calls = CallMatcher(draft)
        self._runtime = runtime

    def name_provider(self, model: str | None, named: str | None = None) -> str | None:
        """Return the provider of a model, by the product's name for it, else by the model."""
        return self._providers.add_model(named, model)

    def open_answer(
        self,
        model: Any,
        place: str,
        *,
        provider: Any = None,
        ts: str | None = None,
        usage: Usage | None = None,
    ) -> MessageWriter:
        """Return a writer for one answer of a model; the reader closes it."""
        name = as_text(model)
        known = self.name_provider(name, as_text(provider))
        actor = self.draft.get_actor("model", "assistant", provider=known, model=name)
        return MessageWriter(self.draft, actor, self._calls, place, ts=ts, usage=usage)

    def add_text(self, role: Any, content: Any, place: str, ts: str | None = None) -> Event | None:
        """Add what the user or the product said: a text, or a list of blocks."""
        if not content:
            self.draft.note_omission("empty-message", place, "message without text")
            return None
        if not isinstance(content, str | list):
            content = [content]
        if role == "user":
            return self.draft.add_message(
                "user", content, self.draft.get_actor("human", "user"), ts=ts
            )
        if role in ("system", "developer"):
            checked: Role = role
            return self.draft.add_message(checked, content, self.client, ts=ts)
        self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
        return None

    def add_context(self, value: JsonObject, known: Collection[str]) -> None:
        """Add what is known about the conversation besides its messages."""
        context = _list_other_fields(value, known)
        if context:
            self.draft.add_annotation({"kind": "context", **context}, actor=self.client)

    def add_facts(
        self,
        message: JsonObject,
        known: Collection[str],
        *,
        parent: Event | None = None,
        ts: str | None = None,
    ) -> None:
        """Add the fields of a message that the reader does not read."""
        facts = _list_other_fields(message, known)
        if facts:
            data = {"kind": "message_facts", **facts}
            self.draft.add_annotation(data, parent=parent, actor=self.client, ts=ts)

    def finish(self, chat_id: Any, title: Any, started_at: str | None) -> None:
        """Set the facts about the conversation."""
        facts = self.draft.conversation
        facts["source_runtime"] = self._runtime
        set_conversation_facts(
            self.draft,
            conversation_id=as_text(chat_id),
            title=as_text(title),
            started_at=started_at or self.draft.first_ts,
        )
        self._providers.set_provider(facts)


def _list_other_fields(value: JsonObject, known: Collection[str]) -> JsonObject:
    """Return the fields that hold something and are not known."""
    others: JsonObject = {}
    for name, field in value.items():
        if name in known or field is None or field is False or field in ("", [], {}):
            continue
        others["native_kind" if name == "kind" else name] = field
    return others
