"""What instrumentations write otherwise than they mean it: ids that name nothing, summaries as
JSON, a call twice."""

from collections import deque
from typing import Any

from open_token.formats.otel_genai.attributes import is_wordless, kind_of
from open_token.formats.otel_genai.spans import Span
from open_token.formats.shared.fields import as_text, parse_json_text
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
)

_OF_GOOGLE = ("gemini", "vertex_ai", "gcp.gemini", "gcp.vertex_ai", "gcp.gen_ai")


def mended(messages: list[Message], span: Span) -> list[Message]:
    """The messages of one side of a call, so that results name their calls."""
    counted: set[str] | None = (
        set() if str(span.attributes.get("gen_ai.provider.name")) in _OF_GOOGLE else None
    )
    for message in messages:
        message.parts = [_part(part, place, counted) for place, part in enumerate(message.parts)]
    calls = [
        part.id for message in messages for part in message.parts if isinstance(part, ToolCallPart)
    ]
    results = [
        part.id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResultPart)
    ]
    if all(results) and calls and all(call and call.startswith("fc_") for call in calls):
        _in_order(messages)
    return messages


def _part(part: Part, place: int, counted: set[str] | None) -> Part:
    """google-genai 1.3: ids are made of a tool's name and the place in the message, for call and
    result apart."""
    if counted is not None and isinstance(part, ToolCallPart) and part.id == f"{part.tool}_{place}":
        counted.add(part.tool)
        return part._replace(id=None)
    if (
        counted
        and isinstance(part, ToolResultPart)
        and part.id
        and part.id.removesuffix(f"_{place}") in counted
    ):
        return part._replace(id=None, tool=part.id.removesuffix(f"_{place}"))
    if (
        isinstance(part, ReasoningPart)
        and part.text
        and (told := _summary(parse_json_text(part.text)))
    ):
        return ReasoningPart(told, summary=True)
    return part


def _summary(value: Any) -> str | None:
    """OpenLLMetry 0.62: a summary of the Responses API is the JSON of its list."""
    if not isinstance(value, list) or not all(
        isinstance(item, dict) and item.get("type") == "summary_text" for item in value
    ):
        return None
    return "\n\n".join(filter(None, (as_text(item.get("text")) for item in value)))


def _in_order(messages: list[Message]) -> None:
    """OpenLLMetry 0.62: with the Responses API a call has the id of its item, and no result names
    it."""
    calls: deque[str | None] = deque()
    for message in messages:
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                calls.append(part.id)
            elif isinstance(part, ToolResultPart) and calls:
                message.parts[place] = part._replace(id=calls.popleft())


def twins(roots: list[Span]) -> set[int]:
    """Spans without words beside the same call with words: Anthropic's SDK (2.9) writes one of its
    own."""
    found: set[int] = set()
    stack: list[tuple[Span | None, list[Span]]] = [(None, roots)]
    while stack:
        above, beside = stack.pop()
        chats = [span for span in beside if kind_of(span) == "chat"]
        bare = [span for span in chats if is_wordless(span) and not span.children]
        if (
            above is not None
            and len(chats) == len(bare) == 1
            and kind_of(above) == "chat"
            and not is_wordless(above)
        ):
            found.add(id(bare[0]))
        elif bare:
            found |= _covered(chats)
        stack += ((span, span.children) for span in beside if span.children)
    return found


def _covered(chats: list[Span]) -> set[int]:
    """Those without words that ran within one with words; they stand in the order in which they
    began."""
    found: set[int] = set()
    told: Span | None = None
    for span in chats:
        if not is_wordless(span):
            told = span
        elif told and told.trace == span.trace and span.end and told.end and span.end <= told.end:
            found.add(id(span))
    return found
