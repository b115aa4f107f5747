"""Tells what is said in the OpenAI Responses API: where its bodies and streams hold what."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared import responses_items as wire
from open_token.formats.shared.api_conversation import Teller, tell_source
from open_token.formats.shared.api_detection import RESPONSES
from open_token.formats.shared.model_message import Body, prompts, runs
from open_token.formats.shared.responses_content import arguments, content, usage, word
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage
from open_token.sources.source import Source

_UNFINISHED = ("queued", "in_progress", "incomplete", "failed", "cancelled")


class Events:
    """The last event carries the whole response; before it came, items are built from their own
    events."""

    def __init__(self) -> None:
        self._body: Body | None = None
        self._items: dict[int, Body] = {}

    def add(self, chunk: Body) -> Body | None:
        """Take an event; gives the response before it when the event begins another."""
        kind = str(chunk.get("type"))
        finished = self.end() if kind == "response.created" else None
        body, item = chunk.get("response"), chunk.get("item")
        if isinstance(body, dict):
            self._body = body
        elif kind == "error":
            error = chunk.get("error")
            self._body = {
                **(self._body or {}),
                "error": error if isinstance(error, dict) else chunk,
            }
        elif kind in ("response.output_item.added", "response.output_item.done") and isinstance(
            item, dict
        ):
            self._items[_number(chunk, "output_index")] = dict(item)
        elif isinstance(chunk.get("delta"), str):
            self._grow(kind, chunk)
        return self.end() if kind in _WHOLE else finished

    def _grow(self, kind: str, chunk: Body) -> None:
        index, delta = _number(chunk, "output_index"), chunk["delta"]
        if name := _FIELDS.get(kind):
            item = self._items.setdefault(index, {"type": "function_call"})
            item[name] = str(item.get(name) or "") + delta
        elif kind in _TEXTS:
            holder, part_kind, name, place = _TEXTS[kind]
            is_thought = "reasoning" in kind
            item = self._items.setdefault(
                index,
                {"type": "reasoning"} if is_thought else {"type": "message", "role": "assistant"},
            )
            parts = item[holder] = [
                part for part in _list(item.get(holder)) if isinstance(part, dict)
            ]
            number = _number(chunk, place)
            if number >= len(parts):
                parts.append({"type": part_kind})
            part = parts[min(number, len(parts) - 1)]
            part[name] = str(part.get(name) or "") + delta

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        body, self._body = self._body, None
        items, self._items = [self._items[index] for index in sorted(self._items)], {}
        if body is None and not items:
            return None
        # Codex's backend leaves the output of its last event empty.
        return {
            "object": "response",
            **(body or {}),
            "output": _list((body or {}).get("output")) or items,
        }


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    tell_source(source, teller(draft))


def teller(draft: Draft) -> Teller:
    """What tells this dialect to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "openai")
    draft.without_thoughts = "unknown"
    return _Responses(draft)


