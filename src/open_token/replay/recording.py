"""A recorded conversation as model responses, each with the input it responded to."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from open_token.jsontools.objects import as_object, get_data
from open_token.model.document import Event, Export
from open_token.redaction.markers import MARKER_START
from open_token.replay.text import MEDIA, flatten_text, is_media

TRUNCATION_MARKER = "[TRUNCATED]"
"""Stands for what an export cut out of a long text."""
_ELLIPSIS = "…"
_SKIPPED_SPANS = ("abandoned_branch", "branch", "scorer")
# Codex: ids of calls that a script made; the model itself only called `exec`.
_SCRIPT_CALL_PREFIX = "exec-"
# Ids of calls that a provider carries out itself, so that no agent is asked to.
_PROVIDER_CALL_PREFIXES = ("srvtoolu_", "ws_")
_PROMPT_ARGUMENTS = (
    "prompt",
    "task",
    "objective",
    "message",
    "instructions",
    "query",
    "description",
)
_MAX_CALL_ID = 64


class Call(msgspec.Struct):
    """One call by the model."""

    id: str
    """The native id, where it is known and unique."""
    tool: str
    arguments: Any


class Result(msgspec.Struct):
    """The result of a call; unknown where the record lacks it."""

    call: Call
    text: str
    is_known: bool = True


class Step(msgspec.Struct):
    """One model response, and what was new in the request before it."""

    number: int
    seq: int
    lane: str
    """The span of a subagent; empty for the main conversation."""
    prompts: list[str]
    injected: list[str]
    """User messages that the runtime wrote; a replay need not repeat them."""
    results: list[Result]
    parts: list[str | Call]
    previous: "Step | None" = None
    is_open: bool = False
    """Whether its request is unknown: it matches the first request that matches nothing else."""

    @property
    def calls(self) -> list[Call]:
        """Its calls."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def text(self) -> str:
        """Its text."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))


class Recording(msgspec.Struct):
    """All steps, by number and by lane."""

    title: str
    steps: list[Step]
    lanes: dict[str, list[Step]]
    folders: list[str]
    skipped: Counter[str]
    """What of the record cannot be replayed, with counts."""
    has_markers: bool = False
    """Whether redaction or truncation markers stand for unknown text."""

    @property
    def has_calls(self) -> bool:
        """Whether the model called any tool."""
        return any(step.calls for step in self.steps)


def build_recording(document: Export) -> Recording:
    """Return the recording of a document."""
    builder = _RecordingBuilder(document)
    for event in document.get("events", []):
        builder.add(event)
    return builder.finish()


class _Lane(msgspec.Struct):
    """The state of one lane: input since the last response, and the current response."""

    name: str
    prompts: list[str] = []
    injected: list[str] = []
    results: list[Result] = []
    current: Step | None = None
    last: Step | None = None
    spawn_prompt: str = ""
    has_script: bool = False

    def end_response(self) -> None:
        if self.current is not None:
            self.last = self.current
            self.current = None


class _RecordingBuilder:
    def __init__(self, document: Export) -> None:
        self._actor_kinds = {
            str(participant.get("actor_id")): str(participant.get("kind"))
            for participant in document.get("participants", [])
        }
        self._title = str(as_object(document.get("conversation")).get("title") or "")
        self._lanes: dict[str, _Lane] = {}
        self._skipped_spans: set[str] = set()
        self._calls: dict[str, Call] = {}
        self._foreign_calls: set[str] = set()
        """Calls that no agent is asked to carry out."""
        self._steps: list[Step] = []
        self._folders: list[str] = []
        self._skipped: Counter[str] = Counter()
        self._has_markers = False

    def add(self, event: Event) -> None:
        kind = event.get("type")
        links = as_object(event.get("links"))
        span_id = str(links.get("span_id") or "")
        if kind == "span_start":
            self._start_lane(event, links, span_id)
        if kind in ("span_start", "span_end") or span_id in self._skipped_spans:
            return
        lane = self._lanes.setdefault(span_id, _Lane(span_id))
        if kind == "message":
            self._add_message(event, lane)
        elif kind == "tool_use":
            self._add_call(event, links, lane)
        elif kind == "tool_result":
            self._add_result(event, links, lane)
        elif kind == "annotation":
            cwd = get_data(event).get("cwd")
            if isinstance(cwd, str) and len(cwd) > 1 and cwd not in self._folders:
                self._folders.append(cwd)

    def _start_lane(self, event: Event, links: Mapping[str, Any], span_id: str) -> None:
        data = get_data(event)
        if data.get("kind") in _SKIPPED_SPANS or "branch" in data or not span_id:
            self._skipped_spans.add(span_id)
            self._skipped["branches"] += 1
            return
        call = self._calls.get(str(links.get("call_id") or ""))
        arguments = as_object(call.arguments) if call else {}
        candidates = [arguments.get(name) for name in _PROMPT_ARGUMENTS]
        candidates.append(data.get("spawn_reason"))
        lane = self._lanes.setdefault(span_id, _Lane(span_id))
        lane.spawn_prompt = next(
            (text for text in candidates if isinstance(text, str) and text), ""
        )

    def _add_message(self, event: Event, lane: _Lane) -> None:
        role = event.get("role")
        texts = _get_texts(event)
        if role == "assistant":
            step = self._get_current_step(event, lane)
            step.parts += [text for text in texts if text != MEDIA]
        elif role == "user":
            lane.end_response()
            actor_kind = self._actor_kinds.get(str(event.get("actor_id")))
            if actor_kind in ("system", "tool"):
                lane.injected += texts
            else:
                lane.prompts += texts
        else:
            return
        for text in texts:
            self._check_markers(text)

    def _add_call(self, event: Event, links: Mapping[str, Any], lane: _Lane) -> None:
        data = get_data(event)
        record_id = str(links.get("call_id") or f"call_{len(self._calls) + 1:06d}")
        tool = str(data.get("tool_name") or "tool")
        native_id = str(data.get("native_call_id"))
        if tool == "exec":
            lane.has_script = True
        # Calls that a script of the agent makes, or the provider by itself, are in no response of
        # the model, and their results in no request.
        is_script_call = lane.has_script and native_id.startswith(_SCRIPT_CALL_PREFIX)
        if is_script_call or native_id.startswith(_PROVIDER_CALL_PREFIXES):
            self._foreign_calls.add(record_id)
            return
        call_id = _get_native_id(data) or record_id
        call = Call(call_id, tool, data.get("arguments", {}))
        self._check_markers(msgspec.json.encode(call.arguments).decode())
        self._calls[record_id] = call
        step = self._get_current_step(event, lane)
        step.parts.append(call)

    def _add_result(self, event: Event, links: Mapping[str, Any], lane: _Lane) -> None:
        record_id = str(links.get("call_id"))
        if record_id in self._foreign_calls:
            return
        call = self._calls.get(record_id)
        if call is None:
            self._skipped["results without a call"] += 1
            return
        lane.end_response()
        is_known = get_data(event).get("missing_result") is not True
        text = "\n".join(_get_texts(event, keep_blank=True)) if is_known else ""
        self._check_markers(text)
        lane.results.append(Result(call, text, is_known))

    def _check_markers(self, text: str) -> None:
        if MARKER_START in text or TRUNCATION_MARKER in text:
            self._has_markers = True

    def _get_current_step(self, event: Event, lane: _Lane) -> Step:
        """Return the current response of a lane; a new one if there was input since the last."""
        if lane.current is not None:
            return lane.current
        prompts = lane.prompts
        injected = lane.injected
        # A step must be recognized by something: without a prompt and results by what the runtime
        # injected, and the first one of a subagent by the prompt in the call that started it.
        if not prompts and not lane.results:
            prompts = injected
            injected = []
        if not prompts and not lane.results and lane.last is None and lane.spawn_prompt:
            prompts = [lane.spawn_prompt]
        seq = event.get("seq")
        step = Step(
            number=0,
            seq=seq if type(seq) is int else 0,
            lane=lane.name,
            prompts=prompts,
            injected=injected,
            results=lane.results,
            parts=[],
            previous=lane.last,
            is_open=not prompts and not lane.results,
        )
        lane.current = step
        lane.prompts = []
        lane.injected = []
        lane.results = []
        self._steps.append(step)
        return step

    def finish(self) -> Recording:
        """Return the recording without lanes whose first request is unknown."""
        lanes: dict[str, list[Step]] = {}
        for step in self._steps:
            lanes.setdefault(step.lane, []).append(step)
        for name, steps in list(lanes.items()):
            if name and steps[0].is_open:
                self._skipped["answers of subagents without a prompt"] += len(steps)
                del lanes[name]
        kept = [step for step in self._steps if step.lane in lanes]
        for number, step in enumerate(kept, 1):
            step.number = number
        _make_call_ids_unique(lanes)
        return Recording(self._title, kept, lanes, self._folders, self._skipped, self._has_markers)


def _make_call_ids_unique(lanes: Mapping[str, list[Step]]) -> None:
    """Replace the call ids of a lane where several calls have the same."""
    for steps in lanes.values():
        calls: list[Call] = []
        for step in steps:
            calls.extend(step.calls)
        ids = {call.id for call in calls}
        if len(ids) == len(calls):
            continue
        for number, call in enumerate(calls, 1):
            call.id = f"call_{number:06d}"


def _get_native_id(data: Mapping[str, Any]) -> str:
    """Return the native id of a call, where every protocol accepts it."""
    native_id = data.get("native_call_id")
    if not isinstance(native_id, str) or not native_id.isascii():
        return ""
    if not native_id.replace("-", "").replace("_", "").isalnum():
        return ""
    if len(native_id) <= _MAX_CALL_ID:
        return native_id
    return ""


def _get_texts(event: Event, *, keep_blank: bool = False) -> list[str]:
    """Return the texts of a message, one per block; a cut in a text becomes a marker."""
    content = as_object(event.get("content"))
    text = content.get("text")
    data = content.get("data")
    if isinstance(text, str):
        if as_object(data).get("truncated") is True:
            return [text.replace(_ELLIPSIS, TRUNCATION_MARKER)]
        if keep_blank or text.strip():
            return [text]
        return []
    blocks = data if isinstance(data, list) else [data]
    has_media = any(map(is_media, blocks))
    if not keep_blank:
        # A message is compared by its texts; one without any is known by its images.
        blocks = [block for block in blocks if isinstance(block, str) or "text" in as_object(block)]
    texts = [flatten_text(block) for block in blocks]
    texts = [text for text in texts if text.strip()]
    if not texts and has_media and not keep_blank:
        return [MEDIA]
    return texts
