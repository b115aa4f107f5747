"""Read the state of a run of the OpenAI Agents SDK: input, items of each agent, pending approvals."""

from collections import Counter
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.openai_agents.items import (
    get_field,
    get_item_id,
    get_raw_item,
    identify_content,
    identify_item,
    identify_raw_item,
    to_api_item,
)
from open_token.formats.shared import responses_items
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, get_text
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_usage
from open_token.model.document import Usage
from open_token.sources.source import Source

_DEFAULT_WORKFLOW = "Agent workflow"


def read(source: Source, draft: Draft) -> None:
    """Read the state into the draft."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    _, state = next(iter(source.records()), (0, None))
    if isinstance(state, dict):
        _StateReader(draft, state).read()


class _StateReader:
    """Reads one state; an item is added once, whichever of the lists it is in."""

    def __init__(self, draft: Draft, state: JsonObject) -> None:
        self._draft = draft
        self._state = state
        self._actors: dict[str, responses_items.ItemActors] = {}
        """The actors of each agent, by its name."""
        self._events: dict[bytes, str] = {}
        """The events of items of the model, by the identity of the item."""
        self._known_items: set[bytes] = set()
        self._known_copies: set[tuple[str, bytes]] = set()
        """Ids and content of items that were read: a run may have its history among its own items,
        too, with another status."""
        self._pending_calls: set[str] = set()
        self._usage: Counter[str] = Counter()

    def read(self) -> None:
        # The order of the lists is that of the conversation; what was read from one list is known
        # when the next one repeats it.
        self._read_facts()
        self._read_input()
        for number, item in enumerate(self._merge_items(), 1):
            self._read_item(item, f"item {number}")
        self._read_interruptions()
        self._read_responses()
        self._read_guardrails()
        self._read_context()

    def _get_list(self, name: str) -> list[Any]:
        value = get_field(self._state, name)
        return value if isinstance(value, list) else []

    def _read_facts(self) -> None:
        trace = _get_object(self._state, "trace")
        conversation_id = (
            as_text(get_field(self._state, "conversation_id"))
            or as_text(trace.get("group_id"))
            or as_text(trace.get("id"))
        )
        if conversation_id:
            self._draft.conversation["id"] = conversation_id
        name = as_text(trace.get("workflow_name"))
        # The SDK's default says nothing about the conversation.
        if name and name != _DEFAULT_WORKFLOW:
            self._draft.conversation["title"] = name

    def _read_input(self) -> None:
        given = get_field(self._state, "original_input")
        if given is None:
            return
        items = given
        if not isinstance(given, list):
            items = [{"role": "user", "content": given}]
        actors = self._get_actors(get_field(self._state, "current_agent"))
        for number, item in enumerate(items, 1):
            api_item = item
            if isinstance(item, dict):
                api_item = to_api_item(item)
            event = responses_items.add_item(self._draft, api_item, actors, place=f"input {number}")
            if isinstance(api_item, dict) and get_item_id(api_item) is not None:
                self._remember_item(api_item, event)

    def _remember_item(self, item: JsonObject, event: str | None) -> None:
        item_id = get_item_id(item)
        if item_id is not None:
            self._known_copies.add((item_id, identify_content(item)))
        identity = identify_raw_item(item)
        self._known_items.add(identity)
        if event is not None:
            self._events.setdefault(identity, event)

    def _merge_items(self) -> list[Any]:
        """Return every item of the run, from the list of the session and that for the model.

        Usually the session has the full list, but the other may hold items that it lacks.
        """
        longer = self._get_list("session_items")
        shorter = self._get_list("generated_items")
        if len(shorter) > len(longer):
            longer, shorter = shorter, longer
        known = {identify_item(item) for item in longer}
        merged = list(longer)
        for item in shorter:
            if identify_item(item) not in known:
                merged.append(item)
        return merged

    def _get_actors(self, agent: Any) -> responses_items.ItemActors:
        name = "assistant"
        if isinstance(agent, dict):
            name = as_text(agent.get("name")) or name
        if name not in self._actors:
            self._actors[name] = responses_items.ItemActors(self._draft, name=name)
        return self._actors[name]

    def _read_item(self, item: Any, place: str) -> None:
        if not isinstance(item, dict):
            self._draft.note_omission("unknown-item", place, "an item that is not an object")
            return
        kind = item.get("type")
        raw = get_raw_item(item)
        if kind == "tool_approval_item":
            self._read_approval(item, raw, place)
        elif not isinstance(raw, dict):
            self._draft.note_omission(
                "unknown-item", place, f"item {format_kind(kind)} without its content"
            )
        elif (get_item_id(raw), identify_content(raw)) in self._known_copies:
            return
        elif kind == "handoff_output_item":
            actors = self._get_actors(get_field(item, "source_agent"))
            self._add_raw_item(raw, actors, place)
            self._annotate_handoff(item)
        else:
            facts = _get_output_facts(item, raw)
            self._add_raw_item(raw, self._get_actors(item.get("agent")), place, facts)

    def _add_raw_item(
        self,
        raw: JsonObject,
        actors: responses_items.ItemActors,
        place: str,
        facts: JsonObject | None = None,
    ) -> None:
        event = responses_items.add_item(
            self._draft, raw, actors, group="items", place=place, facts=facts
        )
        self._remember_item(raw, event)

    def _annotate_handoff(self, item: JsonObject) -> None:
        data: JsonObject = {"kind": "handoff"}
        source = get_field(item, "source_agent")
        target = get_field(item, "target_agent")
        for key, agent in (("from", source), ("to", target)):
            name = get_text(agent, "name")
            if name is not None:
                data[key] = name
        self._draft.add_annotation(data, actor=self._get_actors(target).assistant)

    def _read_approval(self, item: JsonObject, raw: Any, place: str) -> None:
        """Read a call that waits for a person; usually there is an item of the call before it."""
        call = raw if isinstance(raw, dict) else {}
        native_id = as_text(call.get("call_id")) or as_text(call.get("id"))
        if native_id is not None and native_id in self._pending_calls:
            return
        actors = self._get_actors(item.get("agent"))
        if call and identify_raw_item(call) not in self._known_items:
            self._add_raw_item(call, actors, place)
        data: JsonObject = {"kind": "action_required", "action": "approval", "status": "requested"}
        tool = as_text(get_field(item, "tool_name"))
        if tool is not None:
            data["tool"] = tool
        if native_id is not None:
            data["native_call_id"] = native_id
            self._pending_calls.add(native_id)
        self._draft.add_annotation(data, actor=actors.assistant)

    def _read_interruptions(self) -> None:
        step = get_field(self._state, "current_step")
        data: JsonObject = {}
        if isinstance(step, dict):
            data = _get_object(step, "data")
        interruptions = data.get("interruptions")
        if not isinstance(interruptions, list):
            interruptions = []
        for number, item in enumerate(interruptions, 1):
            self._read_item(item, f"interruption {number}")
        if data.get("error") is not None:
            self._draft.add_annotation({"kind": "error", "error": data["error"]})

    def _read_responses(self) -> None:
        """Read the responses of the model: their usage, and output that no list of items has."""
        for number, response in enumerate(self._get_list("model_responses"), 1):
            place = f"response {number}"
            fields = response if isinstance(response, dict) else {}
            output = fields.get("output")
            if not isinstance(output, list):
                self._draft.note_omission("unknown-response", place, "a response without output")
            items = [to_api_item(item) for item in as_dicts(output)]
            for item in items:
                if identify_raw_item(item) not in self._known_items:
                    # A response does not say which agent it is of; mostly it is the current one.
                    actors = self._get_actors(get_field(self._state, "current_agent"))
                    self._add_raw_item(item, actors, place)
            self._add_usage(items, _read_usage(fields.get("usage")))

    def _add_usage(self, items: list[JsonObject], response_usage: Usage | None) -> None:
        """Put the usage of a response on its first event that is not reasoning."""
        if not response_usage or not any(response_usage.values()):
            return
        self._usage.update(cast(dict[str, int], response_usage))
        if response_usage.get("reasoning_tokens"):
            # The model reasoned, so where the state has no reasoning, it was not handed out.
            self._draft.without_thoughts = "unavailable"
        visible = [item for item in items if item.get("type") != "reasoning"]
        for item in visible or items:
            event = self._events.get(identify_raw_item(item))
            if event is not None:
                self._draft.set_usage(event, response_usage)
                return
        self._draft.add_annotation({"kind": "usage"}, usage=response_usage)

    def _read_guardrails(self) -> None:
        for name in ("input_guardrail_results", "output_guardrail_results"):
            for result in self._get_list(name):
                self._draft.add_annotation({"kind": "guardrail", "result": result})

    def _read_context(self) -> None:
        context = _get_object(self._state, "context")
        self._read_nested_usage(_read_usage(context.get("usage")))
        if context.get("approvals"):
            self._draft.add_annotation(
                {
                    "kind": "action_required",
                    "action": "approval",
                    "decisions": context["approvals"],
                }
            )
        if context.get("context"):
            self._draft.note_omission("context", "context", "the application's context object")
        nested_runs = get_field(self._state, "pending_agent_tool_runs")
        if isinstance(nested_runs, dict) and nested_runs:
            self._draft.note_omission(
                "nested-run",
                "pending agent tools",
                "the state of an agent that waits inside a call",
            )

    def _read_nested_usage(self, total: Usage | None) -> None:
        """Add the usage of agents that ran as tools: only the total includes it."""
        rest: dict[str, int] = {}
        for name, count in cast(dict[str, int], total or {}).items():
            rest[name] = count - self._usage[name]
        # A total that is smaller than its parts counts something else.
        if any(rest.values()) and min(rest.values()) >= 0:
            self._draft.add_annotation(
                {"kind": "usage", "of": "agents that ran as tools"}, usage=cast(Usage, rest)
            )


def _get_object(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _get_output_facts(item: JsonObject, raw: JsonObject) -> JsonObject | None:
    """Return what a tool returned to the application, where the model received something else."""
    if item.get("type") != "tool_call_output_item":
        return None
    output = item.get("output")
    if output is None or output == raw.get("output"):
        return None
    return {"returned": output}


def _read_usage(value: Any) -> Usage | None:
    """Return the counts of the SDK; details are a list with an entry for each summed request."""
    if not isinstance(value, dict):
        return None
    flat: JsonObject = {}
    for name in ("input_tokens", "output_tokens"):
        flat[name] = get_field(value, name)
        details = get_field(value, f"{name}_details")
        sums: Counter[str] = Counter()
        for entry in details if isinstance(details, list) else [details]:
            if not isinstance(entry, dict):
                continue
            for key, count in entry.items():
                sums[key] += count if type(count) is int and count >= 0 else 0
        flat[f"{name}_details"] = dict(sums)
    return parse_usage(flat)
