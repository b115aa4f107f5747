"""Sessions of agents that store messages as the chat completions API has them, one after another.

Their records look like messages of that API. What tells them apart is here, so that the reader of
the API leaves them to the agents.
"""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.chat_messages import add_assistant_message, parse_content
from open_token.formats.shared.fields import JsonObject, as_text, get_first, get_text
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.model.document import Event, Usage

_ROLES = ("system", "user", "assistant", "tool")
_GPTME_FIELDS = frozenset(
    (
        "role content timestamp files file_hashes pinned hide quiet call_id metadata ephemeral_ttl"
    ).split()
)
_GPTME_MARKS = frozenset("pinned hide file_hashes ephemeral_ttl".split())
_PREVIEW_LENGTH = 400


def is_vibe_log(records: list[Any]) -> bool:
    """Return whether messages have the mark of Mistral Vibe: each says whether it was injected."""
    if not records:
        return False
    return all(_is_vibe_message(record) for record in records)


def _is_vibe_message(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("role") not in _ROLES or "timestamp" in record:
        return False
    return isinstance(record.get("injected"), bool)


def is_gptme_log(records: list[Any]) -> bool:
    """Return whether messages have the fields of gptme and no others, and one a mark of it."""
    if not records or not all(_is_gptme_message(record) for record in records):
        return False
    return any(_has_gptme_mark(record) for record in records)


def _is_gptme_message(record: Any) -> bool:
    if not isinstance(record, dict) or not record.keys() <= _GPTME_FIELDS:
        return False
    has_text = isinstance(record.get("content"), str)
    return record.get("role") in _ROLES and has_text and get_text(record, "timestamp") is not None


def _has_gptme_mark(record: JsonObject) -> bool:
    if _GPTME_MARKS & record.keys():
        return True
    text = get_text(record, "content") or ""
    return record.get("role") == "system" and text.startswith("You are gptme")


def is_agent_log(records: list[Any]) -> bool:
    """Return whether messages belong to an agent that has a reader of its own."""
    return is_vibe_log(records) or is_gptme_log(records)


def find_first_words(records: list[Any]) -> str:
    """Return the beginning of the first prompt among messages."""
    for record in records:
        if get_text(record, "role") != "user" or record.get("injected") is True:
            continue
        content = record.get("content")
        if isinstance(content, list):
            texts = [get_text(part, "text") for part in content]
            content = next((text for text in texts if text), None)
        if isinstance(content, str) and content.strip():
            return content[:_PREVIEW_LENGTH]
    return ""


class ChatLogReader:
    """Adds messages to a draft, with the current model and the time of each."""

    def __init__(self, draft: Draft, client: str) -> None:
        self.draft = draft
        self.client = draft.get_actor("system", client)
        self.providers = ProviderTracker()
        self._calls = CallMatcher(draft)
        self._person = ""
        self._model: tuple[str | None, str | None] = (None, None)

    def set_model(self, model: Any, provider: Any = None) -> None:
        """Set the model of the next answers; nothing changes if there is no name."""
        if as_text(model):
            self._model = (as_text(model), as_text(provider))

    def get_model_actor(self) -> str:
        """Return the actor of the current model."""
        model, provider = self._model
        known = self.providers.add_model(provider, model)
        return self.draft.get_actor("model", "assistant", provider=known, model=model)

    def annotate(
        self, data: JsonObject, *, ts: str | None = None, usage: Usage | None = None
    ) -> None:
        """Add an annotation of the client."""
        self.draft.add_annotation(data, actor=self.client, ts=ts, usage=usage)

    def read_message(
        self,
        message: Any,
        place: str,
        *,
        ts: str | None = None,
        usage: Usage | None = None,
        is_injected: bool = False,
    ) -> Event | None:
        """Add one message; return its event if it is the text of somebody else than the model."""
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            actor = self.get_model_actor()
            writer = MessageWriter(self.draft, actor, self._calls, place, ts=ts, usage=usage)
            add_assistant_message(writer, message)
            writer.close()
        elif role in ("tool", "function"):
            self._add_result(message, place, ts)
        elif role in ("system", "developer", "user"):
            content = parse_content(self.draft, message.get("content"), place)
            if not content:
                self.draft.note_omission("empty-message", place, "message without text")
                return None
            if role != "user":
                return self.draft.add_message(role, content, self.client, ts=ts)
            if is_injected:
                return self.draft.add_message(
                    "user", content, self.client, ts=ts, visibility="internal"
                )
            self._person = self._person or self.draft.get_actor("human", "user")
            return self.draft.add_message("user", content, self._person, ts=ts)
        else:
            self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
        return None

    def _add_result(self, message: JsonObject, place: str, ts: str | None) -> None:
        tool = as_text(get_first(message, "name", "tool_name"))
        output = parse_content(self.draft, message.get("content"), place)
        if output is None:
            output = ""
        # Not every log has ids: without one, the result is that of the oldest open call.
        call_id = as_text(message.get("tool_call_id"))
        key = self._calls.find_key(call_id, tool)
        self.draft.add_tool_result(key, output, tool=tool, ts=ts)

    def finish(self, session_id: str | None, title: str | None, started: str | None) -> None:
        """Set what is known about the conversation."""
        conversation = self.draft.conversation
        conversation["source_runtime"] = "cli"
        if session_id:
            conversation["id"] = session_id
        if title:
            conversation["title"] = title
        if started or self.draft.first_ts:
            conversation["started_at"] = started or self.draft.first_ts or ""
        self.providers.set_provider(conversation)
