"""Messages as dictionaries, in the shapes that traces and frameworks share, turned into the one
form."""

from typing import Any

import msgspec

from open_token.formats.shared.messages import (
    RESULTS,
    Body,
    Call,
    Part,
    Result,
    Said,
    Text,
    Thought,
    call_of,
    first,
    output_of,
    parts_of,
    role_of,
)
from open_token.formats.shared.responses_content import arguments, word

_PLAIN_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_decode = msgspec.json.Decoder().decode


def parsed(value: Any) -> Any:
    """JSON that stands in a text, parsed; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return _decode(value.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return value


def said(message: Any) -> Said | None:
    """A message with a role: as OpenAI, Anthropic, AG-UI or the OpenTelemetry conventions write
    it."""
    if isinstance(message, str):
        return Said("user", [Text(message)])
    if not isinstance(message, dict) or not (role := role_of(message.get("role"))):
        return None
    made = Said(role, [], name=word(message.get("name")), model=word(message.get("model")))
    content = (
        message.get("parts") if isinstance(message.get("parts"), list) else message.get("content")
    )
    if role == "tool":
        made.parts = _results(message, content, made.odd)
        return made
    made.parts = [*_thoughts(message), *parts_of(content, made.odd)]
    if refusal := word(message.get("refusal")):
        made.parts.append(Text(refusal))
    if isinstance(audio := message.get("audio"), dict):
        made.parts += parts_of([{"type": "audio", **audio}], made.odd)
    made.parts += calls_of(
        message, {part.id for part in made.parts if isinstance(part, Call) and part.id}
    )
    return made


def _thoughts(message: Body) -> list[Part]:
    for name in _PLAIN_THOUGHTS:
        if plain := word(message.get(name)):
            return [Thought(plain)]
    return []


def calls_of(message: Body, known: set[str], name: str | None = None) -> list[Part]:
    """The calls beside the content, but for those that the content shows too; under one name, or
    under any."""
    given = message.get(name) if name else first(message, "tool_calls", "toolCalls")
    calls = (
        [call_of(call) for call in given if isinstance(call, dict)]
        if isinstance(given, list)
        else []
    )
    legacy = None if name else message.get("function_call")
    if isinstance(legacy, dict):
        calls.append(
            Call(None, word(legacy.get("name")) or "tool", arguments(legacy.get("arguments")))
        )
    return [call for call in calls if call.id not in known]


def _results(message: Body, content: Any, odd: list[Any]) -> list[Part]:
    """A message of a tool; the conventions of OpenTelemetry wrap each output in a part."""
    native = word(first(message, "tool_call_id", "toolCallId", "id"))
    tool = word(message.get("name"))
    kinds = (
        [block.get("type") if isinstance(block, dict) else None for block in content]
        if isinstance(content, list)
        else []
    )
    if kinds and all(isinstance(kind, str) and kind in RESULTS for kind in kinds):
        made = [part for part in parts_of(content, odd) if isinstance(part, Result)]
        return [part._replace(id=part.id or native, tool=part.tool or tool) for part in made]
    error = message.get("error")
    facts = (
        {"is_error": True, **({"error": error} if isinstance(error, str) else {})}
        if error
        else None
    )
    return [Result(native, output_of(content), tool, facts)]


def saids(value: Any, unknown: list[Any]) -> list[Said]:
    """All messages of a list, also one inside another; what is no message is put aside."""
    value = parsed(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    made = []
    for item in value if isinstance(value, list) else [value]:
        if (message := said(item)) is not None:
            made.append(message)
        elif item is not None:
            unknown.append(item)
    return made
