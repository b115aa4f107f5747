"""Messages of Inspect AI: text, reasoning, tool calls, results and their errors."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.inspect_ai.message_pool import MessageLog
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
    """The messages of one agent: the agent of the sample, one that it called, or a scorer."""

    draft: Draft
    runtime: str
    log: MessageLog
    name: str = "assistant"
    span: str | None = None
    asker: str | None = None
    visibility: Visibility | None = None
    parent: "Thread | None" = None
    is_muted: bool = False
    """Whether its model calls are only counted."""
    records: int = 0
    has_prompt: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    """Keys of calls by the ids that models gave them, which other agents may use again."""
    model: str | None = None
    """The model that generates where a message names none."""
    tool_events: dict[str, Body] = field(default_factory=dict)
    """The events of tools that ran, by the ids of their calls."""
    tools: list[str] = field(default_factory=list)
    last_event: Event | None = None
    """The last message or reasoning of the latest answer."""
    speaker: str | None = None
    """The actor of the latest answer."""
    caller: str | None = None
    """The key of the call that started the agent."""
    has_ended: bool = False

    def get_actor(self, model: str | None) -> str:
        """Return the actor for a model."""
        return self.draft.get_actor(
            "model", self.name, provider=identify_provider(model), model=model
        )

    def find_call(self, native_id: str | None) -> str | None:
        """Return the key of an unanswered call of this agent or of one that started it."""
        if not native_id:
            return None
        thread: Thread | None = self
        while thread is not None:
            key = thread.keys.get(native_id)
            if key and self.draft.is_call_open(key):
                return key
            thread = thread.parent
        return self.keys.get(native_id)

    def find_tool_event(self, native_id: str | None) -> Body | None:
        """Return the event of a tool that this agent, or one that started it, called."""
        thread: Thread | None = self
        while thread is not None and native_id:
            if native_id in thread.tool_events:
                return thread.tool_events[native_id]
            thread = thread.parent
        return None


def read_message(
    message: Body, thread: Thread, place: str, ts: str | None = None, facts: Body | None = None
) -> None:
    """Add a message of a model's input, or of the final messages."""
    role = message.get("role")
    draft = thread.draft
    if role == "assistant":
        model = as_text(message.get("model"))
        if model is None and message.get("source") == "generate":
            model = thread.model
        read_answer(message, thread, place, model, ts)
    elif role == "tool":
        read_result(message, thread, ts, facts)
    elif role == "system":
        draft.add_message("system", read_content(message), thread.runtime, ts=ts, span=thread.span)
    elif role == "user":
        _read_user_message(message, thread, ts)
    else:
        draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
    if message.get("metadata"):
        draft.note_omission("skipped-field", place, "metadata of a message")


def _read_user_message(message: Body, thread: Thread, ts: str | None) -> None:
    """The first message is the prompt; later ones are from a person only if marked as input."""
    is_prompt = message.get("source") == "input" or not thread.has_prompt
    thread.has_prompt = True
    asker = thread.asker or thread.draft.get_actor("human", "user")
    thread.draft.add_message(
        "user",
        read_content(message),
        asker if is_prompt else thread.runtime,
        ts=ts,
        visibility=thread.visibility if is_prompt else "internal",
        span=thread.span,
    )


def read_content(message: Body) -> str | list[Any]:
    """Return the content of a message: a single text as a string, anything else as blocks."""
    value = message.get("content")
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if not isinstance(value, list):
        return _simplify_blocks([value])
    return _simplify_blocks([_read_block(part) for part in value])


def _simplify_blocks(blocks: list[Any]) -> str | list[Any]:
    """Return a single text as a string, anything else as blocks."""
    if not blocks:
        return ""
    first = blocks[0]
    if len(blocks) == 1 and isinstance(first, dict) and first.keys() == {"type", "text"}:
        return str(first["text"])
    return blocks


