"""A recorded conversation as the model's answers, each with what it was an answer to."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from open_token.model.document import Event, Export
from open_token.redaction.markers import MARKER_START
from open_token.replay.plain import MEDIA, flat, is_media, object_of

_ASIDE = ("abandoned_branch", "branch", "scorer")
_NESTED = "exec-"
"""How Codex names the calls that a script of the model made: the model itself called `exec`
alone."""
_BY_PROVIDER = ("srvtoolu_", "ws_")
"""How the ids of calls begin that a provider carries out itself: no agent is asked to."""
CUT = "[TRUNCATED]"
"""Stands for what an export took out of a long text."""
_GAP = "…"
_PROMPT_NAMES = ("prompt", "task", "objective", "message", "instructions", "query", "description")


class Call(msgspec.Struct):
    """One call that the model made."""

    id: str
    """The runtime's own, where it is known and tells calls apart."""
    tool: str
    arguments: Any


class Result(msgspec.Struct):
    """What a call gave back; unknown where the record lacks it."""

    call: Call
    text: str
    is_known: bool = True


class Step(msgspec.Struct):
    """One answer of the model, and what was new in the request before it."""

    number: int
    seq: int
    lane: str
    """The span of a subagent; empty for the conversation itself."""
    prompts: list[str]
    others: list[str]
    """What stands in the user's place and was not typed; it need not come again."""
    results: list[Result]
    parts: list[str | Call]
    before: "Step | None" = None
    is_open: bool = False
    """Nothing tells what it was asked with: it goes to the first request that fits nowhere else."""

    @property
    def calls(self) -> list[Call]:
        """Its calls."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def text(self) -> str:
        """Its words."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))


class Recording(msgspec.Struct):
    """All steps, by number and by lane, and what of the record cannot be asked for."""

    title: str
    steps: list[Step]
    lanes: dict[str, list[Step]]
    folders: list[str]
    behind: Counter[str]
    has_marks: bool = False

    @property
    def has_calls(self) -> bool:
        """Whether the model called any tool."""
        return any(step.calls for step in self.steps)


def recording_of(document: Export) -> Recording:
    """The steps of a document."""
    scribe = _Scribe(document)
    for event in document.get("events", []):
        scribe.take(event)
    return scribe.finish()


class _Lane(msgspec.Struct):
    """The open ends of one lane: what was asked since the last answer, and the answer that is being
    told."""

    name: str
    prompts: list[str] = []
    others: list[str] = []
    results: list[Result] = []
    step: Step | None = None
    last: Step | None = None
    spawn: str = ""
    has_script: bool = False


