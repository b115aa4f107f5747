"""Reader of the OpenAI Responses API: the layout of its bodies and streams."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.api_conversation import Dialect, read_source
from open_token.formats.shared.api_detection import RESPONSES
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, parse_arguments
from open_token.formats.shared.message_writer import count_leading_prompts, join_comparison_keys
from open_token.formats.shared.responses_content import parse_content, parse_usage
from open_token.formats.shared.responses_items import ItemActors, add_item
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage
from open_token.sources.source import Source

_UNFINISHED = ("queued", "in_progress", "incomplete", "failed", "cancelled")
_FINAL_EVENTS = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)
_CALL_DELTAS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
_TEXT_DELTAS = {
    "response.output_text.delta": ("content", "output_text", "text", "content_index"),
    "response.refusal.delta": ("content", "refusal", "refusal", "content_index"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text", "summary_index"),
}
"""For each event: the field of the item, the type of the part, its text field, and its index."""


class EventMerger:
    """Merges the events of a stream.

    The last event holds the whole response; a stream that breaks off before it is rebuilt from
    the events of its items.
    """

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._items: dict[int, JsonObject] = {}

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add an event; return the previous response if the event begins another."""
        kind = str(chunk.get("type"))
        finished = self.end() if kind == "response.created" else None
        body = chunk.get("response")
        item = chunk.get("item")
        if isinstance(body, dict):
            self._body = body
        elif kind == "error":
            error = chunk.get("error")
            self._body = dict(self._body or {})
            self._body["error"] = error if isinstance(error, dict) else chunk
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(item, dict):
                self._items[_get_index(chunk, "output_index")] = dict(item)
        elif isinstance(chunk.get("delta"), str):
            self._add_delta(kind, chunk)
        return self.end() if kind in _FINAL_EVENTS else finished

    def _add_delta(self, kind: str, chunk: JsonObject) -> None:
        index = _get_index(chunk, "output_index")
        delta = chunk["delta"]
        if kind in _CALL_DELTAS:
            name = _CALL_DELTAS[kind]
            item = self._items.setdefault(index, {"type": "function_call"})
            item[name] = str(item.get(name) or "") + delta
        elif kind in _TEXT_DELTAS:
            field, part_type, name, index_field = _TEXT_DELTAS[kind]
            if "reasoning" in kind:
                new_item = {"type": "reasoning"}
            else:
                new_item = {"type": "message", "role": "assistant"}
            item = self._items.setdefault(index, new_item)
            parts = item[field] = as_dicts(item.get(field))
            number = _get_index(chunk, index_field)
            if number >= len(parts):
                parts.append({"type": part_type})
            part = parts[min(number, len(parts) - 1)]
            part[name] = str(part.get(name) or "") + delta

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        body = self._body
        items = [self._items[index] for index in sorted(self._items)]
        self._body = None
        self._items = {}
        if body is None and not items:
            return None
        body = body or {}
        # The Codex backend leaves the output of its last event empty.
        return {"object": "response", **body, "output": _as_list(body.get("output")) or items}


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    read_source(source, create_dialect(draft))


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "openai")
    draft.without_thoughts = "unknown"
    return _ResponsesDialect(draft)


