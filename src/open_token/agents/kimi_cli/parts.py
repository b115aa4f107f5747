"""Content parts and token counts as Kimi writes them, and the step of the model that they belong
to."""

from dataclasses import dataclass
from typing import Any

from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Usage

_MEDIA = {"image_url": "image", "audio_url": "audio", "video_url": "video"}
_USUAL = (None, "end_turn", "tool_use", "tool_calls", "stop", "completed")
Body = dict[str, Any]


def content(value: Any) -> str | list[Any]:
    """What a message or an output holds: one text as it is, anything else as a list of blocks."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [] if value is None else [value]
    only = parts[0] if len(parts) == 1 and isinstance(parts[0], dict) else {}
    if only.get("type") == "text" and isinstance(only.get("text"), str):
        return str(only["text"])
    return [_block(part) for part in parts] if parts else ""


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    sort = _MEDIA.get(kind) if isinstance(kind, str) else None
    held = part.get(str(kind), part.get(_camel(str(kind)))) if sort else None
    url = held.get("url") if isinstance(held, dict) else held
    return build_media_url_block(url, sort) if sort and isinstance(url, str) else part


def _camel(name: str) -> str:
    return name.replace("_url", "Url")


def usage(value: Any) -> Usage | None:
    """Token counts; the prompt is told in three parts, in either spelling."""
    if not isinstance(value, dict):
        return None
    fresh = _either(value, "inputOther", "input_other")
    read = _either(value, "inputCacheRead", "input_cache_read")
    written = _either(value, "inputCacheCreation", "input_cache_creation")
    known = [count for count in (fresh, read, written) if type(count) is int]
    return build_usage(
        input_tokens=sum(known) if known else None,
        output_tokens=value.get("output"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _either(value: Body, *names: str) -> Any:
    return next((value[name] for name in names if name in value), None)


class Clock:
    """Milliseconds since 1970 as timestamps; most records are of the same second as the one
    before."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def time(self, value: Any) -> str | None:
        """The timestamp of a record; None when it has none."""
        if type(value) is not int:
            return from_epoch(value, 0.001) or to_utc(value)
        second, rest = divmod(value, 1000)
        if second != self._second:
            made = from_epoch(second)
            if made is None:
                return None
            self._second, self._text = second, made[:-1]
        return f"{self._text}.{rest:03d}Z" if rest else f"{self._text}Z"


@dataclass(slots=True)
class Step:
    """One answer of the model: what it says stands in several records, and what it cost comes
    behind them."""

    strand: Thread
    first: str | None = None
    """The id of its first event that is no thought."""
    thought: Event | None = None
    usage: Usage | None = None

    def part(self, part: Any, ts: str | None) -> None:
        """A piece of what the model says or thinks."""
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "think":
            event = self.strand.add_reasoning(
                as_text(part.get("think")) or as_text(part.get("text")), ts=ts
            )
            self.thought = self.thought or event
        elif (said := content([part])) != "":
            event = self.strand.add_message("assistant", said, self.strand.model_actor, ts=ts)
            self.first = self.first or event["id"]

    def add_tool_call(
        self,
        native: str | None,
        tool: str | None,
        arguments: Any,
        ts: str | None,
        group: str,
        about: str | None = None,
    ) -> str:
        """A call in this answer, and what the person was told that it is for."""
        place = self.strand.draft.count
        given = {} if arguments is None else arguments
        extra = {"description": about} if about else None
        key = self.strand.add_tool_call(
            native, tool or "tool", given, ts=ts, group=group, extra=extra
        )
        if self.strand.draft.count > place:
            self.first = self.first or f"evt_{place + 1:06d}"
        return key

    def spend(self, spent: Usage | None, ts: str | None) -> None:
        """What the answer cost."""
        if not spent or spent == self.usage:
            return
        self.usage = spent
        if self.first:
            self.strand.draft.set_usage(self.first, spent)
        elif self.thought is not None:
            self.strand.draft.set_usage(self.thought, spent)
        else:
            self.strand.add_annotation({"kind": "usage"}, ts=ts, usage=spent)

    def end(self, reason: Any, ts: str | None) -> None:
        """Why the answer ended, when that is unusual."""
        if isinstance(reason, str) and reason not in _USUAL:
            self.strand.add_annotation({"kind": "stop", "reason": reason}, ts=ts)
