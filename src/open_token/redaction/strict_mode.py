"""Mask what `redact=strict` hides as a whole: system and developer prompts, and tool outputs."""

from collections.abc import Callable
from typing import Any

from open_token.model.document import Content, Event
from open_token.redaction.markers import MARKER
from open_token.redaction.ruleset import Rule

MaskText = Callable[[str, str], str | None]
"""Return the marker for a text of a type; None where the text is allowed to stay."""
EncodeValue = Callable[[Any], str]

WHOLE_TEXT_RULES = {
    "system_prompt": Rule("system-prompt", "system_prompt", "strict", "", ""),
    "tool_output": Rule("tool-output", "tool_output", "strict", "", ""),
}
"""By type; allow-lists and reports refer to them as to other rules."""
_PROMPT_ROLES = ("system", "developer")
_MISSING_RESULT = {"missing_result": True}
_KEYS_ABOUT_TEXT = {"truncated", "original_length", "summary"}
_OUTPUT_KEYS = {"native": "value", "repeated_result": "output"}
_NATIVE_SIBLINGS = ("more", "then", "about")
"""Siblings of the value of a native annotation: following records, other files, facts about it."""


def is_masked_whole(event: Event) -> bool:
    """Return whether the whole content of an event is masked."""
    if event.get("type") == "tool_result" or event.get("role") in _PROMPT_ROLES:
        return True
    return _get_output_key(event) is not None


def mask_whole_text(event: Event, mask_text: MaskText, encode: EncodeValue) -> Event:
    """Return the event with one marker as its content, unless that is allowed to stay."""
    content = event.get("content")
    if not isinstance(content, dict):
        return event
    key = _get_output_key(event)
    if key is not None:
        return _mask_annotation(event, content, key, mask_text, encode)
    type_name = "system_prompt" if event.get("role") in _PROMPT_ROLES else "tool_output"
    new = _mask_content(content, type_name, mask_text, encode)
    return event if new is content else {**event, "content": new}


def _mask_annotation(
    event: Event, content: Content, key: str, mask_text: MaskText, encode: EncodeValue
) -> Event:
    data = content["data"]
    siblings = {}
    if key == "value":
        siblings = {name: data[name] for name in _NATIVE_SIBLINGS if name in data}
    output = {key: data[key], **siblings} if siblings else data[key]
    masked = _mask_value(output, "tool_output", mask_text, encode)
    if masked is output:
        return event
    rest = {name: value for name, value in data.items() if name not in siblings}
    return {**event, "content": {**content, "data": {**rest, key: masked}}}


def _get_output_key(event: Event) -> str | None:
    """Return the key under which an annotation repeats a tool output."""
    content: Any = event.get("content")
    if event.get("type") != "annotation" or not isinstance(content, dict):
        return None
    data = content.get("data")
    if not isinstance(data, dict):
        return None
    key = _OUTPUT_KEYS.get(str(data.get("kind")))
    return key if key in data else None


def _mask_content(content: Content, type: str, mask_text: MaskText, encode: EncodeValue) -> Content:
    new: Content = {**content}
    is_changed = False
    if "text" in content:
        new["text"] = _mask_value(content["text"], type, mask_text, encode)
        is_changed = new["text"] is not content["text"]
    data = content.get("data")
    if data in (None, _MISSING_RESULT) or _is_masked(data) or _is_about_text(content):
        return new if is_changed else content
    masked = _mask_value(data, type, mask_text, encode)
    if masked is not data:
        new["data"] = {"redacted": masked}
        is_changed = True
    return new if is_changed else content


def _is_about_text(content: Content) -> bool:
    """Return whether the data next to a text only says how the text was made."""
    data = content.get("data")
    return "text" in content and isinstance(data, dict) and data.keys() <= _KEYS_ABOUT_TEXT


def _mask_value(value: Any, type: str, mask_text: MaskText, encode: EncodeValue) -> Any:
    text = value if isinstance(value, str) else encode(value)
    if not text or MARKER.fullmatch(text) or _is_masked(value):
        return value
    marker = mask_text(type, text)
    return value if marker is None else marker


def _is_masked(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"redacted"}:
        return False
    return MARKER.fullmatch(str(value["redacted"])) is not None
