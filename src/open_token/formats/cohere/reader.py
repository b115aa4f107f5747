"""Reader of the Cohere chat API: the layout of its bodies and streams."""

from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.api_conversation import Dialect, read_source
from open_token.formats.shared.api_detection import COHERE
from open_token.formats.shared.chat_messages import (
    add_assistant_message,
    add_tool_message,
    build_comparison_keys,
    parse_content,
)
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_dict,
    get_text,
    pick_fields,
)
from open_token.formats.shared.message_writer import (
    CallMatcher,
    MessageWriter,
    count_leading_prompts,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Role, Usage
from open_token.sources.source import Source

_NORMAL_FINISH_REASONS = ("COMPLETE", "TOOL_CALL")
_SILENT_EVENTS = ("content-end", "tool-call-end", "citation-end", "debug")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    read_source(source, create_dialect(draft))


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "other")
    draft.without_thoughts = "unknown"
    return _CohereDialect(draft)


def _parse_usage(value: Any) -> Usage | None:
    """Return token counts; where none are given, those that are billed."""
    tokens = get_dict(value, "tokens") or get_dict(value, "billed_units")
    return build_usage(
        input_tokens=_round(tokens.get("input_tokens")),
        output_tokens=_round(tokens.get("output_tokens")),
        cache_read_tokens=_round(value.get("cached_tokens") if isinstance(value, dict) else None),
    )


def _round(count: Any) -> Any:
    """Return a count as a whole number: the API gives 12.0."""
    return int(count) if isinstance(count, float) and count.is_integer() else count


