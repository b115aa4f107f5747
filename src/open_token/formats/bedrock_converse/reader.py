"""Reader of the Amazon Bedrock Converse API: the layout of its bodies, streams and logs."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.bedrock_converse.blocks import (
    BlockWriter,
    StreamMerger,
    build_comparison_keys,
    list_blocks,
    parse_block,
    parse_usage,
)
from open_token.formats.shared.api_conversation import ConversationBuilder, Dialect
from open_token.formats.shared.api_detection import BEDROCK
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_dict,
    get_text,
    pick_fields,
)
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_NORMAL_STOP_REASONS = ("end_turn", "tool_use")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    unit = "record" if source.shape == "document" else "line"
    builder = ConversationBuilder(create_dialect(draft), unit)
    number = 0
    for number, record in source.records():
        _note_bodies_elsewhere(draft, record, f"{unit} {number}")
        builder.add_record(number, record)
    builder.flush(number)


def _note_bodies_elsewhere(draft: Draft, record: Any, place: str) -> None:
    """Note the bodies of an invocation log that are in a bucket, because they are large."""
    detail = "a large body, which the log keeps in a bucket"
    if get_text(get_dict(record, "input"), "inputBodyS3Path"):
        draft.note_omission("body-elsewhere", place, detail, what="prompt", events=1)
    if get_text(get_dict(record, "output"), "outputBodyS3Path"):
        draft.note_omission("body-elsewhere", place, detail, what="answer", events=1)


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.without_thoughts = "unknown"
    return _ConverseDialect(draft)


class _ConverseDialect:
    """The Converse API; see Dialect."""

    name = BEDROCK

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = CallMatcher(draft)
        self._model: str | None = None
        self._has_answer = False

    def create_merger(self) -> StreamMerger:
        return StreamMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        self._model = as_text(request.get("modelId")) or self._model
        provider = identify_provider(self._model)
        if provider:
            self.draft.conversation.setdefault("provider", provider)

    def get_prompts(self, request: JsonObject) -> list[Any]:
        system = request.get("system")
        return [{"role": "system", "content": list_blocks(system)}] if system else []

    def get_history(self, request: JsonObject) -> list[Any]:
        messages = request.get("messages")
        return messages if isinstance(messages, list) else []

    def is_delta(self, request: JsonObject) -> bool:
        return False

    def list_tools(self, request: JsonObject) -> list[str]:
        names = []
        for tool in as_dicts(get_dict(request, "toolConfig").get("tools")):
            definition = tool.get("toolSpec") or tool.get("systemTool")
            names.append(get_text(definition, "name"))
        return [name for name in names if name]

    def get_output(self, response: JsonObject) -> list[Any]:
        message = get_dict(get_dict(response, "output"), "message")
        return [message] if message.get("content") else []

    def build_comparison_keys(self, item: Any) -> list[Any]:
        return build_comparison_keys(item)

    def add_item(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role == "system":
            actor = self.draft.get_actor("system", "system")
            writer = MessageWriter(self.draft, actor, self._calls, place)
            BlockWriter(writer, "system").add_content(item.get("content"))
        elif role == "user":
            actor = self.draft.get_actor("human", "user")
            writer = MessageWriter(self.draft, actor, self._calls, place)
            BlockWriter(writer, "user").add_content(item.get("content"))
        elif role == "assistant":
            self._has_answer = True
            BlockWriter(self._create_writer(place), "assistant").add_content(item.get("content"))
        else:
            self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _create_writer(self, place: str, ts: str | None = None) -> MessageWriter:
        provider = identify_provider(self._model)
        actor = self.draft.get_actor("model", "assistant", provider=provider, model=self._model)
        return MessageWriter(self.draft, actor, self._calls, place, ts)

    def add_response(self, response: JsonObject, place: str) -> None:
        # The API gives no time; logs and recordings put theirs here.
        ts = to_utc(response.get("timestamp"))
        if ts and not self._has_answer:
            self.draft.conversation.setdefault("started_at", ts)
        self._has_answer = True
        writer = self._create_writer(place, ts)
        writer.usage = parse_usage(response.get("usage"))
        error = _find_error(response)
        if error:
            writer.add_annotation("error", error=error)
        output = get_dict(response, "output")
        message = get_dict(output, "message")
        if message.get("content"):
            BlockWriter(writer, "assistant").add_content(message["content"])
        elif output and not message:
            writer.add_message([parse_block(writer, output)])
        facts = pick_fields(response, "trace", "additionalModelResponseFields")
        reason = response.get("stopReason")
        if reason is not None and reason not in _NORMAL_STOP_REASONS:
            facts["stop_reason"] = reason
        if reason is None and not error:
            facts["broke_off"] = True
        if facts:
            writer.add_annotation("message_facts", **facts)
        writer.close()


def _find_error(response: JsonObject) -> JsonObject | None:
    """Return the error that stands in the place of an answer or broke it off."""
    if isinstance(response.get("error"), dict):
        return get_dict(response, "error")
    if "output" in response:
        return None
    return pick_fields(response, "message", "Message", "__type", "code") or None
