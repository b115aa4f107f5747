"""Tells the state of a run of the OpenAI Agents SDK: what went in, what each agent made of it, what
it waits for."""

from collections import Counter
from typing import Any, cast

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared import responses_items as wire
from open_token.formats.shared.fields import JsonObject, as_text, get_first, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_usage
from open_token.model.document import Usage
from open_token.sources.source import Source

_SAME = ("message", "reasoning")


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    for _, record in source.records():
        if isinstance(record, dict):
            _State(draft, record).tell()
        return


class _State:
    """One state; items are told once, whichever of its lists they stand in."""

    def __init__(self, draft: Draft, state: JsonObject) -> None:
        self._draft = draft
        self._state = state
        self._voices: dict[str, wire.ItemActors] = {}
        self._events: dict[bytes, str] = {}
        """By what an item is: the event in which the model speaks it."""
        self._told: set[bytes] = set()
        self._waiting: set[str] = set()
        self._spent: Counter[str] = Counter()

    def tell(self) -> None:
        self._conversation()
        self._input()
        for number, item in enumerate(self._items(), 1):
            self._item(item, f"item {number}")
        self._interruptions()
        self._responses()
        self._beside()

    def _conversation(self) -> None:
        told = self._draft.conversation
        trace = self._state.get("trace")
        held = trace if isinstance(trace, dict) else {}
        if (
            known := as_text(field_of(self._state, "conversation_id"))
            or as_text(held.get("group_id"))
            or as_text(held.get("id"))
        ):
            told["id"] = known
        name = as_text(held.get("workflow_name"))
        if name and name != "Agent workflow":
            told["title"] = name

    def _input(self) -> None:
        given = field_of(self._state, "original_input")
        if given is None:
            return
        items = given if isinstance(given, list) else [{"role": "user", "content": given}]
        voices = self._voice(field_of(self._state, "current_agent"))
        for number, item in enumerate(items, 1):
            told = as_api(item) if isinstance(item, dict) else item
            wire.add_item(self._draft, told, voices, place=f"input {number}")

    def _items(self) -> list[Any]:
        """Every item of the run: the full list of the session, and what only the list for the model
        has."""
        made, full = (field_of(self._state, name) for name in ("generated_items", "session_items"))
        first, second = ([*part] if isinstance(part, list) else [] for part in (full, made))
        if len(second) > len(first):
            first, second = second, first
        known = {_mark(item) for item in first}
        return first + [item for item in second if _mark(item) not in known]

    def _voice(self, agent: Any) -> wire.ItemActors:
        name = (as_text(agent.get("name")) if isinstance(agent, dict) else None) or "assistant"
        if name not in self._voices:
            self._voices[name] = wire.ItemActors(self._draft, name=name)
        return self._voices[name]

    def _item(self, item: Any, place: str) -> None:
        if not isinstance(item, dict):
            self._draft.note_omission("unknown-item", place, "an item that is not an object")
            return
        kind, raw = item.get("type"), raw_item(item)
        if kind == "tool_approval_item":
            self._approval(item, raw, place)
        elif not isinstance(raw, dict):
            self._draft.note_omission(
                "unknown-item", place, f"item {format_kind(kind)} without what it holds"
            )
        else:
            facts = self._facts(item, raw)
            agent = (
                item.get("agent")
                if kind != "handoff_output_item"
                else field_of(item, "source_agent")
            )
            self._tell(raw, self._voice(agent), place, facts)
            if kind == "handoff_output_item":
                self._handoff(item)

    def _facts(self, item: JsonObject, raw: JsonObject) -> JsonObject | None:
        """What the tool gave to the application, where the model was told something else."""
        output = item.get("output")
        if (
            item.get("type") != "tool_call_output_item"
            or output is None
            or output == raw.get("output")
        ):
            return None
        return {"returned": output}

    def _tell(
        self, raw: JsonObject, voices: wire.ItemActors, place: str, facts: JsonObject | None = None
    ) -> None:
        event = wire.add_item(self._draft, raw, voices, group="items", place=place, facts=facts)
        mark = _mark_raw(raw)
        self._told.add(mark)
        if event is not None:
            self._events.setdefault(mark, event)

    def _handoff(self, item: JsonObject) -> None:
        sides = [field_of(item, name) for name in ("source_agent", "target_agent")]
        names = [as_text(side.get("name")) if isinstance(side, dict) else None for side in sides]
        data = {"kind": "handoff", **pick_fields({"from": names[0], "to": names[1]}, "from", "to")}
        self._draft.add_annotation(data, actor=self._voice(sides[1]).assistant)

    def _approval(self, item: JsonObject, raw: Any, place: str) -> None:
        """A call that waits for a person; it stands as a call of its own before, as a rule."""
        name = as_text(field_of(item, "tool_name"))
        call = raw if isinstance(raw, dict) else {}
        native = as_text(call.get("call_id")) or as_text(call.get("id"))
        if native is not None and native in self._waiting:
            return
        voices = self._voice(item.get("agent"))
        if call and _mark_raw(call) not in self._told:
            self._tell(call, voices, place)
        data: JsonObject = {"kind": "action_required", "action": "approval", "status": "requested"}
        data |= pick_fields({"tool": name, "native_call_id": native}, "tool", "native_call_id")
        self._draft.add_annotation(data, actor=voices.assistant)
        if native is not None:
            self._waiting.add(native)

    def _interruptions(self) -> None:
        step = field_of(self._state, "current_step")
        data = step.get("data") if isinstance(step, dict) else None
        given = data.get("interruptions") if isinstance(data, dict) else None
        for number, item in enumerate(given if isinstance(given, list) else (), 1):
            self._item(item, f"interruption {number}")
        if isinstance(data, dict) and isinstance(step, dict) and data.get("error") is not None:
            self._draft.add_annotation({"kind": "error", "error": data["error"]})

    def _responses(self) -> None:
        """Each answer of a model again, with what it cost; what stands in no list of items is told
        here."""
        given = field_of(self._state, "model_responses")
        for number, response in enumerate(given if isinstance(given, list) else (), 1):
            if not isinstance(response, dict):
                continue
            output = response.get("output")
            items = (
                [as_api(item) for item in output if isinstance(item, dict)]
                if isinstance(output, list)
                else []
            )
            for item in items:
                if _mark_raw(item) not in self._told:
                    self._tell(
                        item,
                        self._voice(field_of(self._state, "current_agent")),
                        f"response {number}",
                    )
            self._spend(items, _usage(response.get("usage")))

    def _spend(self, items: list[JsonObject], spent: Usage | None) -> None:
        if not spent or not any(spent.values()):
            return
        self._spent.update(cast(dict[str, int], spent))
        if spent.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        spoken = [item for item in items if item.get("type") != "reasoning"] or items
        event = next(
            (self._events[mark] for item in spoken if (mark := _mark_raw(item)) in self._events),
            None,
        )
        if event is not None:
            self._draft.set_usage(event, spent)
        else:
            self._draft.add_annotation({"kind": "usage"}, usage=spent)

    def _beside(self) -> None:
        for name in ("input_guardrail_results", "output_guardrail_results"):
            given = field_of(self._state, name)
            for result in given if isinstance(given, list) else ():
                self._draft.add_annotation({"kind": "guardrail", "result": result})
        context = self._state.get("context")
        held = context if isinstance(context, dict) else {}
        self._others(_usage(held.get("usage")))
        if held.get("approvals"):
            self._draft.add_annotation(
                {"kind": "action_required", "action": "approval", "decisions": held["approvals"]}
            )
        if held.get("context"):
            self._draft.note_omission("context", "context", "the application's own context object")
        runs = field_of(self._state, "pending_agent_tool_runs")
        if isinstance(runs, dict) and runs:
            self._draft.note_omission(
                "nested-run",
                "pending agent tools",
                "the state of an agent that waits inside a call",
            )

    def _others(self, total: Usage | None) -> None:
        """What agents that ran as tools took: the total has it, no answer of this run does."""
        rest = {
            name: count - self._spent[name]
            for name, count in cast(dict[str, int], total or {}).items()
        }
        if any(rest.values()) and min(rest.values()) >= 0:
            self._draft.add_annotation(
                {"kind": "usage", "of": "agents that ran as tools"}, usage=cast(Usage, rest)
            )