class _Scribe:
    """Reads events one by one."""

    def __init__(self, document: Export) -> None:
        people = document.get("participants", [])
        self._kinds = {str(person.get("actor_id")): str(person.get("kind")) for person in people}
        self._title = str(object_of(document.get("conversation")).get("title") or "")
        self._lanes: dict[str, _Lane] = {}
        self._left: set[str] = set()
        self._calls: dict[str, Call] = {}
        self._nested: set[str] = set()
        self._steps: list[Step] = []
        self._folders: list[str] = []
        self._behind: Counter[str] = Counter()
        self._has_marks = False

    def take(self, event: Event) -> None:
        """One more event."""
        kind, links = event.get("type"), object_of(event.get("links"))
        span = str(links.get("span_id") or "")
        if kind == "span_start":
            self._begin(event, links, span)
        if span in self._left or kind in ("span_start", "span_end"):
            return
        lane = self._lanes.setdefault(span, _Lane(span))
        if kind == "message":
            self._message(event, lane)
        elif kind == "tool_use":
            self._call(event, links, lane)
        elif kind == "tool_result":
            self._result(event, links, lane)
        elif kind == "annotation":
            folder = _data(event).get("cwd")
            if isinstance(folder, str) and len(folder) > 1 and folder not in self._folders:
                self._folders.append(folder)

    def _begin(self, event: Event, links: Mapping[str, Any], span: str) -> None:
        data = _data(event)
        if data.get("kind") in _ASIDE or "branch" in data or not span:
            self._left.add(span)
            self._behind["branches"] += 1
            return
        call = self._calls.get(str(links.get("call_id") or ""))
        given = object_of(call.arguments) if call else {}
        words = (given.get(name) for name in _PROMPT_NAMES)
        spawn = next(
            (word for word in (*words, data.get("spawn_reason")) if isinstance(word, str) and word),
            "",
        )
        self._lanes.setdefault(span, _Lane(span)).spawn = spawn

    def _message(self, event: Event, lane: _Lane) -> None:
        role, texts = event.get("role"), _texts(event)
        if role == "assistant":
            self._open(event, lane).parts.extend(
                self._kept(text) for text in texts if text != MEDIA
            )
        elif role == "user":
            self._close(lane)
            typed = self._kinds.get(str(event.get("actor_id"))) not in ("system", "tool")
            (lane.prompts if typed else lane.others).extend(map(self._kept, texts))

    def _call(self, event: Event, links: Mapping[str, Any], lane: _Lane) -> None:
        data = _data(event)
        name = str(links.get("call_id") or f"call_{len(self._calls) + 1:06d}")
        call = Call(
            _native(data) or name, str(data.get("tool_name") or "tool"), data.get("arguments", {})
        )
        lane.has_script = lane.has_script or call.tool == "exec"
        native = str(data.get("native_call_id"))
        if native.startswith(_BY_PROVIDER) or (lane.has_script and native.startswith(_NESTED)):
            self._nested.add(name)
            return
        self._has_marks = self._has_marks or _has_marks(
            msgspec.json.encode(call.arguments).decode()
        )
        self._calls[name] = call
        self._open(event, lane).parts.append(call)

    def _result(self, event: Event, links: Mapping[str, Any], lane: _Lane) -> None:
        name = str(links.get("call_id"))
        call = self._calls.get(name)
        if name in self._nested:
            return
        if call is None:
            self._behind["results without a call"] += 1
            return
        self._close(lane)
        is_known = _data(event).get("missing_result") is not True
        found = "\n".join(_texts(event, blank=True)) if is_known else ""
        lane.results.append(Result(call, self._kept(found), is_known))

    def _kept(self, text: str) -> str:
        self._has_marks = self._has_marks or _has_marks(text)
        return text

    def _open(self, event: Event, lane: _Lane) -> Step:
        """The step that is being told; a new one if something was asked since the last."""
        if lane.step is None:
            prompts, others = lane.prompts, lane.others
            if not prompts and not lane.results:
                prompts, others = others, []
            if not prompts and not lane.results and lane.last is None and lane.spawn:
                prompts = [lane.spawn]
            seq = event.get("seq")
            step = Step(
                0,
                seq if type(seq) is int else 0,
                lane.name,
                prompts,
                others,
                lane.results,
                [],
                lane.last,
            )
            step.is_open = not prompts and not lane.results
            lane.step, lane.prompts, lane.others, lane.results = step, [], [], []
            self._steps.append(step)
        return lane.step

    def _close(self, lane: _Lane) -> None:
        if lane.step is not None:
            lane.last, lane.step = lane.step, None

    def finish(self) -> Recording:
        """The recording; lanes that nobody could ask for are left behind."""
        lanes: dict[str, list[Step]] = {}
        for step in self._steps:
            lanes.setdefault(step.lane, []).append(step)
        for name in [name for name, steps in lanes.items() if name and steps[0].is_open]:
            self._behind["answers of subagents without a prompt"] += len(lanes.pop(name))
        kept = [step for step in self._steps if step.lane in lanes]
        for number, step in enumerate(kept, 1):
            step.number = number
        _tell_apart(lanes)
        return Recording(self._title, kept, lanes, self._folders, self._behind, self._has_marks)


def _tell_apart(lanes: Mapping[str, list[Step]]) -> None:
    """Give calls ids of our own where those of the runtime are the same for several."""
    for steps in lanes.values():
        calls = [call for step in steps for call in step.calls]
        if len({call.id for call in calls}) < len(calls):
            for number, call in enumerate(calls, 1):
                call.id = f"call_{number:06d}"


def _native(data: Mapping[str, Any]) -> str:
    """A runtime's own id, where every wire takes it."""
    found = data.get("native_call_id")
    plain = (
        isinstance(found, str)
        and found.isascii()
        and found.replace("-", "").replace("_", "").isalnum()
    )
    return str(found) if plain and 0 < len(str(found)) <= 64 else ""


def _data(event: Event) -> dict[str, Any]:
    return object_of(object_of(event.get("content")).get("data"))


def _texts(event: Event, *, blank: bool = False) -> list[str]:
    """The words of a message, each block by itself; a text that was cut has a mark there."""
    content = object_of(event.get("content"))
    text, data = content.get("text"), content.get("data")
    if isinstance(text, str):
        if object_of(data).get("truncated") is True:
            return [text.replace(_GAP, CUT)]
        return [text] if blank or text.strip() else []
    blocks = data if isinstance(data, list) else [data]
    if blank:
        return [words for block in blocks if (words := flat(block)).strip()]
    # A message says what its texts say; one without any is known by its images.
    texts = [
        flat(block) for block in blocks if isinstance(block, str) or "text" in object_of(block)
    ]
    found = [words for words in texts if words.strip()]
    return found or ([MEDIA] if any(map(is_media, blocks)) else [])


def _has_marks(text: str) -> bool:
    return MARKER_START in text or CUT in text
