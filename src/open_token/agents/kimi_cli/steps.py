"""What both logs of Kimi share: content parts, token counts, times and the steps of the model."""

from dataclasses import dataclass
from typing import Any

from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Usage

_MEDIA_KINDS = {"image_url": "image", "audio_url": "audio", "video_url": "video"}
_USUAL_STOPS = ("end_turn", "tool_use", "tool_calls", "stop", "completed")
Body = dict[str, Any]


def build_content(value: Any) -> str | list[Any]:
    """Return a single text as it is, anything else as a list of blocks."""
    if isinstance(value, str):
        return value
    if value is None or value == []:
        return ""
    parts = value if isinstance(value, list) else [value]
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("type") == "text":
        text = parts[0].get("text")
        if isinstance(text, str):
            return text
    return [_build_block(part) for part in parts]


def _build_block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in _MEDIA_KINDS:
        return part
    # The key is that of the type, in the event log in camel case.
    media = part.get(kind, part.get(kind.replace("_url", "Url")))
    url = media.get("url") if isinstance(media, dict) else media
    return build_media_url_block(url, _MEDIA_KINDS[kind]) if isinstance(url, str) else part


def parse_usage(value: Any) -> Usage | None:
    """Return token counts; the input is counted in three parts, in either spelling."""
    if not isinstance(value, dict):
        return None
    fresh = value.get("inputOther", value.get("input_other"))
    read = value.get("inputCacheRead", value.get("input_cache_read"))
    written = value.get("inputCacheCreation", value.get("input_cache_creation"))
    known = [count for count in (fresh, read, written) if type(count) is int]
    return build_usage(
        input_tokens=sum(known) if known else None,
        output_tokens=value.get("output"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


class Clock:
    """Formats milliseconds since 1970; consecutive records are mostly of the same second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def format_time(self, value: Any) -> str | None:
        """Return the timestamp of a record; None if it has none."""
        if type(value) is not int:
            return from_epoch(value, 0.001) or to_utc(value)
        second, milliseconds = divmod(value, 1000)
        if second != self._second:
            text = from_epoch(second)
            if text is None:
                return None
            self._second = second
            self._text = text[:-1]
        return f"{self._text}.{milliseconds:03d}Z" if milliseconds else f"{self._text}Z"


@dataclass(slots=True)
class Step:
    """One answer of the model: its content is in several records, its usage comes after them."""

    thread: Thread
    first_event: str | None = None
    """The id of its first event that is no reasoning; it carries the usage."""
    reasoning: Event | None = None
    usage: Usage | None = None

    def add_part(self, part: Any, ts: str | None) -> None:
        """Add a piece of text or reasoning."""
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "think":
            text = as_text(part.get("think")) or as_text(part.get("text"))
            event = self.thread.add_reasoning(text, ts=ts)
            self.reasoning = self.reasoning or event
            return
        content = build_content([part])
        if content != "":
            event = self.thread.add_message("assistant", content, self.thread.model_actor, ts=ts)
            self.first_event = self.first_event or event["id"]

    def add_call(
        self,
        call_id: str | None,
        tool: str | None,
        arguments: Any,
        ts: str | None,
        group: str,
        description: str | None = None,
    ) -> str:
        """Add a call, with the description that the person was shown; return its key."""
        start = self.thread.draft.count
        key = self.thread.add_tool_call(
            call_id,
            tool or "tool",
            {} if arguments is None else arguments,
            ts=ts,
            group=group,
            extra={"description": description} if description else None,
        )
        if self.thread.draft.count > start:
            self.first_event = self.first_event or f"evt_{start + 1:06d}"
        return key

    def set_usage(self, usage: Usage | None, ts: str | None) -> None:
        """Set the usage of the answer, which may be reported twice."""
        if not usage or usage == self.usage:
            return
        self.usage = usage
        if self.first_event:
            self.thread.draft.set_usage(self.first_event, usage)
        elif self.reasoning is not None:
            self.thread.draft.set_usage(self.reasoning, usage)
        else:
            self.thread.add_annotation({"kind": "usage"}, ts=ts, usage=usage)

    def set_stop_reason(self, reason: Any, ts: str | None) -> None:
        """Annotate why the answer ended, if that is unusual."""
        if isinstance(reason, str) and reason not in _USUAL_STOPS:
            self.thread.add_annotation({"kind": "stop", "reason": reason}, ts=ts)