def _usage(value: Any) -> Usage | None:
    """Counts of the SDK: the details stand in a list, one for each request that was summed."""
    if not isinstance(value, dict):
        return None
    flat: JsonObject = {}
    for name in ("input_tokens", "output_tokens"):
        flat[name] = field_of(value, name)
        details = field_of(value, f"{name}_details")
        rows = [
            row
            for row in (details if isinstance(details, list) else [details])
            if isinstance(row, dict)
        ]
        keys = {key for row in rows for key in row}
        flat[f"{name}_details"] = {key: sum(_count(row.get(key)) for row in rows) for key in keys}
    return parse_usage(flat)


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _mark(item: Any) -> bytes:
    raw = raw_item(item) if isinstance(item, dict) else None
    kind = item.get("type") if isinstance(item, dict) else None
    return (
        b"?" + str(kind).encode("utf-8", "replace") if kind == "tool_approval_item" else b""
    ) + _mark_raw(raw)


def _mark_raw(raw: Any) -> bytes:
    """What an item is: a call or an output by its id, anything else by all it says."""
    if isinstance(raw, dict) and raw.get("type") not in _SAME:
        native = as_text(raw.get("call_id")) or as_text(raw.get("id"))
        if native:
            return f"{raw.get('type')} {native}".encode("utf-8", "replace")
    try:
        return msgspec.json.encode(raw, order="sorted")
    except (RecursionError, UnicodeEncodeError, TypeError):
        return repr(raw).encode("utf-8", "replace")


