"""What a model said, thought and called in an OpenCode session, and what it cost."""

from typing import TYPE_CHECKING, Any

from open_token.agents.opencode.parts import (
    child_of,
    facts_of,
    file_block,
    output_of,
    time_of,
    usage_of,
)
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.model.document import Usage

if TYPE_CHECKING:
    from open_token.agents.opencode.session import Teller, Thread

_USUAL_ENDS = (None, "", "stop", "tool-calls", "unknown")
_ABORTED = ("MessageAbortedError", "aborted")


class Answer:
    """Tells the messages of a model in one session."""

    def __init__(self, teller: "Teller", thread: "Thread") -> None:
        self._teller = teller
        self._draft = teller.draft
        self._thread = thread
        self._actor = ""
        self._provider: str | None = None
        self._message: JsonObject = {}
        self._place = ""
        self._last: str | None = None
        """The event of the model that the next count of tokens belongs to."""
        self._counted = False

    def tell(
        self, message: JsonObject, parts: list[JsonObject], place: str, cut: str | None
    ) -> None:
        """One message; `cut` is the part from which on a person took it back."""
        self._message, self._place = message, place
        self._provider = get_text(message, "providerID")
        model = get_text(message, "modelID")
        provider = self._teller.providers.add_model(self._provider, model)
        self._actor = self._draft.get_actor(
            "model", self._thread.name, provider=provider, model=model
        )
        self._last, self._counted = None, False
        for part in parts:
            if cut and part.get("id") == cut and self._thread.cut is None:
                self._thread.cut = self._draft.count
            self._part(part)
        self._end()

    def _part(self, part: JsonObject) -> None:
        kind = part.get("type")
        if kind == "text":
            self._text(part)
        elif kind == "tool":
            self._tool(part)
        elif kind == "reasoning":
            self._thought(part)
        elif kind == "step-finish":
            self._step(part)
        elif kind in ("step-start", "snapshot"):
            self._draft.note_omission("bookkeeping", self._place, f"part {kind}")
        elif kind == "patch":
            self._beside({"kind": "patch", **pick_fields(part, "hash", "files")})
        elif kind == "file":
            self._say([file_block(part)], part)
        elif kind == "retry":
            data = {
                "kind": "api_error",
                **pick_fields(part, "attempt"),
                **self._error(part.get("error")),
            }
            self._beside(data, time_of(part, "created"))
        else:
            self._draft.note_omission("unknown-part", self._place, f"part {format_kind(kind)}")

    def _text(self, part: JsonObject) -> None:
        text = part.get("text")
        if not isinstance(text, str) or not text:
            return
        if part.get("synthetic") is True:
            self._beside({"kind": "client_message", "text": text}, self._when(part))
            return
        self._say(text, part)

    def _say(self, content: str | list[Any], part: JsonObject) -> None:
        thread = self._thread
        said = self._draft.add_message(
            "assistant",
            content,
            self._actor,
            ts=self._when(part),
            visibility=thread.visibility,
            span=thread.span,
        )
        self._last = said["id"]
        if part.get("ignored") is True:
            self._draft.add_annotation({"kind": "message_facts", "ignored": True}, parent=said)
        if self._message.get("summary") is True:
            self._draft.add_annotation({"kind": "compaction_summary"}, parent=said)

    def _thought(self, part: JsonObject) -> None:
        """Of OpenAI's reasoning there is only the provider's own summary; the words themselves stay
        sealed."""
        text, metadata = get_text(part, "text"), get_dict(part, "metadata")
        openai = get_dict(metadata, "openai")
        if text is None and not openai.get("reasoningEncryptedContent") and not _has_seal(metadata):
            self._draft.note_omission("empty-reasoning", self._place, "reasoning without words")
            return
        thought = self._draft.add_reasoning(
            text,
            self._actor,
            ts=self._when(part),
            span=self._thread.span,
            summary=bool(text and openai),
        )
        self._last = thought["id"]
        if text and openai.get("reasoningEncryptedContent"):
            self._draft.note_omission(
                "sealed-reasoning", self._place, "encrypted reasoning beside its summary"
            )

    def _tool(self, part: JsonObject) -> None:
        """A call and its result in one; a call that is still pending or running has none."""
        draft, span, state = self._draft, self._thread.span, get_dict(part, "state")
        native, given = get_text(part, "callID"), state.get("input")
        if not given and state.get("raw"):
            given = state["raw"]
        is_free = native is not None and not draft.is_call_open(native)
        key = draft.add_tool_call(
            native if is_free else None,
            get_text(part, "tool") or "tool",
            {} if given is None else given,
            self._actor,
            ts=time_of(state, "start") or self._when({}),
            span=span,
            group=self._message.get("id") if isinstance(self._message.get("id"), str) else None,
            extra=_extra(part, None if is_free else native),
        )
        self._last = f"evt_{draft.count:06d}"
        if child := child_of(state):
            self._teller.child(self._thread, child, key, _about(part, state), self._actor)
        output = output_of(state)
        facts, bulk = facts_of(state)
        if part.get("tool") == "invalid":
            # A call that cannot be made goes to a tool of this name, which succeeds in saying so.
            facts = {"is_error": True} | facts
        if bulk:
            draft.note_omission(
                "tool-metadata", self._place, "side data of a result that the model never saw"
            )
        if output is not None:
            draft.add_tool_result(key, output, ts=time_of(state, "end"), span=span, facts=facts)

    def _step(self, part: JsonObject) -> None:
        """The end of a request: its tokens, which the message repeats for the last one."""
        self._counted = self._count(usage_of(part.get("tokens"), self._provider)) or self._counted

    def _count(self, usage: Usage | None) -> bool:
        if usage is None:
            return False
        if self._last is not None:
            self._draft.set_usage(self._last, usage)
        else:
            self._beside({"kind": "usage"}, usage=usage)
        self._last = None
        return True

    def _end(self) -> None:
        message = self._message
        if not self._counted:
            self._count(usage_of(message.get("tokens"), self._provider))
        finish = message.get("finish")
        if isinstance(finish, str) and finish not in _USUAL_ENDS:
            self._beside({"kind": "stop", "reason": finish})
        if message.get("error") is not None:
            name = get_text(message["error"], "name")
            self._beside(
                {
                    "kind": "aborted" if name in _ABORTED else "error",
                    **self._error(message["error"]),
                }
            )
        if message.get("structured") is not None:
            self._beside({"kind": "message_facts", "structured": message["structured"]})
        cost = message.get("cost")
        if type(cost) in (int, float) and cost:
            self._beside({"kind": "cost", "cost_usd": cost})
        elif type(cost) is dict and cost:
            self._beside({"kind": "cost", "cost": cost})

    def _beside(self, data: JsonObject, ts: str | None = None, usage: Usage | None = None) -> None:
        ts = ts or time_of(self._message, "completed") or time_of(self._message, "created")
        self._draft.add_annotation(
            data, actor=self._teller.client, ts=ts, span=self._thread.span, usage=usage
        )

    def _error(self, error: Any) -> JsonObject:
        """What an error says, but for the headers of the provider's answer."""
        if type(error) is not dict:
            return {"error": error}
        data = {name: value for name, value in get_dict(error, "data").items() if value is not None}
        if data.pop("responseHeaders", None):
            self._draft.note_omission(
                "response-headers", self._place, "the headers of a provider's answer"
            )
        return (
            {"name": error["name"], **_apart(data)}
            if isinstance(error.get("name"), str)
            else _apart(data)
        )

    def _when(self, part: JsonObject) -> str | None:
        return time_of(part, "start") or time_of(self._message, "created")