def _read_block(part: Any) -> Any:
    """Return a part of the content as a block, with its media decoded."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        block = {"type": "text", "text": part["text"]}
        if part.get("refusal") is True:
            block["refusal"] = True
        return block
    data = part.get(kind) if isinstance(kind, str) and kind in _MEDIA else None
    if not isinstance(data, str):
        return {name: value for name, value in part.items() if name != "internal"}
    about = pick_fields(part, "detail", "format", "filename", "mime_type")
    # A data URL, a URL or a path; anything longer is base64.
    if data.startswith("data:") or "://" in data[:32] or len(data) < 1024:
        return build_media_url_block(data, str(kind)) | about
    return build_media_block(as_text(part.get("mime_type")), data, kind) | about


def read_answer(
    message: Body,
    thread: Thread,
    place: str,
    model: str | None,
    ts: str | None,
    usage: Usage | None = None,
) -> None:
    """Add the reasoning, text and tool calls of a model, in their order."""
    thread.last_event = None
    thread.speaker = thread.get_actor(model)
    answer = _Answer(thread, thread.speaker, place, ts, usage)
    reasoning = as_text(message.get("reasoning"))
    if reasoning:
        answer.add_reasoning({"reasoning": reasoning})
    value = message.get("content")
    if isinstance(value, str):
        # Open models put their reasoning into the text, within <think> tags.
        text, thoughts = split_think_tag(value, [])
        for thought, _ in thoughts:
            answer.add_reasoning({"reasoning": thought})
        answer.add_part(text)
    elif isinstance(value, list):
        for part in value:
            answer.add_part(part)
    else:
        answer.add_part(value)
    answer.flush()
    for call in as_dicts(message.get("tool_calls")):
        answer.add_call(call)
    answer.close()


class _Answer:
    """An answer being added; its usage goes to the first event that is not reasoning."""

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

    def add_part(self, part: Any) -> None:
        """Add one part of the content."""
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning":
            self.flush()
            self.add_reasoning(part)
        elif kind == "tool_use":
            self.flush()
            self._add_server_tool(part)
        elif part not in ("", None):
            self._blocks.append(part)
            if isinstance(part, dict):
                self._citations += as_dicts(part.get("citations"))

    def add_reasoning(self, part: Body) -> None:
        """Add reasoning; of redacted reasoning only a summary can be read."""
        text = as_text(part.get("reasoning"))
        summary = as_text(part.get("summary"))
        is_redacted = part.get("redacted") is True
        if is_redacted:
            text = None
        elif not text and not summary:
            return
        self._thread.last_event = self._draft.add_reasoning(
            text or summary,
            self._actor,
            ts=self._ts,
            span=self._thread.span,
            summary=not text and summary is not None,
        )

    def flush(self) -> None:
        """Add the blocks collected so far as a message."""
        blocks = [_read_block(part) for part in self._blocks]
        self._blocks = []
        content = _simplify_blocks(blocks)
        if content:
            self._add_message(content)

    def _add_message(self, content: str | list[Any]) -> None:
        event = self._draft.add_message(
            "assistant",
            content,
            self._actor,
            ts=self._ts,
            visibility=self._thread.visibility,
            span=self._thread.span,
            usage=self._take_usage(),
        )
        self._thread.last_event = event
        if self._citations:
            data = {"kind": "message_facts", "citations": self._citations}
            self._draft.add_annotation(data, parent=event, ts=self._ts)
            self._citations = []

    def add_call(self, call: Body) -> None:
        """Add a tool call."""
        native_id = as_text(call.get("id"))
        extra = _native_call_id(native_id) | pick_fields(call, "parse_error")
        given = call.get("arguments")
        key = self._add_tool_call(call.get("function"), {} if given is None else given, extra)
        if native_id:
            self._thread.keys[native_id] = key
        if call.get("view"):
            self._draft.note_omission("skipped-field", self._place, "how a call was displayed")

    def _add_tool_call(self, tool: Any, given: Any, extra: Body) -> str:
        return self._draft.add_tool_call(
            None,
            as_text(tool) or "tool",
            given,
            self._actor,
            ts=self._ts,
            span=self._thread.span,
            usage=self._take_usage(),
            group=self._place,
            extra=extra,
        )

    def _add_server_tool(self, part: Body) -> None:
        """Add a tool that the provider ran: the answer holds both its call and its result."""
        extra = _native_call_id(as_text(part.get("id"))) | pick_fields(part, "tool_type", "context")
        key = self._add_tool_call(part.get("name"), parse_arguments(part.get("arguments")), extra)
        output = part.get("result")
        error = part.get("error")
        self._draft.add_tool_result(
            key,
            "" if output is None else output,
            ts=self._ts,
            span=self._thread.span,
            facts={"is_error": True, "error": error} if error else None,
        )

    def close(self) -> None:
        """Put remaining usage on the reasoning, or on an empty message."""
        if not self._usage:
            return
        event = self._thread.last_event
        if event is not None and event.get("role") == "assistant_thought":
            self._draft.set_usage(event, self._usage)
        else:
            self._add_message("")

    def _take_usage(self) -> Usage | None:
        usage = self._usage
        self._usage = None
        return usage


def _native_call_id(native_id: str | None) -> Body:
    return {"native_call_id": native_id} if native_id else {}


def read_result(message: Body, thread: Thread, ts: str | None, facts: Body | None = None) -> None:
    """Add what a tool returned, or why it failed."""
    native_id = as_text(message.get("tool_call_id"))
    output = read_content(message)
    known: Body = dict(facts or {})
    error = message.get("error") or message.get("tool_error")
    if error:
        details: Body = error if isinstance(error, dict) else {"message": error}
        known["is_error"] = True
        for name in ("type", "message"):
            if details.get(name):
                known[f"error_{name}"] = details[name]
        output = output or as_text(details.get("message")) or ""
    key = thread.find_call(native_id)
    thread.draft.add_tool_result(
        key or native_id,
        output,
        ts=ts,
        span=None if key else thread.span,
        facts=known,
        tool=as_text(message.get("function")),
    )


def read_usage(value: Any) -> Usage | None:
    """Return token counts, with cached tokens as part of the input.

    Some providers do not count cached tokens as input, which shows in the total.
    """
    if not isinstance(value, dict):
        return None
    input_tokens: Any = value.get("input_tokens")
    output_tokens: Any = value.get("output_tokens")
    cache_read = value.get("input_tokens_cache_read")
    cache_write = value.get("input_tokens_cache_write")
    total = value.get("total_tokens")
    cached = sum(count for count in (cache_read, cache_write) if type(count) is int)
    are_integers = type(input_tokens) is type(output_tokens) is type(total) is int
    if are_integers and cached and total == input_tokens + output_tokens + cached:
        input_tokens += cached
    return build_usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=value.get("reasoning_tokens"),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
