"""What was said and done in a Goose session: its messages as draft verbs."""

from collections import deque
from typing import Any

from open_token.agents.goose.blocks import moment, output_of, said, usage_of
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.model.document import Event, Visibility

CLIENT = "Goose"
_SAID = ("text", "image", "document", "audio", "resource")
_SHORTENED = ("contextLengthExceeded", "summarizationRequested", "conversationCompacted")


class Talk:
    """Tells the messages of one session."""

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
        self._nameless: deque[str] = deque()
        """Calls without an id, oldest first: before 1.0 only results had one."""
        self._actor = ""
        self._place = ""
        self._message_id: str | None = None
        self._last: str | None = None
        """The event of the model that a count of tokens belongs to."""
        self._told: Event | None = None
        """The latest words of the message."""
        self.calls: list[tuple[str, str]] = []
        """The calls of the latest message: key and tool."""

    @property
    def client(self) -> str:
        """Goose itself."""
        return self.draft.get_actor("system", CLIENT)

    def tell(self, message: JsonObject, place: str) -> None:
        """One message."""
        role, content, metadata = (
            message.get("role"),
            message.get("content"),
            get_dict(message, "metadata"),
        )
        self._place, self._last, self._told, self.calls = place, None, None, []
        self._message_id = get_text(message, "id")
        ts = moment(message.get("created"))
        if role not in ("user", "assistant") or not isinstance(content, list):
            self.draft.note_omission(
                "skipped-record", place, "a message without a known role or content"
            )
            return
        if role == "assistant":
            self._speak(metadata)
        before = self.draft.count
        held: list[Any] = []
        for block in content:
            kind = _kind(block)
            if kind in _SAID:
                held.append(block)
                continue
            self._say(held, role, metadata, ts)
            held = []
            self._block(block, kind, ts)
        self._say(held, role, metadata, ts)
        self._beside(metadata, ts, self.draft.count > before)

    def _speak(self, metadata: JsonObject) -> None:
        """Who answers: the model that a message names, else the session's."""
        inference = get_dict(metadata, "inference")
        model = (
            get_text(inference, "resolvedModel")
            or get_text(inference, "requestedModel")
            or self.model
        )
        provider = self.providers.add_model(get_text(inference, "provider") or self.provider, model)
        self._actor = self.draft.get_actor("model", self._name, provider=provider, model=model)

    def _say(self, blocks: list[Any], role: str, metadata: JsonObject, ts: str | None) -> None:
        if not blocks:
            return
        for hidden, part in _by_audience(blocks, metadata.get("userVisible") is False):
            visibility: Visibility = "internal" if hidden else self._visibility
            if role == "assistant":
                self._told = self.draft.add_message(
                    "assistant",
                    said(part),
                    self._actor,
                    ts=ts,
                    visibility=visibility,
                    span=self.span,
                )
                self._last = self._told["id"]
            else:
                actor = self.client if hidden else self._asker
                self._told = self.draft.add_message(
                    "user", said(part), actor, ts=ts, visibility=visibility, span=self.span
                )

    def _block(self, block: Any, kind: str, ts: str | None) -> None:
        if kind in ("toolRequest", "frontendToolRequest", "tool_name"):
            self._call(block, ts)
        elif kind in ("toolResponse", "tool_result"):
            self._result(block, ts)
        elif kind in ("thinking", "reasoning"):
            self._think(
                get_text(block, "thinking") or get_text(block, "text"),
                get_text(block, "signature"),
                ts,
            )
        elif kind == "redactedThinking":
            self._think(None, "sealed", ts)
        elif kind == "systemNotification":
            facts = {
                "subtype": format_kind(block.get("notificationType")),
                "text": block.get("msg"),
            }
            self._note({"kind": "notice", **facts, **pick_fields(block, "data")}, ts)
        elif kind == "toolConfirmationRequest":
            names = ("id", "toolName", "arguments", "prompt")
            self._note(
                {
                    "kind": "action_required",
                    "action": "toolConfirmation",
                    **pick_fields(block, *names),
                },
                ts,
            )
        elif kind == "actionRequired":
            data = get_dict(block, "data")
            facts = {
                name: value
                for name, value in data.items()
                if name not in ("actionType", "kind", "action")
            }
            self._note(
                {"kind": "action_required", "action": format_kind(data.get("actionType")), **facts},
                ts,
            )
        elif kind == "error":
            facts = {"error_kind": format_kind(block.get("kind")), "message": block.get("message")}
            self._note({"kind": "error", **facts}, ts)
        elif kind in _SHORTENED:
            self._note({"kind": "compaction", "subtype": kind, "text": block.get("msg")}, ts)
        else:
            self.draft.note_omission("unknown-part", self._place, f"part {format_kind(kind)}")

    def _note(self, data: JsonObject, ts: str | None, parent: Event | None = None) -> None:
        self.draft.add_annotation(data, actor=self.client, parent=parent, ts=ts, span=self.span)

    def _think(self, words: str | None, seal: str | None, ts: str | None) -> None:
        if words is None and not seal:
            self.draft.note_omission("empty-reasoning", self._place, "reasoning without words")
            return
        self._last = self.draft.add_reasoning(words, self.speaker(), ts=ts, span=self.span)["id"]

    def speaker(self) -> str:
        """The model that answered last, or will."""
        if not self._actor:
            self._speak({})
        return self._actor

    def _call(self, block: JsonObject, ts: str | None) -> None:
        """A call; one that the model got wrong has an error in the place of a name."""
        call = get_dict(block, "toolCall")
        value = get_dict(call, "value") if call else block
        tool = get_text(value, "name") or get_text(value, "tool_name")
        arguments = value.get("arguments")
        extra = {"error": call["error"]} if call.get("error") is not None else None
        native = get_text(block, "id")
        key = self.draft.add_tool_call(
            native,
            tool or "tool",
            {} if arguments is None else arguments,
            self.speaker(),
            ts=ts,
            span=self.span,
            group=self._place,
            extra=extra,
        )
        self._last = f"evt_{self.draft.count:06d}"
        self.calls.append((key, tool or "tool"))
        if native is None:
            self._nameless.append(key)

    def _result(self, block: JsonObject, ts: str | None) -> None:
        native = get_text(block, "id")
        output, facts, copied = output_of(block.get("toolResult", block.get("tool_result")))
        key = native
        if self._nameless and (native is None or not self.draft.is_call_open(native)):
            key = self._nameless.popleft()
            facts = {**facts, "native_call_id": native} if native else facts
        if copied:
            self.draft.note_omission(
                "tool-metadata", self._place, "a copy of a result in another form"
            )
        self.draft.add_tool_result(key, output, ts=ts, span=self.span, facts=facts)

    def _beside(self, metadata: JsonObject, ts: str | None, told: bool) -> None:
        """What is known of a message beside its words."""
        usage, spent = usage_of(metadata.get("usage")), get_dict(metadata, "usage")
        if usage and self._last:
            self.draft.set_usage(self._last, usage)
        elif usage:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self.client, ts=ts, span=self.span, usage=usage
            )
        if spent.get("isCompaction") is True:
            self._note({"kind": "compaction_summary"}, ts, self._told)
        if type(spent.get("cost")) in (int, float) and spent["cost"]:
            self._note({"kind": "cost", "cost_usd": spent["cost"]}, ts)
        facts = {}
        if metadata.get("agentVisible") is False:
            facts["in_context"] = False
        for name, word in (("outputTokenLimitReached", "output_limit_reached"), ("steer", "steer")):
            if metadata.get(name) is True:
                facts[word] = True
        if facts and told:
            self._note({"kind": "message_facts", **facts}, ts, self._told)


def _kind(block: Any) -> str:
    """The kind of a block; before 1.0 it is told by its keys."""
    if type(block) is not dict:
        return ""
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    return next((name for name in ("tool_name", "tool_result", "text") if name in block), "")


def _by_audience(blocks: list[Any], hidden: bool) -> list[tuple[bool, list[Any]]]:
    """Blocks in runs of what the person sees and what only the model does."""
    runs: list[tuple[bool, list[Any]]] = []
    for block in blocks:
        audience = get_dict(block, "annotations").get("audience")
        apart = hidden or (isinstance(audience, list) and "user" not in audience)
        if runs and runs[-1][0] == apart:
            runs[-1][1].append(_plain(block))
        else:
            runs.append((apart, [_plain(block)]))
    return runs


def _plain(block: Any) -> Any:
    """A block without what it says of its audience, which its visibility tells."""
    if type(block) is not dict or get_dict(block, "annotations").keys() - {"audience", "priority"}:
        return block
    return {key: value for key, value in block.items() if key != "annotations"}
