"""What `redact=strict` masks as a whole: system and developer prompts, and the outputs of tools."""

from collections.abc import Callable
from typing import Any

from open_token.model import Content, Event
from open_token.passes._marks import MARK
from open_token.passes._rules import Rule

Hide = Callable[[str, str], str | None]
"""What stands for a text of a kind: its mark; None where it is allowed to stay."""
WHOLE = {
    "system_prompt": Rule("system-prompt", "system_prompt", "strict", "", ""),
    "tool_output": Rule("tool-output", "tool_output", "strict", "", ""),
}
"""By type; allow-lists and reports name them as they name rules."""
_PROMPTS = ("system", "developer")
_MISSING = {"missing_result": True}
_ABOUT_TEXT = {"truncated", "original_length", "summary"}
_OUTPUT_KEYS = {"native": "value", "repeated_result": "output"}
_BESIDE = ("more", "then", "about")
"""What stands beside the value of a native annotation: records that follow, those of other files,
facts about it."""


def is_hidden(event: Event) -> bool:
    """Whether the whole content of an event is masked."""
    return (
        event.get("type") == "tool_result"
        or event.get("role") in _PROMPTS
        or _output_key(event) is not None
    )


def hidden(event: Event, hide: Hide, encode: Callable[[Any], str]) -> Event:
    """The event with its content as one mark, unless that is allowed to stay."""
    content = event.get("content")
    key = _output_key(event)
    if not isinstance(content, dict):
        return event
    if key is not None:
        data = content["data"]
        beside = {name: data[name] for name in _BESIDE if key == "value" and name in data}
        masked = _mark_of(
            {key: data[key], **beside} if beside else data[key], "tool_output", hide, encode
        )
        if masked is data[key]:
            return event
        left = {name: value for name, value in data.items() if name not in beside}
        return {**event, "content": {**content, "data": {**left, key: masked}}}
    kind = "system_prompt" if event.get("role") in _PROMPTS else "tool_output"
    new = _content(content, kind, hide, encode)
    return event if new is content else {**event, "content": new}


def _output_key(event: Event) -> str | None:
    """The key under which an annotation repeats what a tool gave out."""
    content: Any = event.get("content")
    data = (
        content.get("data")
        if event.get("type") == "annotation" and isinstance(content, dict)
        else None
    )
    if not isinstance(data, dict):
        return None
    key = _OUTPUT_KEYS.get(str(data.get("kind")))
    return key if key in data else None


def _content(content: Content, type: str, hide: Hide, encode: Callable[[Any], str]) -> Content:
    new: Content = {**content}
    if "text" in content:
        new["text"] = _mark_of(content["text"], type, hide, encode)
    data = content.get("data")
    if data not in (None, _MISSING) and not _is_marked(data) and not _is_about_text(content):
        masked = _mark_of(data, type, hide, encode)
        new["data"] = data if masked is data else {"redacted": masked}
    return content if all(value is content[name] for name, value in new.items()) else new  # type: ignore[literal-required]


def _is_about_text(content: Content) -> bool:
    """Data beside a text that only says how the text was made."""
    data = content.get("data")
    return "text" in content and isinstance(data, dict) and data.keys() <= _ABOUT_TEXT


def _mark_of(value: Any, type: str, hide: Hide, encode: Callable[[Any], str]) -> Any:
    text = value if isinstance(value, str) else encode(value)
    if not text or MARK.fullmatch(text) or _is_marked(value):
        return value
    mark = hide(type, text)
    return value if mark is None else mark


def _is_marked(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"redacted"}
        and MARK.fullmatch(str(value["redacted"])) is not None
    )
