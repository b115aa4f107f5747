"""Keys of steps: a hash of what counts in a comparison. Equal keys mean equal steps."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import orjson

from open_token.comparison.actions import (
    COMMENT_ARGUMENTS,
    extract_changed_lines,
    relativize_text,
)
from open_token.comparison.outputs import mask_volatile, unwrap_output
from open_token.comparison.steps import Step, Transcript, get_stable_facts
from open_token.jsontools.objects import as_object, get_content, get_data, omit_keys
from open_token.jsontools.walk import map_strings
from open_token.model.document import Event
from open_token.redaction.markers import count_markers, strip_marker_hashes

# Tools of different runtimes confirm these in different words: only success or failure counts.
_COMPARED_BY_OUTCOME = frozenset(("edit", "write", "delegate", "plan"))
_VOLATILE_FIELDS = frozenset(("id", "seq", "ts", "usage", "links", "actor_id"))

Pointer = tuple[str, ...]
Projection = tuple[dict[str, Any], dict[str, Any]]
"""What counts of a step: of the call or message itself, and of its result."""
Projector = Callable[[Step], Projection]


class ComparisonRules(msgspec.Struct, frozen=True):
    """How two sessions are compared."""

    exact: bool
    ignored: tuple[Pointer, ...]
    markers_by_type: bool
    """Whether redaction markers compare by their type only."""
    translated: frozenset[str]
    """Actions for which the two sessions have tools with different names."""


def build_projection(transcript: Transcript, rules: ComparisonRules) -> Projector:
    """Return a function that projects a step to what counts."""
    if rules.exact:
        project = _ExactProjector(transcript).project
    else:
        project = _SemanticProjector(transcript.cwd, rules).project
    if not rules.ignored:
        return project

    def project_without_ignored(step: Step) -> Projection:
        called, result = project(step)
        return _prune(called, rules.ignored), _prune(result, rules.ignored)

    return project_without_ignored


def build_display_projection(transcript: Transcript, rules: ComparisonRules) -> Projector:
    """Return the projection for display: markers that compare by type are shown by type."""
    project = build_projection(transcript, rules)
    if not rules.markers_by_type:
        return project

    def project_by_type(step: Step) -> Projection:
        projection = project(step)
        encoded = _encode(projection)
        if not count_markers(encoded):
            return projection
        called, result = json.loads(strip_marker_hashes(encoded))
        return called, result

    return project_by_type


def assign_keys(transcript: Transcript, rules: ComparisonRules) -> int:
    """Set the keys of all steps; return the number of redaction markers."""
    project = build_projection(transcript, rules)
    markers = 0
    for step in transcript.steps:
        called, result = project(step)
        output = result.get("result")
        if type(output) is str and not rules.exact:
            result = {**result, "result": mask_volatile(output)}
        encoded_call = _encode(called)
        encoded_result = _encode(result)
        markers += count_markers(encoded_call) + count_markers(encoded_result)
        if rules.markers_by_type:
            encoded_call = strip_marker_hashes(encoded_call)
            encoded_result = strip_marker_hashes(encoded_result)
        step.call_key = blake2b(encoded_call, digest_size=8).digest()
        step.key = step.call_key + blake2b(encoded_result, digest_size=8).digest()
    return markers


class _SemanticProjector:
    """Projects a step to what it does, with paths relative to the working directory."""

    def __init__(self, cwd: str, rules: ComparisonRules) -> None:
        self._cwd = cwd
        self._translated = rules.translated

    def project(self, step: Step) -> Projection:
        if step.kind == "call":
            return self._project_call(step), self._project_result(step)
        if step.kind == "result":
            return {"kind": "result"}, self._project_result(step)
        content = get_content(step.event)
        if isinstance(content, str):
            content = relativize_text(content.strip().replace("\r\n", "\n"), self._cwd)
        return {"kind": step.kind, "role": step.role, "text": content}, {}

    def _project_call(self, step: Step) -> dict[str, Any]:
        action = step.action
        arguments = step.arguments
        if action.known and action.name in self._translated:
            projected: dict[str, Any] = {"tool": action.name, "target": action.target}
            if action.files:
                removed, added = extract_changed_lines(arguments)
                projected["removed"] = removed
                projected["added"] = added
            return projected
        if action.known and isinstance(arguments, dict):
            arguments = omit_keys(arguments, *COMMENT_ARGUMENTS)
            if action.argument:
                arguments[action.argument] = action.target
        return {"tool": step.tool, "arguments": self._relativize(arguments)}

    def _project_result(self, step: Step) -> dict[str, Any]:
        if step.result is None or not step.has_result:
            return {}
        name = step.action.name
        if name in self._translated and name in _COMPARED_BY_OUTCOME:
            return {"failed": step.failed}
        output = unwrap_output(get_content(step.result), name)
        return {"failed": step.failed, "result": self._relativize(output)}

    def _relativize(self, value: Any) -> Any:
        if not self._cwd:
            return value
        return map_strings(value, lambda text: relativize_text(text, self._cwd))


class _ExactProjector:
    """Projects a step to everything except ids, times and counts.

    A link is projected to the content of the event it points to.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._actors = transcript.actors
        self._events: dict[str, Event] = {}
        self._first_in_span: dict[str, Event] = {}
        for step in transcript.steps:
            for event in (step.event, step.result):
                if event:
                    self._events[str(event.get("id"))] = event
            span_id = str(as_object(step.event.get("links")).get("span_id"))
            self._first_in_span.setdefault(span_id, step.event)

    def project(self, step: Step) -> Projection:
        result: dict[str, Any] = {}
        if step.kind == "result":
            result = self._project_event(step.event)
            result["facts"] = get_stable_facts(step)
            return {"kind": "result"}, result
        if step.result:
            result = self._project_event(step.result)
            result["facts"] = get_stable_facts(step)
        called = self._project_event(step.event)
        called["links"] = self._project_links(step.event)
        return called, result

    def _project_event(self, event: Event) -> dict[str, Any]:
        """Return an event without what differs in every run: ids, times, counts of tokens."""
        projected: dict[str, Any] = omit_keys(event, *_VOLATILE_FIELDS)
        if event.get("type") == "tool_use":
            content = dict(as_object(event.get("content")))
            content["data"] = omit_keys(get_data(event), "native_call_id")
            projected["content"] = content
        actor_id = str(event.get("actor_id"))
        projected["actor"] = self._actors.get(actor_id, "")
        return projected

    def _project_links(self, event: Event) -> dict[str, str]:
        links = as_object(event.get("links"))
        targets: dict[str, Event | None] = {}
        for name in ("parent_id", "replies_to"):
            if name in links:
                targets[name] = self._events.get(str(links[name]))
        if "span_id" in links:
            targets["span_id"] = self._first_in_span.get(str(links["span_id"]))
        return {
            name: hash_value(self._project_event(target))
            for name, target in targets.items()
            if target is not None and target is not event
        }


def _prune(value: Any, ignored: Sequence[Pointer]) -> Any:
    """Return a value without what the pointers refer to; in a list it becomes null."""
    if isinstance(value, list):
        # Null instead of nothing: the items after it must keep their numbers.
        by_index = {str(index): item for index, item in enumerate(value)}
        pruned_items = _prune(by_index, ignored)
        return [pruned_items.get(index) for index in by_index]
    if not isinstance(value, dict):
        return value
    pruned: dict[Any, Any] = {}
    for name, item in value.items():
        tails = [pointer[1:] for pointer in ignored if pointer and pointer[0] in (name, "*")]
        if () in tails:
            continue
        if tails:
            item = _prune(item, tails)
        pruned[name] = item
    return pruned


def hash_value(value: Any) -> str:
    """Return a short hash of a JSON value."""
    return blake2b(_encode(value), digest_size=8).hexdigest()


def _encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # numbers beyond 64 bits, lone surrogates
        return json.dumps(value, sort_keys=True, default=str).encode()