class _ResponsesDialect:
    """The Responses API; see Dialect."""

    name = RESPONSES

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._model: str | None = None
        self._actors = ItemActors(draft, provider="openai")
        self._keys_by_id: dict[str, list[Any]] = {}
        """The comparison keys of output items by id: a later request may only refer to them."""
        self._call_ids: dict[str, str] = {}
        """The call_id of a call by its item id, which some clients send back in its place."""
        self._has_answer = False

    def create_merger(self) -> EventMerger:
        return EventMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        model = as_text(response.get("model")) or as_text(request.get("model"))
        if model and model != self._model:
            self._model = model
            self._actors = ItemActors(self.draft, provider="openai", model=model)
        for body in (request, response):
            conversation = body.get("conversation")
            if isinstance(conversation, dict):
                conversation = conversation.get("id")
            conversation_id = as_text(conversation)
            if conversation_id:
                self.draft.conversation.setdefault("id", conversation_id)

    def get_prompts(self, request: JsonObject) -> list[Any]:
        items = _get_input(request)
        return _get_instructions(request) + items[: count_leading_prompts(items)]

    def get_history(self, request: JsonObject) -> list[Any]:
        items = _get_input(request)
        return items[count_leading_prompts(items) :]

    def is_delta(self, request: JsonObject) -> bool:
        return bool(request.get("previous_response_id") or request.get("conversation"))

    def list_tools(self, request: JsonObject) -> list[str]:
        names = [
            as_text(tool.get("name"))
            or as_text(tool.get("server_label"))
            or as_text(tool.get("type"))
            for tool in as_dicts(request.get("tools"))
        ]
        return [name for name in names if name]

    def get_output(self, response: JsonObject) -> list[Any]:
        items = _as_list(response.get("output"))
        for item in as_dicts(items):
            item_id = as_text(item.get("id"))
            if item_id:
                self._keys_by_id[item_id] = self.build_comparison_keys(item)
                self._call_ids[item_id] = as_text(item.get("call_id")) or item_id
        return items

    def build_comparison_keys(self, item: Any) -> list[Any]:
        if not isinstance(item, dict):
            return [["odd", item]]
        kind = item.get("type", "message")
        if kind == "reasoning":
            return []
        if kind == "item_reference":
            return self._keys_by_id.get(str(item.get("id")), [["item", item.get("id")]])
        if kind == "message":
            return join_comparison_keys(str(item.get("role")), _list_parts(item.get("content")))
        if kind in ("function_call", "custom_tool_call"):
            arguments = parse_arguments(item.get("arguments", item.get("input")))
            return [["call", item.get("name"), arguments]]
        if isinstance(kind, str) and kind.endswith("_output"):
            return [["result", item.get("output")]]
        # A history may begin with a compaction, so one must not pass for another.
        return [["item", kind, item.get("encrypted_content")]]

    def add_item(self, item: Any, place: str) -> None:
        if isinstance(item, dict):
            kind = item.get("type", "message")
            if kind == "item_reference":
                if str(item.get("id")) not in self._keys_by_id:
                    self.draft.note_omission(
                        "item-reference", place, "an item that only the provider has"
                    )
                return
            if kind != "message" or item.get("role") == "assistant":
                self._has_answer = True
        add_item(self.draft, self._resolve_call_id(item), self._actors, place=place)

    def _resolve_call_id(self, item: Any) -> Any:
        """Return an output with the id under which its call was added.

        Some clients send the item id instead, or join both ids of a call.
        """
        call_id = as_text(item.get("call_id")) if isinstance(item, dict) else None
        if call_id is None or not str(item.get("type")).endswith("_output"):
            return item
        if self.draft.is_call_open(call_id):
            return item
        first = call_id.partition("|")[0]
        if not self.draft.is_call_open(first):
            first = self._call_ids.get(call_id, call_id)
        return {**item, "call_id": first}

    def add_response(self, response: JsonObject, place: str) -> None:
        ts = from_epoch(response.get("created_at"))
        if ts and not self._has_answer and not as_text(response.get("previous_response_id")):
            self.draft.conversation.setdefault("started_at", ts)
        self._has_answer = True
        if not self.draft.count:
            for prompt in _get_instructions(response):
                self.add_item(prompt, place)
        usage = parse_usage(response.get("usage"))
        if usage and usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        for item in self.get_output(response):
            usage = self._add_output(item, ts, usage, place)
        if usage:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self._actors.assistant, ts=ts, usage=usage
            )
        self._add_status(response, ts)

    def _add_output(
        self, item: Any, ts: str | None, usage: Usage | None, place: str
    ) -> Usage | None:
        """Add an item; return the usage if it is still to be added.

        Reasoning never carries it, because reasoning may be left out of an export.
        """
        is_reasoning = isinstance(item, dict) and item.get("type") == "reasoning"
        item_usage = None if is_reasoning else usage
        event = add_item(
            self.draft, item, self._actors, ts=ts, group=place, place=place, usage=item_usage
        )
        return usage if event is None or item_usage is None else None

    def _add_status(self, response: JsonObject, ts: str | None) -> None:
        facts = {}
        if response.get("status") in _UNFINISHED:
            facts["status"] = response["status"]
            details = response.get("incomplete_details")
            if isinstance(details, dict) and details.get("reason"):
                facts["reason"] = details["reason"]
        if facts:
            self.draft.add_annotation(
                {"kind": "message_facts", **facts}, actor=self._actors.assistant, ts=ts
            )
        if isinstance(response.get("error"), dict):
            self.draft.add_annotation(
                {"kind": "error", "error": response["error"]}, actor=self._actors.assistant, ts=ts
            )


def _get_input(request: JsonObject) -> list[Any]:
    items = request.get("input")
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return _as_list(items)


def _get_instructions(body: JsonObject) -> list[Any]:
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        return [{"role": "system", "content": instructions}]
    return _as_list(instructions)


def _list_parts(value: Any) -> list[tuple[str, Any]]:
    """Return the content of a message as it is compared."""
    content = parse_content(value)
    if isinstance(content, str):
        return [("text", content)]
    parts: list[tuple[str, Any]] = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        parts.append(("text", text) if isinstance(text, str) else ("part", part))
    return parts


def _get_index(chunk: JsonObject, name: str) -> int:
    value = chunk.get(name)
    return value if type(value) is int and value >= 0 else 0


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
