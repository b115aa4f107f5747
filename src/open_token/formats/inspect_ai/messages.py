"""What one message of Inspect AI is in the record: words, thoughts, calls, results and their
errors."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai.message_pool import Told
from open_token.formats.shared.fields import as_dicts, as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import split_think_tag
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Event, Usage, Visibility

Body = dict[str, Any]
_MEDIA = ("image", "audio", "video", "document")


@dataclass
class Thread:
    """One line of talk: the agent of the sample, one that it called, or a scorer."""

    draft: Draft
    runtime: str
    told: Told
    name: str = "assistant"
    span: str | None = None
    asker: str | None = None
    visibility: Visibility | None = None
    parent: "Thread | None" = None
    muted: bool = False
    """Its calls are counted, not told."""
    records: int = 0
    asked: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    """By the ids that models gave their calls, which other agents of the sample may give again."""
    model: str | None = None
    """Who generates where a message does not say it."""
    ran: dict[str, Body] = field(default_factory=dict)
    """What is known of the tools that ran, by the ids of their calls."""
    tools: list[str] = field(default_factory=list)
    last: Event | None = None
    """The last event of speech of the answer that was told last."""
    speaker: str | None = None
    """The model that spoke last."""
    served: str | None = None
    """The key of the call that it serves."""
    is_over: bool = False

    def actor(self, model: str | None) -> str:
        """The model that speaks."""
        return self.draft.get_actor(
            "model", self.name, provider=identify_provider(model), model=model
        )

    def key(self, native: str | None) -> str | None:
        """The key of a call that this agent, or one that it was sent by, made and that has no
        result yet."""
        thread: Thread | None = self
        while thread is not None and native:
            key = thread.keys.get(native)
            if key and self.draft.is_call_open(key):
                return key
            thread = thread.parent
        return self.keys.get(native) if native else None

    def run_of(self, native: str | None) -> Body | None:
        """What is known of the run of a tool that this agent, or one that it was sent by,
        called."""
        thread: Thread | None = self
        while thread is not None and native:
            if native in thread.ran:
                return thread.ran[native]
            thread = thread.parent
        return None


def tell(
    message: Body, thread: Thread, place: str, ts: str | None = None, facts: Body | None = None
) -> None:
    """Tell a message that some call of a model was given, or that stands among the final ones."""
    role, draft = message.get("role"), thread.draft
    if role == "assistant":
        usual = thread.model if message.get("source") == "generate" else None
        tell_answer(message, thread, place, as_text(message.get("model")) or usual, ts)
    elif role == "tool":
        tell_result(message, thread, ts, facts)
    elif role == "system":
        draft.add_message("system", content(message), thread.runtime, ts=ts, span=thread.span)
    elif role == "user":
        is_person = message.get("source") == "input" or not thread.asked
        thread.asked = True
        asker = thread.asker or draft.get_actor("human", "user")
        visibility: Visibility | None = thread.visibility if is_person else "internal"
        actor = asker if is_person else thread.runtime
        draft.add_message(
            "user", content(message), actor, ts=ts, visibility=visibility, span=thread.span
        )
    else:
        draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
    if message.get("metadata"):
        draft.note_omission("skipped-field", place, "metadata of a message")


def content(message: Body) -> str | list[Any]:
    """One text as it is, anything else as a list of blocks."""
    value = message.get("content")
    if isinstance(value, str):
        return value
    blocks = (
        [block(part) for part in value]
        if isinstance(value, list)
        else []
        if value is None
        else [value]
    )
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks or ""


def block(part: Any) -> Any:
    """A part of the content; media are unpacked."""
    if not isinstance(part, dict):
        return {"type": "text", "text": part} if isinstance(part, str) else part
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]} | (
            {"refusal": True} if part.get("refusal") is True else {}
        )
    held = part.get(kind) if isinstance(kind, str) and kind in _MEDIA else None
    if not isinstance(held, str):
        return {name: value for name, value in part.items() if name != "internal"}
    about = pick_fields(part, "detail", "format", "filename", "mime_type")
    if held.startswith("data:") or "://" in held[:32] or len(held) < 1024:
        return build_media_url_block(held, str(kind)) | about
    return build_media_block(as_text(part.get("mime_type")), held, kind) | about


def tell_answer(
    message: Body,
    thread: Thread,
    place: str,
    model: str | None,
    ts: str | None,
    usage: Usage | None = None,
) -> None:
    """Thoughts, words and calls of a model, in the order in which they stand."""
    thread.last, thread.speaker = None, thread.actor(model)
    speech = _Speech(thread, thread.speaker, place, ts, usage)
    if thought := as_text(message.get("reasoning")):
        speech.think({"reasoning": thought})
    value = message.get("content")
    if isinstance(value, str):
        rest, found = split_think_tag(value, [])
        for text, _ in found:
            speech.think({"reasoning": text})
        value = [rest]
    for part in value if isinstance(value, list) else [] if value is None else [value]:
        speech.take(part)
    speech.flush()
    for call in as_dicts(message.get("tool_calls")):
        speech.call(call)
    speech.close()


class _Speech:
    """One answer on its way into the draft; its usage rides on the first event that is no
    thought."""

    def __init__(
        self, thread: Thread, actor: str, place: str, ts: str | None, usage: Usage | None
    ) -> None:
        self._thread = thread
        self._draft = thread.draft
        self._actor = actor
        self._place = place
        self._ts = ts
        self._usage = usage
        self._blocks: list[Any] = []
        self._citations: list[Any] = []

    def take(self, part: Any) -> None:
        """One part of the content."""
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning":
            self.flush()
            self.think(part)
        elif kind == "tool_use":
            self.flush()
            self._server_tool(part)
        elif part not in ("", None):
            self._blocks.append(block(part))
            self._citations += as_dicts(part.get("citations")) if isinstance(part, dict) else []

    def think(self, part: Body) -> None:
        text, summary = as_text(part.get("reasoning")), as_text(part.get("summary"))
        sealed = part.get("redacted") is True
        if not (text or summary or sealed):
            return
        words = summary if sealed else text or summary
        is_summary = words is not None and (sealed or not text)
        thread = self._thread
        thread.last = self._draft.add_reasoning(
            words, self._actor, ts=self._ts, span=thread.span, summary=is_summary
        )

    def flush(self) -> None:
        """Say what was gathered."""
        made, self._blocks = self._blocks, []
        words = content({"content": made}) if made else ""
        if words:
            self._say(words)

    def _say(self, words: str | list[Any]) -> None:
        thread, spent = self._thread, self._spent()
        thread.last = self._draft.add_message(
            "assistant",
            words,
            self._actor,
            ts=self._ts,
            visibility=thread.visibility,
            span=thread.span,
            usage=spent,
        )
        if self._citations:
            data = {"kind": "message_facts", "citations": self._citations}
            self._draft.add_annotation(data, parent=thread.last, ts=self._ts)
            self._citations = []

    def call(self, call: Body) -> None:
        native, given = as_text(call.get("id")), call.get("arguments")
        extra = ({"native_call_id": native} if native else {}) | pick_fields(call, "parse_error")
        self._use(
            native, as_text(call.get("function")) or "tool", {} if given is None else given, extra
        )
        if call.get("view"):
            self._draft.note_omission("skipped-field", self._place, "how a call was shown")

    def _use(self, native: str | None, tool: str, given: Any, extra: Body) -> str:
        thread = self._thread
        key = self._draft.add_tool_call(
            None,
            tool,
            given,
            self._actor,
            ts=self._ts,
            span=thread.span,
            usage=self._spent(),
            group=self._place,
            extra=extra,
        )
        if native:
            thread.keys[native] = key
        return key

    def _server_tool(self, part: Body) -> None:
        """A tool that the provider ran: call and result stand in the answer."""
        native = as_text(part.get("id"))
        extra = ({"native_call_id": native} if native else {}) | pick_fields(
            part, "tool_type", "context"
        )
        key = self._use(
            None, as_text(part.get("name")) or "tool", parse_arguments(part.get("arguments")), extra
        )
        output, error = part.get("result"), part.get("error")
        facts = {"is_error": True, "error": error} if error else None
        self._draft.add_tool_result(
            key, "" if output is None else output, ts=self._ts, span=self._thread.span, facts=facts
        )

    def close(self) -> None:
        """What was spent on nothing that can be seen rides on the thought, or stands alone."""
        if not self._usage:
            return
        if self._thread.last is not None and self._thread.last.get("role") == "assistant_thought":
            self._draft.set_usage(self._thread.last, self._usage)
        else:
            self._say("")

    def _spent(self) -> Usage | None:
        spent, self._usage = self._usage, None
        return spent


def tell_result(message: Body, thread: Thread, ts: str | None, facts: Body | None = None) -> None:
    """What a tool gave back, or why it failed."""
    native, tool = as_text(message.get("tool_call_id")), as_text(message.get("function"))
    output = content(message)
    error = message.get("error") or message.get("tool_error")
    known: Body = dict(facts or {})
    if error:
        about: Body = error if isinstance(error, dict) else {"message": error}
        known |= {"is_error": True} | {
            f"error_{name}": about[name] for name in ("type", "message") if about.get(name)
        }
        output = output or as_text(about.get("message")) or ""
    key = thread.key(native)
    span = None if key else thread.span
    thread.draft.add_tool_result(key or native, output, ts=ts, span=span, facts=known, tool=tool)


def usage_of(value: Any) -> Usage | None:
    """Token counts; some providers leave cached tokens out of the input, which the total tells."""
    if not isinstance(value, dict):
        return None
    names = (
        "input_tokens",
        "output_tokens",
        "input_tokens_cache_read",
        "input_tokens_cache_write",
        "total_tokens",
    )
    fresh, output, read, written, total = (value.get(name) for name in names)
    cached = sum(count for count in (read, written) if type(count) is int)
    if (
        type(fresh) is type(output) is type(total) is int
        and cached
        and total == fresh + output + cached
    ):
        fresh += cached
    return build_usage(
        input_tokens=fresh,
        output_tokens=output,
        reasoning_tokens=value.get("reasoning_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
