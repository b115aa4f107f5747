"""Read the messages of a Goose session."""

from collections import deque
from typing import Any

from open_token.agents.goose.blocks import (
    convert_content,
    convert_result,
    parse_time,
    parse_usage,
)
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.model.document import Event, Visibility

_CONTENT_KINDS = ("text", "image", "document", "audio", "resource")
_COMPACTION_KINDS = ("contextLengthExceeded", "summarizationRequested", "conversationCompacted")


class MessageReader:
    """Reads the messages of one session."""

    def __init__(
        self, draft: Draft, *, asker: str, name: str = "assistant", span: str | None = None
    ) -> None:
        self.draft = draft
        self.span = span
        self._asker = asker
        self._name = name
        self._visibility: Visibility = "internal" if span else "public"
        self.provider: str | None = None
        self.model: str | None = None
        self.providers = ProviderTracker()
        self._unnamed_calls: deque[str] = deque()
        """Calls without an id, oldest first: before 1.0 only results had one."""
        self._actor = ""
        self._position = ""
        self._last_output: str | None = None
        """The id of the event that the usage of the message belongs to."""
        self._last_message: Event | None = None
        self.calls: list[tuple[str, str]] = []
        """The calls of the latest message: key and tool."""

    @property
    def client(self) -> str:
        """The actor for Goose itself."""
        return self.draft.get_actor("system", "Goose")

    def read(self, message: JsonObject, position: str) -> None:
        """Read one message."""
        self._position = position
        self._last_output = None
        self._last_message = None
        self.calls = []
        role = message.get("role")
        content = message.get("content")
        metadata = get_dict(message, "metadata")
        ts = parse_time(message.get("created"))
        if role not in ("user", "assistant") or not isinstance(content, list):
            self.draft.note_omission(
                "skipped-record", position, "message without a known role or content"
            )
            return
        if role == "assistant":
            self._set_actor(metadata)
        first = self.draft.count
        # Text and images in a row are one message; calls, results and reasoning stand between.
        blocks: list[Any] = []
        for block in content:
            kind = _get_kind(block)
            if kind in _CONTENT_KINDS:
                blocks.append(block)
                continue
            self._add_content(blocks, role, metadata, ts)
            blocks = []
            self._read_block(block, kind, ts)
        self._add_content(blocks, role, metadata, ts)
        self._read_metadata(metadata, ts, self.draft.count > first)

    def get_model_actor(self) -> str:
        """Return the actor of the current model."""
        if not self._actor:
            self._set_actor({})
        return self._actor

    def _set_actor(self, metadata: JsonObject) -> None:
        """Set the actor to the model of a message, or else that of the session."""
        # A requested model may be an alias; the provider answers which one it resolved it to.
        inference = get_dict(metadata, "inference")
        model = get_text(inference, "resolvedModel") or get_text(inference, "requestedModel")
        model = model or self.model
        named_provider = get_text(inference, "provider") or self.provider
        provider = self.providers.add_model(named_provider, model)
        self._actor = self.draft.get_actor("model", self._name, provider=provider, model=model)

    def _add_content(
        self, blocks: list[Any], role: str, metadata: JsonObject, ts: str | None
    ) -> None:
        is_message_hidden = metadata.get("userVisible") is False
        for is_hidden, section in _group_by_audience(blocks, is_message_hidden):
            visibility: Visibility = "internal" if is_hidden else self._visibility
            content = convert_content(section)
            if role == "assistant":
                event = self.draft.add_message(
                    "assistant",
                    content,
                    self._actor,
                    ts=ts,
                    visibility=visibility,
                    span=self.span,
                )
                self._last_output = event["id"]
            else:
                actor = self.client if is_hidden else self._asker
                event = self.draft.add_message(
                    "user", content, actor, ts=ts, visibility=visibility, span=self.span
                )
            self._last_message = event

    def _read_block(self, block: Any, kind: str, ts: str | None) -> None:
        # `tool_name` and `tool_result` are what versions before 1.0 wrote.
        if kind in ("toolRequest", "frontendToolRequest", "tool_name"):
            self._read_call(block, ts)
        elif kind in ("toolResponse", "tool_result"):
            self._read_result(block, ts)
        elif kind in ("thinking", "reasoning"):
            text = get_text(block, "thinking") or get_text(block, "text")
            self._add_reasoning(text, get_text(block, "signature") is not None, ts)
        elif kind == "redactedThinking":
            self._add_reasoning(None, True, ts)
        elif kind == "systemNotification":
            facts = {
                "subtype": format_kind(block.get("notificationType")),
                "text": block.get("msg"),
            }
            self._annotate({"kind": "notice", **facts, **pick_fields(block, "data")}, ts)
        elif kind == "toolConfirmationRequest":
            # The older form of actionRequired.
            facts = pick_fields(block, "id", "toolName", "arguments", "prompt")
            data = {"kind": "action_required", "action": "toolConfirmation", **facts}
            self._annotate(data, ts)
        elif kind == "actionRequired":
            self._read_required_action(get_dict(block, "data"), ts)
        elif kind == "error":
            facts = {"error_kind": format_kind(block.get("kind")), "message": block.get("message")}
            self._annotate({"kind": "error", **facts}, ts)
        elif kind in _COMPACTION_KINDS:
            data = {"kind": "compaction", "subtype": kind, "text": block.get("msg")}
            self._annotate(data, ts)
        else:
            self.draft.note_omission("unknown-part", self._position, f"part {format_kind(kind)}")

    def _read_required_action(self, fields: JsonObject, ts: str | None) -> None:
        data: JsonObject = {
            "kind": "action_required",
            "action": format_kind(fields.get("actionType")),
        }
        for name, value in fields.items():
            if name not in ("actionType", "kind", "action"):
                data[name] = value
        self._annotate(data, ts)

    def _annotate(self, data: JsonObject, ts: str | None, parent: Event | None = None) -> None:
        self.draft.add_annotation(data, actor=self.client, parent=parent, ts=ts, span=self.span)

    def _add_reasoning(self, text: str | None, is_encrypted: bool, ts: str | None) -> None:
        if text is None and not is_encrypted:
            self.draft.note_omission("empty-reasoning", self._position, "reasoning without text")
            return
        actor = self.get_model_actor()
        event = self.draft.add_reasoning(text, actor, ts=ts, span=self.span)
        self._last_output = event["id"]

    def _read_call(self, block: JsonObject, ts: str | None) -> None:
        # A call that could not be parsed has an error in the place of its value.
        call = get_dict(block, "toolCall")
        fields = get_dict(call, "value") if call else block
        tool = get_text(fields, "name") or get_text(fields, "tool_name") or "tool"
        arguments = fields.get("arguments")
        error = call.get("error")
        call_id = get_text(block, "id")
        key = self.draft.add_tool_call(
            call_id,
            tool,
            {} if arguments is None else arguments,
            self.get_model_actor(),
            ts=ts,
            span=self.span,
            group=self._position,
            extra={"error": error} if error is not None else None,
        )
        self._last_output = f"evt_{self.draft.count:06d}"
        self.calls.append((key, tool))
        if call_id is None:
            self._unnamed_calls.append(key)

    def _read_result(self, block: JsonObject, ts: str | None) -> None:
        call_id = get_text(block, "id")
        result = block.get("toolResult", block.get("tool_result"))
        output, facts, has_copy = convert_result(result)
        key = call_id
        # Before 1.0 results had ids that their calls lacked.
        if self._unnamed_calls and (call_id is None or not self.draft.is_call_open(call_id)):
            key = self._unnamed_calls.popleft()
            if call_id:
                facts = {**facts, "native_call_id": call_id}
        if has_copy:
            self.draft.note_omission(
                "tool-metadata", self._position, "structured copy of a tool result"
            )
        self.draft.add_tool_result(key, output, ts=ts, span=self.span, facts=facts)

    def _read_metadata(self, metadata: JsonObject, ts: str | None, has_events: bool) -> None:
        """Add the usage, the cost and the flags of a message."""
        request = get_dict(metadata, "usage")
        usage = parse_usage(request)
        if usage and self._last_output:
            self.draft.set_usage(self._last_output, usage)
        elif usage:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self.client, ts=ts, span=self.span, usage=usage
            )
        # The message is the summary that a compaction produced.
        if request.get("isCompaction") is True:
            self._annotate({"kind": "compaction_summary"}, ts, self._last_message)
        cost = request.get("cost")
        if type(cost) in (int, float) and cost:
            self._annotate({"kind": "cost", "cost_usd": cost}, ts)
        facts = {}
        # A compaction hides messages from the model, not from the user.
        if metadata.get("agentVisible") is False:
            facts["in_context"] = False
        if metadata.get("outputTokenLimitReached") is True:
            facts["output_limit_reached"] = True
        if metadata.get("steer") is True:
            facts["steer"] = True
        if facts and has_events:
            self._annotate({"kind": "message_facts", **facts}, ts, self._last_message)


def _get_kind(block: Any) -> str:
    if type(block) is not dict:
        return ""
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    # Before 1.0 blocks had no type.
    for name in ("tool_name", "tool_result", "text"):
        if name in block:
            return name
    return ""


def _group_by_audience(blocks: list[Any], is_message_hidden: bool) -> list[tuple[bool, list[Any]]]:
    """Group consecutive blocks by whether they are hidden from the user."""
    groups: list[tuple[bool, list[Any]]] = []
    for block in blocks:
        audience = get_dict(block, "annotations").get("audience")
        is_hidden = is_message_hidden or (isinstance(audience, list) and "user" not in audience)
        block = _remove_audience(block)
        if groups and groups[-1][0] == is_hidden:
            groups[-1][1].append(block)
        else:
            groups.append((is_hidden, [block]))
    return groups


def _remove_audience(block: Any) -> Any:
    """Remove annotations that hold only the audience, which the visibility expresses."""
    if type(block) is not dict or get_dict(block, "annotations").keys() - {"audience", "priority"}:
        return block
    return {key: value for key, value in block.items() if key != "annotations"}