class _Responses:
    """Where this dialect holds what; see Teller."""

    name = RESPONSES

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._model: str | None = None
        self._voices = wire.Voices(draft, provider="openai")
        self._by_id: dict[str, list[Any]] = {}
        """What the items of answers say, by id: a later request may only point at them."""
        self._aliases: dict[str, str] = {}
        """The call_id of a call by its item id, which some clients send back in its place."""
        self._answered = False

    def stream(self) -> Events:
        return Events()

    def meet(self, request: Body, response: Body) -> None:
        model = word(response.get("model")) or word(request.get("model"))
        if model and model != self._model:
            self._model = model
            self._voices = wire.Voices(self.draft, provider="openai", model=model)
        for body in (request, response):
            kept = body.get("conversation")
            if known := word(kept.get("id") if isinstance(kept, dict) else kept):
                self.draft.conversation.setdefault("id", known)

    def preamble(self, request: Body) -> list[Any]:
        given = _input(request)
        return _instructions(request) + given[: prompts(given)]

    def history(self, request: Body) -> list[Any]:
        given = _input(request)
        return given[prompts(given) :]

    def is_delta(self, request: Body) -> bool:
        return bool(request.get("previous_response_id") or request.get("conversation"))

    def tools(self, request: Body) -> list[str]:
        tools = request.get("tools")
        given = (
            [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        )
        names = [
            word(tool.get("name")) or word(tool.get("server_label")) or word(tool.get("type"))
            for tool in given
        ]
        return [name for name in names if name]

    def answer(self, response: Body) -> list[Any]:
        output = response.get("output")
        items = output if isinstance(output, list) else []
        for item in items:
            if isinstance(item, dict) and (key := word(item.get("id"))):
                self._by_id[key] = self.gists(item)
                self._aliases[key] = word(item.get("call_id")) or key
        return items

    def gists(self, item: Any) -> list[Any]:
        if not isinstance(item, dict):
            return [["odd", item]]
        kind = item.get("type", "message")
        if kind == "reasoning":
            return []
        if kind == "item_reference":
            return self._by_id.get(str(item.get("id")), [["item", item.get("id")]])
        if kind == "message":
            return runs(str(item.get("role")), _parts(item.get("content")))
        if kind in ("function_call", "custom_tool_call"):
            return [["call", item.get("name"), arguments(item.get("arguments", item.get("input")))]]
        if isinstance(kind, str) and kind.endswith("_output"):
            return [["result", item.get("output")]]
        return [["item", kind]]

    def tell(self, item: Any, place: str) -> None:
        if isinstance(item, dict) and item.get("type") == "item_reference":
            if str(item.get("id")) not in self._by_id:
                self.draft.note_omission(
                    "item-reference", place, "an item that only the provider has"
                )
            return
        if isinstance(item, dict) and (
            item.get("role") == "assistant" or item.get("type", "message") != "message"
        ):
            self._answered = True
        wire.item(self.draft, self._with_known_call(item), self._voices, place=place)

    def _with_known_call(self, item: Any) -> Any:
        """An output under the id that its call was told with; some clients glue both ids of a call
        together."""
        given = word(item.get("call_id")) if isinstance(item, dict) else None
        if (
            given is None
            or not str(item.get("type")).endswith("_output")
            or self.draft.is_call_open(given)
        ):
            return item
        first = given.partition("|")[0]
        return {
            **item,
            "call_id": first if self.draft.is_call_open(first) else self._aliases.get(given, given),
        }

    def tell_answer(self, response: Body, place: str) -> None:
        ts = from_epoch(response.get("created_at"))
        if ts and not self._answered and not word(response.get("previous_response_id")):
            self.draft.conversation.setdefault("started_at", ts)
        self._answered = True
        if not self.draft.count:
            for prompt in _instructions(response):
                self.tell(prompt, place)
        spent = usage(response.get("usage"))
        if spent and spent.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        for item in self.answer(response):
            spent = self._tell_output(item, ts, spent, place)
        if spent:
            self.draft.add_annotation(
                {"kind": "usage"}, actor=self._voices.assistant, ts=ts, usage=spent
            )
        self._tell_end(response, ts)

    def _tell_output(
        self, item: Any, ts: str | None, spent: Usage | None, place: str
    ) -> Usage | None:
        """Tell an item; gives the usage that is still to be told. No thought carries it: thoughts
        may be left out."""
        given = None if isinstance(item, dict) and item.get("type") == "reasoning" else spent
        told = wire.item(
            self.draft, item, self._voices, ts=ts, group=place, place=place, usage=given
        )
        return spent if told is None or given is None else None

    def _tell_end(self, response: Body, ts: str | None) -> None:
        facts = {}
        if response.get("status") in _UNFINISHED:
            facts["status"] = response["status"]
            details = response.get("incomplete_details")
            if isinstance(details, dict) and details.get("reason"):
                facts["reason"] = details["reason"]
        if facts:
            self.draft.add_annotation(
                {"kind": "message_facts", **facts}, actor=self._voices.assistant, ts=ts
            )
        if isinstance(response.get("error"), dict):
            self.draft.add_annotation(
                {"kind": "error", "error": response["error"]}, actor=self._voices.assistant, ts=ts
            )


def _input(request: Body) -> list[Any]:
    given = request.get("input")
    if isinstance(given, list):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else []


def _instructions(body: Body) -> list[Any]:
    given = body.get("instructions")
    if isinstance(given, str) and given:
        return [{"role": "system", "content": given}]
    return given if isinstance(given, list) else []


def _parts(value: Any) -> list[tuple[str, Any]]:
    """The content of a message as it is compared."""
    made = content(value)
    if isinstance(made, str):
        return [("text", made)]
    texts = [part.get("text") if isinstance(part, dict) else None for part in made]
    return [
        ("text", text) if isinstance(text, str) else ("part", part)
        for text, part in zip(texts, made, strict=True)
    ]


_WHOLE = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
_TEXTS = {
    "response.output_text.delta": ("content", "output_text", "text", "content_index"),
    "response.refusal.delta": ("content", "refusal", "refusal", "content_index"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text", "summary_index"),
}


def _number(chunk: Body, name: str) -> int:
    value = chunk.get(name)
    return value if type(value) is int and value >= 0 else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