_KINDS = {
    "function_call_result": "function_call_output",
    "computer_call_result": "computer_call_output",
    "shell_call_result": "shell_call_output",
    "apply_patch_call_result": "apply_patch_call_output",
    "tool_search_call_result": "tool_search_output",
}
_NAMES = {
    "callId": "call_id",
    "encryptedContent": "encrypted_content",
    "serverLabel": "server_label",
}
_HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)


def field_of(body: JsonObject, name: str) -> Any:
    """A field by its Python name, or as JavaScript spells it."""
    head, *rest = name.split("_")
    return get_first(body, name, head + "".join(part.capitalize() for part in rest))


def raw_item(item: JsonObject) -> Any:
    """The item of the API inside an item of a run."""
    raw = field_of(item, "raw_item")
    return as_api(raw) if isinstance(raw, dict) else raw


def as_api(raw: JsonObject) -> JsonObject:
    """An item as the API has it; JavaScript has its own words for some."""
    made = {_NAMES.get(name, name): value for name, value in raw.items()}
    kind = made.get("type")
    if not isinstance(kind, str):
        return made
    made["type"] = kind = _KINDS.get(kind, kind)
    if kind == "hosted_tool_call":
        return _hosted(made)
    if kind == "reasoning":
        return _reasoning(made)
    if kind.endswith("_output"):
        made["output"] = _output(made.get("output"))
    elif isinstance(made.get("content"), list):
        made["content"] = [_block(block) for block in made["content"]]
    return made


def _reasoning(item: JsonObject) -> JsonObject:
    """JavaScript has the summary as `content`, and the words, where it has them, as
    `rawContent`."""
    if "summary" in item or not isinstance(item.get("content"), list):
        return item
    sealed = item.get("providerData")
    if isinstance(sealed, dict) and sealed.get("encryptedContent"):
        item = {**item, "encrypted_content": sealed["encryptedContent"]}
    return {**item, "summary": item["content"], "content": item.get("rawContent")}


def _output(value: Any) -> Any:
    """A text without the block around it; JavaScript wraps every output in one."""
    if (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    ):
        return value["text"]
    if isinstance(value, dict) and "type" in value:
        value = [value]
    return [_block(block) for block in value] if isinstance(value, list) else value


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    image = get_first(block, "image", "imageUrl")
    if block.get("type") in ("input_image", "image") and isinstance(image, str | dict):
        address = image if isinstance(image, str) else get_first(image, "url", "data")
        if (
            isinstance(address, str)
            and not address.startswith(("data:", "http:", "https:"))
            and isinstance(image, dict)
        ):
            address = f"data:{as_text(image.get('mediaType')) or 'image/png'};base64,{address}"
        return {
            "type": "input_image",
            "image_url": address,
            **{k: block[k] for k in ("detail",) if block.get(k)},
        }
    return block


def _hosted(item: JsonObject) -> JsonObject:
    """A tool of the provider: JavaScript keeps what the API said of it beside."""
    beside = item.get("providerData")
    held = beside if isinstance(beside, dict) else {}
    name = as_text(held.get("type")) or as_text(item.get("name")) or "hosted_tool_call"
    if name in _HOSTED:
        return {
            **held,
            **{key: value for key, value in item.items() if key not in ("type", "providerData")},
            "type": name,
        }
    call = {
        "type": f"{name.removesuffix('_call')}_call",
        **{k: v for k, v in item.items() if k not in ("type", "name")},
    }
    return call
