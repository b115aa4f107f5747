"""One step of an ATIF trajectory: text, reasoning, tool calls, results and token counts."""

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
ReadSubagent = Callable[[Body, str | None], None]
"""Reads the subagent that a reference names, given the key of the call that started it."""
_ERROR_FLAGS = ("is_error", "tool_result_is_error")
"""How the agents of Harbor mark a failed call, in the extra fields of its result."""
_RESULT_FIELDS = ("content", "source_call_id", "subagent_trajectory_ref", "extra")
_TOKEN_FIELDS = ("prompt_token_ids", "completion_token_ids", "logprobs")


@dataclass
class Speakers:
    """The participants of a trajectory, and the keys of its calls."""

    draft: Draft
    name: str
    model: str | None
    runtime: str
    span: str | None
    asker: str | None
    """The agent that started this one, if any."""
    visibility: Visibility | None
    keys: dict[str, str] = field(default_factory=dict)
    """By the ids in this trajectory, which other trajectories of the conversation may use again."""
    actors: dict[str | None, str] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The agent with its usual model."""
        return self.get_agent(self.model)

    def get_agent(self, model: str | None) -> str:
        """Return the agent with the model that a step names."""
        actor = self.actors.get(model)
        if actor is None:
            provider = identify_provider(model)
            actor = self.draft.get_actor("model", self.name, provider=provider, model=model)
            self.actors[model] = actor
        return actor

    def get_user(self) -> str:
        """Return who asks: a person, or the agent that started this one."""
        return self.asker or self.draft.get_actor("human", "user")


def read_step(
    step: Body,
    speakers: Speakers,
    place: str,
    read_subagent: ReadSubagent,
    *,
    is_copied: bool = False,
) -> bool:
    """Add one step to the draft; return whether it has token counts.

    A step that is copied from another trajectory counts no tokens.
    """
    reader = _StepReader(step, speakers, place, is_copied)
    reader.read(read_subagent)
    return reader.has_usage


class _StepReader:
    """Reads one step."""

    def __init__(self, step: Body, speakers: Speakers, place: str, is_copied: bool) -> None:
        self._step = step
        self._speakers = speakers
        self._draft = speakers.draft
        self._place = place
        self._is_copied = is_copied
        self._ts = to_utc(step.get("timestamp"))
        self._metrics = _get_object(step, "metrics")
        self._extra = _get_object(step, "extra")
        self._usage = None if is_copied else _read_usage(self._metrics)
        self.has_usage = self._usage is not None
        self._keys: dict[str | None, str] = {}
        """The keys of the calls of this step, by their ids."""
        self._event: Event | None = None
        """The last message or reasoning of the step."""

    def read(self, read_subagent: ReadSubagent) -> None:
        if self._ts is None and self._step.get("timestamp") is not None:
            self._draft.note_omission("time-without-zone", self._place, "a time without a zone")
        self._read_source()
        self._annotate_facts()
        self._read_observation(read_subagent)
        self._annotate_context_change()
        for name in _TOKEN_FIELDS:
            if self._metrics.get(name):
                self._draft.note_omission("token-ids", self._place, f"field {name}")

    def _read_source(self) -> None:
        source = self._step.get("source")
        content = _read_content(self._step.get("message"))
        if source == "agent":
            self._read_agent(content)
            return
        if source == "user":
            self._event = self._draft.add_message(
                "user",
                content or "",
                self._speakers.get_user(),
                ts=self._ts,
                visibility=self._speakers.visibility,
                span=self._speakers.span,
            )
            return
        if source != "system":
            outcome = "read as a system message" if content else "without a message"
            self._draft.note_omission(
                "unknown-source", self._place, f"source {format_kind(source)}, {outcome}"
            )
        if content:
            self._event = self._draft.add_message(
                "system",
                content,
                self._speakers.runtime,
                ts=self._ts,
                span=self._speakers.span,
            )

    def _read_agent(self, content: str | list[Any]) -> None:
        """Add reasoning, then the message, then the calls."""
        speakers = self._speakers
        actor = speakers.get_agent(as_text(self._step.get("model_name")) or speakers.model)
        reasoning = as_text(self._step.get("reasoning_content"))
        if reasoning:
            self._event = self._draft.add_reasoning(
                reasoning, actor, ts=self._ts, span=speakers.span
            )
        calls = as_dicts(self._step.get("tool_calls"))
        # An empty message beside calls or reasoning is the form of a step, not an answer.
        if content or not (reasoning or calls):
            self._event = self._draft.add_message(
                "assistant",
                content or "",
                actor,
                ts=self._ts,
                visibility=speakers.visibility,
                span=speakers.span,
                usage=self._take_usage(),
            )
        for number, call in enumerate(calls):
            self._read_call(number, call, actor)
        if self._event is not None:
            usage = self._take_usage()
            if usage:
                self._draft.set_usage(self._event, usage)

    def _read_call(self, number: int, call: Body, actor: str) -> None:
        native_id = as_text(call.get("tool_call_id"))
        given = call.get("arguments")
        if "function_name" not in call and "arguments" not in call:
            # A call in an unknown form is preserved verbatim.
            given = call
        extra: Body = {}
        if native_id:
            extra["native_call_id"] = native_id
        if call.get("extra"):
            extra |= pick_fields(call, "extra")
        key = self._draft.add_tool_call(
            None,
            as_text(call.get("function_name")) or "tool",
            {} if given is None else given,
            actor,
            ts=self._ts,
            span=self._speakers.span,
            usage=self._take_usage(),
            group=self._place,
            extra=extra,
        )
        # Two calls of one step may have the same id.
        is_unique = native_id is not None and native_id not in self._keys
        self._keys[native_id if is_unique else f"\0{number}"] = key
        if native_id:
            self._speakers.keys[native_id] = key

    def _take_usage(self) -> Usage | None:
        usage = self._usage
        self._usage = None
        return usage

    def _annotate_facts(self) -> None:
        """Add what is known of the step besides its content."""
        step = self._step
        facts = pick_fields(step, "reasoning_effort")
        if self._metrics.get("cost_usd"):
            facts |= pick_fields(self._metrics, "cost_usd")
        if self._metrics.get("extra"):
            facts["metrics"] = self._metrics["extra"]
        if step.get("llm_call_count") not in (None, 1):
            facts["llm_call_count"] = step["llm_call_count"]
        if self._is_copied:
            facts["copied_context"] = True
        extra = step.get("extra")
        if isinstance(extra, dict):
            extra = {name: value for name, value in extra.items() if name != "context_management"}
        if extra:
            facts["extra"] = extra
        if facts:
            self._annotate({"kind": "message_facts", **facts}, self._event)

    def _annotate(self, data: Body, parent: Event | None = None) -> None:
        self._draft.add_annotation(
            data,
            parent=parent,
            actor=self._speakers.runtime,
            ts=self._ts,
            span=self._speakers.span,
        )

    def _annotate_context_change(self) -> None:
        change = self._extra.get("context_management")
        if not isinstance(change, dict):
            return
        kind = "compaction" if change.get("type") in ("compaction", "pruning") else "notice"
        rest = {name: value for name, value in change.items() if name != "kind"}
        self._annotate({"kind": kind, **rest})

    def _read_observation(self, read_subagent: ReadSubagent) -> None:
        """Add results: by the id that a result names, else in the order of the calls."""
        observation = self._step.get("observation")
        results = observation.get("results") if isinstance(observation, dict) else None
        if observation is not None and not isinstance(results, list):
            self._draft.note_omission(
                "unknown-record", self._place, "an observation without a list of results"
            )
        results = as_dicts(results)
        named = {as_text(result.get("source_call_id")) for result in results}
        unnamed_keys = deque(key for name, key in self._keys.items() if name not in named)
        answers_all = len(results) == 1 and len(self._keys) > 1 and None in named
        for result in results:
            if result.keys().isdisjoint(_RESULT_FIELDS):
                self._draft.note_omission("no-content", self._place, "a result without content")
            native_id = as_text(result.get("source_call_id"))
            key = None
            if native_id:
                key = self._keys.get(native_id) or self._speakers.keys.get(native_id)
            elif unnamed_keys:
                key = unnamed_keys.popleft()
            for ref in _get_subagent_refs(result):
                read_subagent(ref, key)
            self._read_result(result, native_id, key, answers_all)

    def _read_result(
        self, result: Body, native_id: str | None, key: str | None, answers_all: bool
    ) -> None:
        extra = _get_object(result, "extra")
        if extra.get("missing_result") is True:
            return
        facts = pick_fields(result, "extra") if result.get("extra") else {}
        if any(extra.get(name) is True for name in _ERROR_FLAGS):
            facts["is_error"] = True
        if answers_all:
            facts["answers_all_calls_of_the_step"] = True
        output = _read_content(result.get("content"))
        if key is None and native_id is None:
            self._read_environment_message(output, facts)
            return
        refs = _get_subagent_refs(result)
        if result.get("content") is None and refs:
            output = [{"type": "subagent_trajectory_ref", **ref} for ref in refs]
        self._draft.add_tool_result(
            key or native_id, output or "", ts=self._ts, span=self._speakers.span, facts=facts
        )

    def _read_environment_message(self, output: str | list[Any], facts: Body) -> None:
        """Add a result that answers no call as input from the environment."""
        if output:
            self._draft.add_message(
                "user",
                output,
                self._speakers.runtime,
                ts=self._ts,
                visibility="internal",
                span=self._speakers.span,
            )
        if facts:
            self._annotate({"kind": "message_facts", **facts})


def _get_object(body: Body, name: str) -> Body:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _get_subagent_refs(result: Body) -> list[Body]:
    refs = result.get("subagent_trajectory_ref")
    return as_dicts([refs] if isinstance(refs, dict) else refs)


def _read_content(value: Any) -> str | list[Any]:
    """Return a text as a string, parts as blocks; images and audio refer to their files."""
    if isinstance(value, str):
        return value
    if value is None:
        return []
    if not isinstance(value, list):
        return [value]
    if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
        text = value[0].get("text")
        if isinstance(text, str):
            return text
    return [_read_block(part) for part in value]


def _read_block(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") not in ("image", "audio"):
        return part
    source = part.get("source")
    return {"type": part["type"], **source} if isinstance(source, dict) else part


def _read_usage(metrics: Body) -> Usage | None:
    """Return the counts of a step; prompt tokens include those read from a cache."""
    if not metrics:
        return None
    extra = _get_object(metrics, "extra")
    details = _get_object(extra, "completion_tokens_details")
    return build_usage(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        reasoning_tokens=extra.get("reasoning_tokens", details.get("reasoning_tokens")),
        cache_read_tokens=metrics.get("cached_tokens"),
        cache_write_tokens=extra.get("cache_creation_input_tokens"),
    )
