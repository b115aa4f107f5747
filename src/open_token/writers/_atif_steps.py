"""The steps of an ATIF trajectory: what was heard, and each answer with its calls and what came
back."""

from typing import Any

from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Participant
from open_token.writers._blocks import AS_JSON, Media, blocks, spelled
from open_token.writers._runs import (
    Answer,
    Body,
    Call,
    Heard,
    Losses,
    Run,
    blocks_of,
    data_of,
    first_word,
    text_of,
)

_IMAGES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
_SOUNDS = (
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
)
_REFERENCE = "subagent_trajectory_ref"
_CALL = ("tool_name", "arguments", "native_call_id")
_ABOUT = ("kind", "agent_id", "session_id", "subagent_type", "model", "file")
_METRICS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cache_read_tokens",
}
_MORE_METRICS = {
    "reasoning_tokens": "reasoning_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class Steps:
    """Makes the steps of one run."""

    def __init__(
        self, run: Run, people: dict[str, Participant], names: dict[int, str], losses: Losses
    ) -> None:
        self._run = run
        self._people: dict[str, Any] = {**people}
        self._names = names
        """The subagents that are embedded, by the identity of their runs."""
        self._losses = losses
        self._is_one = (
            len({self._people[item.actor]["name"] for item in run.answers if item.actor in people})
            < 2
        )
        self._steps: list[Body] = []
        self._last: Body | None = None
        """The last step of the agent."""
        self._before: list[dict[str, int]] = []
        """Tokens that were counted before its first step."""

    def all(self) -> list[Body]:
        """Every step, in order."""
        for item in self._run.items:
            if isinstance(item, Heard):
                self._heard(item)
            elif isinstance(item, Run):
                if refs := self._refs([item]):
                    self._observed(item.start, {_REFERENCE: refs})
            elif item.is_empty:
                self._spent(item.usage)
            else:
                self._answer(item)
        if any(self._before):
            self._answer(Answer(""))  # all that is known of the agent is what it took
        return self._steps

    def _add(self, event: Event | None, source: str, message: str | list[Body]) -> Body:
        step: Body = {"step_id": len(self._steps) + 1}
        if event is not None and (ts := to_utc(event.get("ts"))):
            step["timestamp"] = ts
        step |= {"source": source, "message": message}
        self._steps.append(step)
        return step

    def _observed(self, event: Event | None, result: Body) -> None:
        """What came without a call of this run: in a step of the system that says nothing."""
        self._add(event, "system", "")["observation"] = {"results": [result]}

    def _heard(self, item: Heard) -> None:
        event, role = item.event, item.event.get("role")
        if event.get("type") == "tool_result":
            self._losses.changed(
                "orphan-result", event, "a result without its call, in a step of its own"
            )
            self._observed(event, {"content": self._content(event)})
            return
        step = self._add(event, "user" if role == "user" else "system", self._content(event))
        extra: Body = {"role": role} if role not in ("user", "system") else {}
        if role == "user" and event.get("visibility") == "internal" and not self._run.id:
            extra["visibility"] = "internal"
        _beside(step, item.facts, extra)

    def _answer(self, item: Answer) -> None:
        content = self._content(item.words) if item.words else ""
        first = next((event for event in item.events if event.get("ts")), None)
        step = self._last = self._add(first, "agent", content)
        speaker = self._people.get(item.actor, {})
        if model := speaker.get("model"):
            step["model_name"] = model
        if item.thoughts:
            step["reasoning_content"] = "\n\n".join(
                text_of(thought) or "" for thought in item.thoughts
            )
        if item.calls:
            step["tool_calls"] = [_call(call) for call in item.calls]
        if results := [made for call in item.calls if (made := self._result(call)) is not None]:
            step["observation"] = {"results": results}
        waiting, self._before = self._before, []
        for usage in (*waiting, item.usage):
            self._spent(usage)
        extra: Body = {"agent": speaker["name"]} if speaker and not self._is_one else {}
        if any(data_of(thought).get("summary") for thought in item.thoughts):
            extra["reasoning_is"] = "summary"
        _beside(step, item.facts, extra)

    def _result(self, call: Call) -> Body | None:
        """What came back of a call; None when nothing did."""
        refs = self._refs(call.runs)
        if call.result is None and not refs:
            return None
        made: Body = {"source_call_id": call.id}
        if call.result is not None and not (refs and _is_reference(call.result)):
            made["content"] = self._content(call.result)
        if refs:
            made[_REFERENCE] = refs
        if extra := extra_of(call.facts) if call.result is not None else {"missing_result": True}:
            made["extra"] = extra
        return made

    def _refs(self, runs: list[Run]) -> list[Body]:
        """References to subagents that are embedded, or of which the record knows the file."""
        refs = []
        for run in runs:
            name, file = self._names.get(id(run)), first_word(run.about, "file")
            ref = {"trajectory_id": name} if name else {"trajectory_path": file} if file else None
            if ref is not None:
                session, extra = first_word(run.about, "session_id"), extra_of(run.about, _ABOUT)
                refs.append(
                    ref
                    | ({"session_id": session} if session else {})
                    | ({"extra": extra} if extra else {})
                )
        return refs

    def _spent(self, usage: dict[str, int]) -> None:
        """Count tokens for the last step of the agent, or for the first one to come."""
        step = self._last
        if step is None:
            self._before.append(usage)
        elif usage and "metrics" in step:
            step["llm_call_count"] = step.get("llm_call_count", 1) + 1
            count_tokens(step["metrics"], usage)
        elif usage:
            count_tokens(step.setdefault("metrics", {}), usage)

    def _content(self, event: Event) -> str | list[Body]:
        """A text, or parts; what no part can be is told in a text."""
        if (text := text_of(event)) is not None:
            return text
        return [self._part(block, event) for block in blocks(event, self._losses)]

    def _part(self, block: str | Media, event: Event) -> Body:
        if isinstance(block, str):
            return {"type": "text", "text": block}
        if (part := _referred(block)) is not None:
            if "://" not in part["source"]["path"]:
                self._losses.changed(
                    "media-path", event, "a file by the path that the source has; it is not copied"
                )
            return part
        if block.base64 is None:
            self._losses.changed("json-text", event, AS_JSON)
            return {"type": "text", "text": spelled(block.block)}
        self._losses.lost(
            "media", event, "the bytes of an image or a file; a text tells its type, size and hash"
        )
        size, digest = block.block.get("bytes"), block.block.get("sha256")
        facts = [f"{size} bytes"] * (type(size) is int) + [f"sha256 {digest}"] * isinstance(
            digest, str
        )
        return {
            "type": "text",
            "text": f"[left out: {', '.join([block.media_type or block.kind, *facts])}]",
        }


def _referred(media: Media) -> Body | None:
    """An image or a sound in a file or at an address, in the types that ATIF knows."""
    if media.address is None or media.address.startswith("data:"):
        return None
    if media.base64 and not media.address.startswith(("https://", "http://")):
        return None  # a name that only the source's own runtime understands
    ending = media.address.partition("?")[0].rpartition(".")[2].lower()
    mime = media.media_type or _IMAGES.get(ending)
    source: Body = {"media_type": mime, "path": media.address}
    if media.kind == "image" and mime in _IMAGES.values():
        return {"type": "image", "source": source}
    if media.kind != "audio" or mime not in _SOUNDS:
        return None
    seconds = media.block.get("duration_sec")
    lasts = {"duration_sec": seconds} if isinstance(seconds, int | float) and seconds >= 0 else {}
    return {"type": "audio", "source": source | lasts}


def _call(call: Call) -> Body:
    given = call.arguments if isinstance(call.arguments, dict) else {"arguments": call.arguments}
    made: Body = {"tool_call_id": call.id, "function_name": call.tool, "arguments": given}
    if extra := extra_of(data_of(call.event), _CALL):
        made["extra"] = extra
    return made


def _is_reference(result: Event) -> bool:
    """Whether all that came back is the subagent itself: so our reader tells a result that only
    refers to one."""
    held = blocks_of(result)
    return bool(held) and all(
        isinstance(item, dict) and item.get("type") == _REFERENCE for item in held
    )


def extra_of(facts: Body, known: tuple[str, ...] = (), inner: str = "extra") -> Body:
    """What no field is there for; what was an `extra` already is not wrapped again."""
    left = {name: value for name, value in facts.items() if name not in known}
    return left.pop(inner) | left if isinstance(left.get(inner), dict) else left


def count_tokens(metrics: Body, usage: dict[str, int]) -> None:
    """Add tokens to what was counted."""
    for name, counted in _METRICS.items():
        if counted in usage:
            metrics[name] = metrics.get(name, 0) + usage[counted]
    for name, counted in _MORE_METRICS.items():
        if counted in usage:
            extra = metrics.setdefault("extra", {})
            extra[name] = extra.get(name, 0) + usage[counted]


def _beside(step: Body, facts: Body, extra: Body) -> None:
    """What is known of a step beside its words: in fields of its own where ATIF has them."""
    left = dict(facts)
    if left.get("copied_context") is True:
        step["is_copied_context"] = left.pop("copied_context")
    if step["source"] == "agent":
        _beside_answer(step, left)
    if more := extra_of(left) | extra:
        step["extra"] = more


def _beside_answer(step: Body, facts: Body) -> None:
    """What only a step of the agent may have, taken out of the facts."""
    if isinstance(facts.get("reasoning_effort"), str | float):
        step["reasoning_effort"] = facts.pop("reasoning_effort")
    if type(facts.get("cost_usd")) in (int, float):
        step.setdefault("metrics", {})["cost_usd"] = facts.pop("cost_usd")
    if isinstance(facts.get("metrics"), dict):
        metrics = step.setdefault("metrics", {})
        metrics["extra"] = facts.pop("metrics") | metrics.get("extra", {})
    calls = facts.get("llm_call_count")
    if type(calls) is int and (
        calls > 0 or (calls == 0 and not step.keys() & {"metrics", "reasoning_content"})
    ):
        step["llm_call_count"] = facts.pop("llm_call_count")
