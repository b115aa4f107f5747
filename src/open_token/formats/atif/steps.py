"""What one step of an ATIF trajectory is in the record: words, thoughts, calls, results, counts."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_dicts, as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage, Visibility

Body = dict[str, Any]
Spawn = Callable[[Body, str | None], None]
"""Tells the subagent that a reference names, given the key of the call it serves."""
_FAILED = ("is_error", "tool_result_is_error")
"""How agents of Harbor mark a failed call."""
_RESULT = ("content", "source_call_id", "subagent_trajectory_ref", "extra")


@dataclass
class Speaker:
    """Who speaks in a trajectory, and which of its calls were made under which key."""

    draft: Draft
    name: str
    model: str | None
    runtime: str
    span: str | None
    asker: str | None
    visibility: Visibility | None
    keys: dict[str, str] = field(default_factory=dict)
    """By the trajectory's own ids, which other trajectories of the conversation may use again."""
    actors: dict[str | None, str] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The agent with its usual model."""
        return self.agent_with(self.model)

    def agent_with(self, model: str | None) -> str:
        """The agent with the model that a step names."""
        known = self.actors.get(model)
        if known is None:
            known = self.draft.get_actor(
                "model", self.name, provider=identify_provider(model), model=model
            )
            self.actors[model] = known
        return known

    def person(self) -> str:
        """Who asks: a person, or the agent that sent this one."""
        return self.asker or self.draft.get_actor("human", "user")


def tell_step(
    step: Body, speaker: Speaker, place: str, spawn: Spawn, *, copied: bool = False
) -> bool:
    """Tell one step; gives whether it had counts of its own. A copy of what happened elsewhere
    counts nothing."""
    draft, ts, source = speaker.draft, to_utc(step.get("timestamp")), step.get("source")
    if ts is None and step.get("timestamp") is not None:
        draft.note_omission("time-without-zone", place, "a time without a zone")
    usage = None if copied else _usage(step.get("metrics"))
    first = draft.count
    words = content(step.get("message"))
    last: Event | None = None
    keys: dict[str | None, str] = {}
    if source == "agent":
        last, keys = _agent(step, speaker, words, ts, usage, place)
    elif source == "user":
        last = draft.add_message(
            "user",
            words or "",
            speaker.person(),
            ts=ts,
            visibility=speaker.visibility,
            span=speaker.span,
        )
    elif words:
        if source != "system":
            draft.note_omission(
                "unknown-source", place, f"source {format_kind(source)}, told as the system's"
            )
        last = draft.add_message("system", words, speaker.runtime, ts=ts, span=speaker.span)
    elif source != "system":
        draft.note_omission(
            "unknown-source", place, f"source {format_kind(source)}, without a message"
        )
    _beside(step, speaker, last if draft.count > first else None, ts, copied)
    _results(step, speaker, keys, ts, spawn, place)
    for name in ("prompt_token_ids", "completion_token_ids", "logprobs"):
        metrics = step.get("metrics")
        if isinstance(metrics, dict) and metrics.get(name):
            draft.note_omission("token-ids", place, f"field {name}")
    return usage is not None


def content(value: Any) -> str | list[Any]:
    """A text as it is; parts as blocks, an image or a sound as a reference to its file."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return [] if value is None else [value]
    if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
        text = value[0].get("text")
        if isinstance(text, str):
            return text
    return [_block(part) for part in value]


def _block(part: Any) -> Any:
    source = part.get("source") if isinstance(part, dict) else None
    if isinstance(source, dict) and part.get("type") in ("image", "audio"):
        return {"type": part["type"], **source}
    return part


def _agent(
    step: Body,
    speaker: Speaker,
    words: str | list[Any],
    ts: str | None,
    usage: Usage | None,
    place: str,
) -> tuple[Event | None, dict[str | None, str]]:
    """Thoughts, then words, then calls; gives the last event of speech, and the keys of the calls
    by their ids."""
    draft, span = speaker.draft, speaker.span
    actor = speaker.agent_with(as_text(step.get("model_name")) or speaker.model)
    last: Event | None = None
    if thought := as_text(step.get("reasoning_content")):
        last = draft.add_reasoning(thought, actor, ts=ts, span=span)
    calls = as_dicts(step.get("tool_calls"))
    if words or not (last or calls):
        last = draft.add_message(
            "assistant",
            words or "",
            actor,
            ts=ts,
            visibility=speaker.visibility,
            span=span,
            usage=usage,
        )
        usage = None
    keys: dict[str | None, str] = {}
    for number, call in enumerate(calls):
        native, given = as_text(call.get("tool_call_id")), call.get("arguments")
        if "function_name" not in call and "arguments" not in call:
            given = call  # a form that nobody knows is told as it is
        extra = ({"native_call_id": native} if native else {}) | (
            pick_fields(call, "extra") if call.get("extra") else {}
        )
        key = draft.add_tool_call(
            None,
            as_text(call.get("function_name")) or "tool",
            {} if given is None else given,
            actor,
            ts=ts,
            span=span,
            usage=usage,
            group=place,
            extra=extra,
        )
        usage = None
        # Two calls of one step may bear the same id; each keeps a name of its own here.
        keys[native if native and native not in keys else f"\0{number}"] = key
        if native:
            speaker.keys[native] = key
    if usage and last is not None:
        draft.set_usage(last, usage)
    return last, keys