class _CohereDialect:
    """The chat API; see Dialect."""

    name = COHERE

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = CallMatcher(draft)
        self._model: str | None = None
        self._documents: Any = None

    def create_merger(self) -> "_StreamMerger":
        return _StreamMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        self._model = as_text(request.get("model")) or self._model
        # What a request gives the model to read beside the conversation.
        documents = request.get("documents")
        if documents and documents != self._documents:
            self._documents = documents
            self.draft.add_annotation({"kind": "context", "documents": documents})

    def get_prompts(self, request: JsonObject) -> list[Any]:
        messages = _get_messages(request)
        return messages[: count_leading_prompts(messages)]

    def get_history(self, request: JsonObject) -> list[Any]:
        messages = _get_messages(request)
        return messages[count_leading_prompts(messages) :]

    def is_delta(self, request: JsonObject) -> bool:
        return False

    def list_tools(self, request: JsonObject) -> list[str]:
        tools = as_dicts(request.get("tools"))
        names = [get_text(tool.get("function"), "name") for tool in tools]
        return [name for name in names if name]

    def get_output(self, response: JsonObject) -> list[Any]:
        message = get_dict(response, "message")
        return [message] if message else []

    def build_comparison_keys(self, item: Any) -> list[Any]:
        return build_comparison_keys(item)

    def add_item(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role == "tool":
            self._add_result(item, place)
        elif role == "assistant":
            self._add_answer(self._create_writer(place), item)
        elif role in ("system", "user"):
            self._add_input(role, item, place)
        else:
            self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _add_input(self, role: str, message: JsonObject, place: str) -> None:
        actor = self.draft.get_actor("human" if role == "user" else "system", role)
        if "content" not in message:
            self.draft.note_omission("no-content", place, f"a message of {role} without content")
        content = parse_content(self.draft, message.get("content"), place)
        self.draft.add_message(cast(Role, role), "" if content is None else content, actor)

    def _add_result(self, message: JsonObject, place: str) -> None:
        content = message.get("content")
        parts = as_dicts(content)
        documents = [get_dict(part, "document") for part in parts]
        if not parts or len(parts) != len(cast(list[Any], content)) or not all(documents):
            add_tool_message(self.draft, self._calls, message, place)
            return
        output: Any = [{"type": "document", **document} for document in documents]
        if len(documents) == 1 and documents[0].keys() == {"data"}:
            output = documents[0]["data"]
        key = self._calls.find_key(as_text(message.get("tool_call_id")), None)
        self.draft.add_tool_result(key, output)

    def _add_answer(self, writer: MessageWriter, message: JsonObject) -> None:
        plan = as_text(message.get("tool_plan"))
        if plan:
            writer.add_reasoning(plan)
        if not plan or message.get("content") or message.get("tool_calls"):
            add_assistant_message(writer, message)
        for event in as_dicts(message.get("unknown")):
            self.draft.note_omission(
                "unknown-part", writer.place, f"event {format_kind(event.get('type'))}"
            )

    def _create_writer(self, place: str, ts: str | None = None) -> MessageWriter:
        actor = self.draft.get_actor("model", "assistant", provider="cohere", model=self._model)
        return MessageWriter(self.draft, actor, self._calls, place, ts)

    def add_response(self, response: JsonObject, place: str) -> None:
        # The API gives no time; recordings put theirs here.
        writer = self._create_writer(place, to_utc(response.get("created_at")))
        writer.usage = _parse_usage(response.get("usage"))
        message = response.get("message")
        error = response.get("error")
        if isinstance(message, str) and message:
            # An error in the place of an answer.
            error = pick_fields(response, "message", "id")
        if error:
            writer.add_annotation("error", error=error)
        if isinstance(message, dict):
            self._add_answer(writer, message)
        reason = response.get("finish_reason")
        if reason is None and not error:
            writer.add_annotation("message_facts", broke_off=True)
        elif reason is not None and reason not in _NORMAL_FINISH_REASONS:
            writer.add_annotation("message_facts", finish_reason=reason)
        writer.close()


def _get_messages(request: JsonObject) -> list[Any]:
    messages = request.get("messages")
    return messages if isinstance(messages, list) else []


class _StreamMerger:
    """Merges the events of a stream: parts and calls by index, texts appended."""

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._parts: dict[int, JsonObject] = {}
        self._calls: dict[int, JsonObject] = {}

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add an event; return the previous response if the event begins another."""
        kind = chunk.get("type")
        finished = self.end() if kind == "message-start" else None
        if self._body is None:
            self._body = {"finish_reason": None, "message": {"role": "assistant"}}
        body = self._body
        body |= pick_fields(chunk, "id", "created_at")
        delta = get_dict(chunk, "delta")
        part = get_dict(delta, "message")
        message = body["message"]
        if kind == "message-end":
            body |= pick_fields(delta, "finish_reason", "usage", "error")
        elif kind == "tool-plan-delta":
            message["tool_plan"] = message.get("tool_plan", "") + (
                get_text(part, "tool_plan") or ""
            )
        elif kind in ("content-start", "content-delta"):
            _append(self._parts.setdefault(_get_index(chunk), {}), get_dict(part, "content"))
        elif kind in ("tool-call-start", "tool-call-delta"):
            _append(self._calls.setdefault(_get_index(chunk), {}), get_dict(part, "tool_calls"))
        elif kind == "citation-start":
            message.setdefault("citations", []).append(part.get("citations"))
        elif kind != "message-start" and kind not in _SILENT_EVENTS:
            message.setdefault("unknown", []).append(chunk)
        return finished

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        if body is not None:
            if self._parts:
                body["message"]["content"] = [self._parts[index] for index in sorted(self._parts)]
            if self._calls:
                body["message"]["tool_calls"] = list(self._calls.values())
        self._body = None
        self._parts = {}
        self._calls = {}
        return body


def _get_index(chunk: JsonObject) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0


def _append(known: JsonObject, delta: JsonObject) -> None:
    """Add a piece of a part or a call: texts are appended, names and ids come whole."""
    for name, value in delta.items():
        if name in ("text", "thinking", "arguments") and isinstance(value, str):
            before = known.get(name)
            known[name] = before + value if isinstance(before, str) else value
        elif isinstance(value, dict):
            inner = known.setdefault(name, {})
            if isinstance(inner, dict):
                _append(inner, value)
        elif value is not None:
            known[name] = value
    if "thinking" in known:
        known["type"] = "thinking"