def _apart(data: JsonObject) -> JsonObject:
    """Fields of an error under names that no other field of the annotation has."""
    return {"detail": data} if {"kind", "name", "attempt"} & data.keys() else data


def _has_seal(metadata: JsonObject) -> bool:
    """Whether a provider sealed the words: Anthropic calls it redactedData, others a signature."""
    return any(
        get_dict(metadata, provider).get(name)
        for provider in metadata
        for name in ("redactedData", "signature", "thoughtSignature")
    )


def _extra(part: JsonObject, native: str | None) -> JsonObject | None:
    extra: JsonObject = {}
    if get_dict(part, "metadata").get("providerExecuted") is True:
        extra["provider_executed"] = True
    if native:
        extra["native_call_id"] = native
    return extra or None


def _about(part: JsonObject, state: JsonObject) -> JsonObject:
    """What a span says of the subagent in it, in the spec's words where it has them."""
    given, model = get_dict(state, "input"), get_dict(get_dict(state, "metadata"), "model")
    kind = get_text(given, "subagent_type") or get_text(given, "agent")
    about = {
        "spawn_reason": get_text(given, "description") or get_text(given, "prompt"),
        "tooling_scope": kind,
        "subagent_type": kind,
        "model": get_text(model, "modelID") or get_text(model, "id"),
    }
    return {name: value for name, value in about.items() if value}
