"""A replay session: which recorded step each request asks for, and what is answered."""

import hashlib
import re
import threading
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from open_token.jsontools.objects import as_list, as_object
from open_token.replay.equivalence import Equivalence, mask_run_values, strip_runtime_lines
from open_token.replay.matching import RequestDifference, find_difference, follows_step
from open_token.replay.recording import Recording, Step
from open_token.replay.requests import ModelRequest, ModelResponse, ToolCall, ToolResult
from open_token.replay.tool_mapping import map_call

_TITLE_REQUEST = re.compile(
    r"title generator|\b(?:generate|create|write|make|suggest)\b[^.\n]{0,60}\btitle\b",
    re.IGNORECASE,
)
_MAX_INDEXED = 64
"""Steps that are tried for one index key of a request."""
_MAX_COMPARED = 2000
FALLBACK_TEXT = "ok"
_MAX_SCHEMA_DEPTH = 32

Outcome = Literal["matched", "repeated", "aside", "missed"]


class ReplayRules(msgspec.Struct, frozen=True):
    """How requests are matched with the recording."""

    equivalence: Equivalence = Equivalence()
    any_order: bool = False
    any_results: bool = False
    stub: bool = False
    """Whether a request that is not recorded gets a fallback text instead of an error."""


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of one request."""

    number: int
    protocol: str
    outcome: Outcome
    step: Step | None
    """The requested step; of a miss the nearest one."""
    answer: ModelResponse
    missing_tools: tuple[str, ...] = ()
    """Tools of the answer that the request does not offer."""
    difference: RequestDifference | None = None


class ReplaySession:
    """Answers requests from a recording. It is thread-safe."""

    def __init__(self, recording: Recording, rules: ReplayRules) -> None:
        self.recording = recording
        self.rules = rules
        self.verdicts: list[Verdict] = []
        self._lock = threading.Lock()
        self._served: set[int] = set()
        self._misses = 0
        self._next_positions = dict.fromkeys(recording.lanes, 0)
        self._index: dict[bytes, list[Step]] = {}
        for step in recording.steps:
            for key in _get_step_keys(step):
                self._index.setdefault(key, []).append(step)

    @property
    def served(self) -> int:
        """The number of steps that were requested."""
        return len(self._served)

    @property
    def is_complete(self) -> bool:
        """Whether all steps were requested."""
        return len(self._served) == len(self.recording.steps)

    @property
    def first_miss(self) -> Verdict | None:
        """The first request that is not in the recording."""
        return next((verdict for verdict in self.verdicts if verdict.outcome == "missed"), None)

    @property
    def first_unserved(self) -> Step | None:
        """The first step that was not requested."""
        for step in self.recording.steps:
            if step.number not in self._served:
                return step
        return None

    def was_served(self, step: Step) -> bool:
        """Return whether a step was requested."""
        return step.number in self._served

    def ask(self, request: ModelRequest) -> Verdict:
        """Answer one request."""
        with self._lock:
            verdict = self._judge(request, len(self.verdicts) + 1)
            if verdict.outcome == "missed":
                self._misses += 1
            is_first_miss = verdict.outcome == "missed" and self._misses == 1
            self.verdicts.append(verdict if is_first_miss else _drop_content(verdict))
            return verdict

    def _judge(self, request: ModelRequest, number: int) -> Verdict:
        step = self._find_step(request)
        if self._is_outside_conversation(request, step):
            if request.wants_json:
                text = build_fallback_text(request.schema)
            else:
                text = FALLBACK_TEXT
            answer = ModelResponse(f"aside_{number}", [text])
            return Verdict(number, request.protocol, "aside", None, answer)
        if step is None:
            return self._build_miss(request, number)
        outcome: Outcome = "repeated" if step.number in self._served else "matched"
        self._mark_served(step)
        parts: list[str | ToolCall] = []
        missing_tools: list[str] = []
        for part in step.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            mapped = map_call(part, request.tools)
            parts.append(mapped.call)
            if not mapped.is_offered:
                missing_tools.append(mapped.call.name)
        answer = ModelResponse(f"step_{step.number}", parts)
        return Verdict(number, request.protocol, outcome, step, answer, tuple(missing_tools))

    def _mark_served(self, step: Step) -> None:
        self._served.add(step.number)
        steps = self.recording.lanes[step.lane]
        position = self._next_positions[step.lane]
        while position < len(steps) and steps[position].number in self._served:
            position += 1
        self._next_positions[step.lane] = position

    def _find_step(self, request: ModelRequest) -> Step | None:
        """Return the step that a request asks for: the next one if it matches, else an earlier."""
        rules = self.rules
        upcoming = {step.number for step in self._iter_upcoming()}
        first_match: Step | None = None
        for step in self._find_candidates(request):
            is_due = step.number in upcoming or step.number in self._served
            if not rules.any_order and not is_due:
                continue
            difference = find_difference(
                step, request, rules.equivalence, any_results=rules.any_results
            )
            if difference is not None:
                continue
            if follows_step(step, request):
                return step
            first_match = first_match or step
        return first_match

    def _iter_upcoming(self) -> Iterator[Step]:
        """Yield the next step of every lane."""
        for lane, steps in self.recording.lanes.items():
            if self._next_positions[lane] < len(steps):
                yield steps[self._next_positions[lane]]

    def _find_candidates(self, request: ModelRequest) -> list[Step]:
        """Return the next and the last steps of all lanes, and those that share an index key."""
        candidates = {step.number: step for step in self._iter_upcoming()}
        for lane, steps in self.recording.lanes.items():
            position = self._next_positions[lane]
            if position:
                last = steps[position - 1]
                candidates.setdefault(last.number, last)
        for key in _get_request_keys(request):
            for step in self._index.get(key, ())[:_MAX_INDEXED]:
                candidates.setdefault(step.number, step)
            if len(candidates) > _MAX_INDEXED * 2:
                break
        return list(candidates.values())

    def _is_outside_conversation(self, request: ModelRequest, step: Step | None) -> bool:
        """Return whether a request is not part of the conversation: a title, a router, a probe."""
        if request.limit is not None and request.limit <= 1:
            return True
        if request.tools:
            return False
        if any(isinstance(item, ToolCall | ToolResult) for item in request.items):
            return False
        if request.wants_json:
            return step is None or not step.text.lstrip().startswith(("{", "["))
        if _TITLE_REQUEST.search(request.system[:4000]):
            return True
        return self.recording.has_calls and (step is None or bool(step.calls))

    def _build_miss(self, request: ModelRequest, number: int) -> Verdict:
        """Return a miss with the nearest step and the first difference from it."""
        rules = self.rules
        nearest: Step | None = None
        nearest_difference: RequestDifference | None = None
        # Steps that follow the history of the request come first (False sorts before True), and
        # of several differences that are equally near the first is reported.
        upcoming = sorted(self._iter_upcoming(), key=lambda step: not follows_step(step, request))
        for step in upcoming:
            difference = find_difference(
                step, request, rules.equivalence, any_results=rules.any_results
            )
            if difference is None:
                continue
            if nearest_difference is None or _is_nearer(difference, nearest_difference):
                nearest = step
                nearest_difference = difference
        if nearest_difference is None:
            first_prompt = next(iter(request.prompts), "")
            nearest_difference = RequestDifference("the end of the recording", "", first_prompt)
        if rules.stub:
            answer = ModelResponse(f"miss_{number}", [FALLBACK_TEXT])
        else:
            message = self._describe_miss(nearest, nearest_difference)
            answer = ModelResponse(f"miss_{number}", [], message)
        return Verdict(
            number, request.protocol, "missed", nearest, answer, difference=nearest_difference
        )

    def _describe_miss(self, nearest: Step | None, difference: RequestDifference) -> str:
        start = "open-token replay: this request is not in the recording"
        total = len(self.recording.steps)
        if nearest is None:
            return f"{start}, all {total} steps of which were requested"
        return f"{start}; expected step {nearest.number} of {total}: {difference.where} differs"


def _drop_content(verdict: Verdict) -> Verdict:
    """Return a verdict without content: many wrong requests must not fill the memory."""
    difference = None
    if verdict.difference is not None:
        difference = RequestDifference(verdict.difference.where, "", "")
    answer = ModelResponse(verdict.answer.id, [])
    return msgspec.structs.replace(verdict, answer=answer, difference=difference)


def _is_nearer(difference: RequestDifference, other: RequestDifference) -> bool:
    return _count_common_start(difference) > _count_common_start(other)


def _count_common_start(difference: RequestDifference) -> int:
    """Return the common start of both texts: a small change is the likely one."""
    recorded = difference.recorded[:_MAX_COMPARED]
    given = difference.given[:_MAX_COMPARED]
    for position, (one, other) in enumerate(zip(recorded, given, strict=False)):
        if one != other:
            return position
    return len(given)


def _hash_key(kind: str, text: str) -> bytes:
    key = f"{kind} {' '.join(text.split())}".encode("utf-8", "replace")
    return hashlib.blake2b(key, digest_size=12).digest()


def _get_step_keys(step: Step) -> Iterator[bytes]:
    """Yield the index keys of a step."""
    for text in step.prompts:
        yield _hash_key("prompt", text)
    for result in step.results:
        yield _hash_key("call", result.call.id)
        yield _hash_key("result", strip_runtime_lines(mask_run_values(result.text)))


def _get_request_keys(request: ModelRequest) -> Iterator[bytes]:
    """Yield the index keys under which the step of a request may be found."""
    for text in request.prompts:
        yield _hash_key("prompt", text)
    for result in request.results:
        yield _hash_key("call", result.id)
        yield _hash_key("result", strip_runtime_lines(mask_run_values(result.text)))


def build_fallback_text(schema: Any) -> str:
    """Return the JSON text of a response with a schema."""
    return msgspec.json.encode(build_minimal_value(schema)).decode()


def build_minimal_value(schema: Any, depth: int = 0) -> Any:
    """Return a minimal value that a common JSON Schema accepts."""
    fields = as_object(schema)
    enum = as_list(fields.get("enum"))
    if enum:
        return enum[0]
    if "const" in fields:
        return fields["const"]
    for name in ("anyOf", "oneOf", "allOf"):
        options = as_list(fields.get(name))
        if options:
            # A schema comes from the agent, and may be nested without end.
            if depth < _MAX_SCHEMA_DEPTH:
                return build_minimal_value(options[0], depth + 1)
            return None
    value_type = fields.get("type")
    if isinstance(value_type, list) and value_type:
        value_type = value_type[0]
    value_type = str(value_type or "object").lower()
    if value_type == "object":
        if depth >= _MAX_SCHEMA_DEPTH:
            return {}
        properties = as_object(fields.get("properties"))
        return {name: build_minimal_value(part, depth + 1) for name, part in properties.items()}
    if value_type in ("integer", "number"):
        minimum = fields.get("minimum")
        if isinstance(minimum, int | float):
            return minimum
        return 1
    return {"string": FALLBACK_TEXT, "boolean": False, "array": []}.get(value_type)