def _beside(
    step: Body, speaker: Speaker, event: Event | None, ts: str | None, copied: bool
) -> None:
    """What is known of a step beside its words."""
    found = step.get("metrics")
    metrics: Body = found if isinstance(found, dict) else {}
    facts = pick_fields(step, "reasoning_effort")
    facts |= pick_fields(metrics, "cost_usd") if metrics.get("cost_usd") else {}
    if metrics.get("extra"):
        facts["metrics"] = metrics["extra"]
    if step.get("llm_call_count") not in (None, 1):
        facts["llm_call_count"] = step["llm_call_count"]
    if copied:
        facts["copied_context"] = True
    extra = step.get("extra")
    if isinstance(extra, dict):
        extra = {name: value for name, value in extra.items() if name != "context_management"}
    if extra:
        facts["extra"] = extra
    if facts:
        data = {"kind": "message_facts", **facts}
        speaker.draft.add_annotation(
            data, parent=event, actor=speaker.runtime, ts=ts, span=speaker.span
        )


def _results(
    step: Body,
    speaker: Speaker,
    keys: dict[str | None, str],
    ts: str | None,
    spawn: Spawn,
    place: str,
) -> None:
    """What came back: by the id that a result names, else in the order of the calls."""
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    if observation is not None and not isinstance(results, list):
        speaker.draft.note_omission(
            "unknown-record", place, "an observation without a list of results"
        )
    answers = as_dicts(results)
    named = {as_text(result.get("source_call_id")) for result in answers}
    waiting = deque(key for native, key in keys.items() if native not in named)
    several = len(answers) == 1 < len(keys) and None in named
    for result in answers:
        if result.keys().isdisjoint(_RESULT):
            speaker.draft.note_omission("no-content", place, "a result without content")
        native = as_text(result.get("source_call_id"))
        key = (
            (keys.get(native) or speaker.keys.get(native))
            if native
            else (waiting.popleft() if waiting else None)
        )
        for ref in _refs(result):
            spawn(ref, key)
        _result(result, native, key, speaker, step, ts, several)
    change = step.get("extra")
    change = change.get("context_management") if isinstance(change, dict) else None
    if isinstance(change, dict):
        kind = "compaction" if change.get("type") in ("compaction", "pruning") else "notice"
        data = {"kind": kind} | {name: value for name, value in change.items() if name != "kind"}
        speaker.draft.add_annotation(data, actor=speaker.runtime, ts=ts, span=speaker.span)


def _refs(result: Body) -> list[Body]:
    refs = result.get("subagent_trajectory_ref")
    return as_dicts([refs] if isinstance(refs, dict) else refs)


def _result(
    result: Body,
    native: str | None,
    key: str | None,
    speaker: Speaker,
    step: Body,
    ts: str | None,
    several: bool,
) -> None:
    """One result; what answers no call is told as what the environment put in."""
    draft, output = speaker.draft, content(result.get("content"))
    facts = pick_fields(result, "extra") if result.get("extra") else {}
    extra = result.get("extra")
    known: Body = extra if isinstance(extra, dict) else {}
    if known.get("missing_result") is True:
        return
    if any(known.get(name) is True for name in _FAILED):
        facts["is_error"] = True
    if several:
        facts["answers_all_calls_of_the_step"] = True
    if key is None and native is None:
        if output:
            draft.add_message(
                "user", output, speaker.runtime, ts=ts, visibility="internal", span=speaker.span
            )
        if facts:
            draft.add_annotation(
                {"kind": "message_facts", **facts}, actor=speaker.runtime, ts=ts, span=speaker.span
            )
        return
    if result.get("content") is None and (refs := _refs(result)):
        output = [{"type": "subagent_trajectory_ref", **ref} for ref in refs]
    draft.add_tool_result(key or native, output or "", ts=ts, span=speaker.span, facts=facts)


def _usage(metrics: Any) -> Usage | None:
    """The counts of a step; its prompt includes what came from a cache."""
    if not isinstance(metrics, dict):
        return None
    found = metrics.get("extra")
    extra: Body = found if isinstance(found, dict) else {}
    details = extra.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return build_usage(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        reasoning_tokens=extra.get("reasoning_tokens", reasoning),
        cache_read_tokens=metrics.get("cached_tokens"),
        cache_write_tokens=extra.get("cache_creation_input_tokens"),
    )
