"""The messages that a span holds: in attributes of JSON, in attributes with numbered names, in
events."""

from collections import Counter
from itertools import takewhile
from typing import Any

from open_token.formats.otel_genai.quirks import mended
from open_token.formats.otel_genai.spans import Moment, Span
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_first,
    parse_arguments,
    parse_json_text,
)
from open_token.formats.shared.message_dicts import parse_message, parse_messages
from open_token.formats.shared.messages import Message, TextPart, ToolCallPart, parse_parts
from open_token.formats.shared.repeated_history import hash_part, split_message

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_DEEPEST = 12
_SIDES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt", "gen_ai.completion")


def asked(span: Span, unknown: list[Any]) -> list[Message]:
    """What the model, or the agent, was given."""
    given = span.attributes
    whole = get_first(given, "gen_ai.input.messages", "ai.prompt.messages", "gen_ai.prompt")
    if whole is None and "pydantic_ai.all_messages" in given:
        whole = _given(parse_json_text(given["pydantic_ai.all_messages"]))
    system = _system(get_first(given, "gen_ai.system_instructions", "gen_ai.system_instruction"))
    forms = [system + (parse_messages(whole, unknown) if whole is not None else [])]
    for prefix in ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts."):
        forms.append(
            [made for item in _numbered(given, prefix) if (made := _flat(item, "user")) is not None]
        )
    moments = [
        moment for moment in (*_kept_events(given), *span.moments) if moment.name != "gen_ai.choice"
    ]
    return mended(
        _united([form for form in (*forms, *_told_by(moments, "input", unknown)) if form]), span
    )


def _given(whole: Any) -> Any:
    """Pydantic AI: the span of an agent has all messages of its run; it was given those before the
    first answer."""
    messages = whole if isinstance(whole, list) else []
    return list(
        takewhile(
            lambda item: not isinstance(item, dict) or item.get("role") != "assistant", messages
        )
    )


def gone_through(span: Span, unknown: list[Any]) -> list[Message]:
    """All that an agent heard and said in its run, where its span has that."""
    whole = span.attributes.get("pydantic_ai.all_messages")
    return mended(parse_messages(whole, unknown), span) if whole is not None else []


def answered(span: Span, unknown: list[Any]) -> list[Message]:
    """What the model, or the agent, answered."""
    given = span.attributes
    whole = get_first(given, "gen_ai.output.messages", "gen_ai.completion")
    forms = [_outputs(whole, unknown) if whole is not None else []]
    if "gen_ai.output" in given:
        forms.append(_any_agent(given["gen_ai.output"]))
    for prefix in ("gen_ai.completion.", "llm.output_messages."):
        forms.append(
            [
                made
                for item in _numbered(given, prefix)
                if (made := _flat(item, "assistant")) is not None
            ]
        )
    forms.append(_vercel(given))
    moments = [moment for moment in (*_kept_events(given), *span.moments) if _is_answer(moment)]
    forms = [form for form in (*forms, *_told_by(moments, "output", unknown)) if form]
    if not forms and (plain := get_first(given, "output.value", "final_result")) is not None:
        return [Message("assistant", [TextPart(plain if isinstance(plain, str) else [plain])])]
    return mended(_united(forms), span)


def is_other(moment: Moment) -> bool:
    """Whether an event is no message, none of the whole of a side, and no error."""
    if moment.name in _ROLES or moment.name == "exception":
        return False
    return not any(name in moment.attributes for name in _SIDES)


def _is_answer(moment: Moment) -> bool:
    return moment.name == "gen_ai.choice" or (
        moment.name not in _ROLES and moment.name.startswith("gen_ai.")
    )


def _told_by(moments: list[Moment], side: str, unknown: list[Any]) -> list[list[Message]]:
    """Events of single messages are one form, an event of a whole side is another."""
    single = [
        made
        for moment in moments
        if moment.name in _ROLES
        for made in _of_moment(moment, side, unknown)
    ]
    whole = [_of_moment(moment, side, unknown) for moment in moments if moment.name not in _ROLES]
    return [single, *whole]


def _united(forms: list[list[Message]]) -> list[Message]:
    """All messages; one that an instrumentation writes down in several forms counts once."""
    if len(forms) == 1:
        return forms[0]
    made: list[Message] = []
    seen: Counter[bytes] = Counter()
    for form in forms:
        met: Counter[bytes] = Counter()
        for message in form:
            marks = [hash_part(role, part) for role, part in split_message(message)]
            met.update(marks)
            if not marks or any(met[mark] > seen[mark] for mark in marks):
                made.append(message)
        seen |= met
    return made


def _outputs(value: Any, unknown: list[Any]) -> list[Message]:
    if isinstance(value, str) and parse_json_text(value) is value:
        return [Message("assistant", [TextPart(value)])]
    made = parse_messages(value, unknown)
    for message in made:
        message.role = "assistant" if message.role == "user" else message.role
    return made


def _system(value: Any) -> list[Message]:
    value = parse_json_text(value)
    if value is None:
        return []
    made = Message("system", [])
    made.parts = parse_parts(value, made.unknown_kinds)
    return [made]


def _any_agent(value: Any) -> list[Message]:
    """any-agent writes what was said as it is, and calls as a list of names and arguments."""
    calls = parse_json_text(value)
    if (
        isinstance(calls, list)
        and calls
        and all(isinstance(call, dict) and "tool.name" in call for call in calls)
    ):
        parts = [
            ToolCallPart(
                None, as_text(call["tool.name"]) or "tool", parse_arguments(call.get("tool.args"))
            )
            for call in calls
        ]
        return [Message("assistant", [*parts])]
    return [Message("assistant", [TextPart(value if isinstance(value, str) else [value])])]


def _vercel(given: JsonObject) -> list[Message]:
    words, calls = (
        given.get("ai.response.text"),
        parse_json_text(given.get("ai.response.toolCalls")),
    )
    message: JsonObject = {
        "role": "assistant",
        "content": words if isinstance(words, str) else None,
    }
    if isinstance(calls, list):
        message["tool_calls"] = calls
    made = parse_message(message)
    return [made] if made is not None and made.parts else []


def _numbered(given: JsonObject, prefix: str) -> list[Any]:
    """Attributes such as `gen_ai.prompt.0.role`, put together to the objects they were."""
    tree: JsonObject = {}
    for name in [name for name in given if name.startswith(prefix)]:
        value = given[name]
        steps = name[len(prefix) :].split(".", _DEEPEST)
        if not steps[0].isdecimal():
            continue
        place = tree
        for step in steps[:-1]:
            below = place.setdefault(step, {})
            if not isinstance(below, dict):
                below = place[step] = {"": below}
            place = below
        place[steps[-1]] = value
    return _listed(tree)


def _listed(tree: JsonObject) -> list[Any]:
    order = sorted(
        tree, key=lambda name: int(name) if name.isdecimal() and len(name) < 10 else 1 << 40
    )
    return [_folded(tree[name]) for name in order]


def _folded(value: Any) -> Any:
    """Objects whose names are numbers are lists."""
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() for name in value):
        return _listed(value)
    return {name: _folded(item) for name, item in value.items()}


def _flat(item: Any, role: str) -> Message | None:
    """A message of numbered attributes: OpenLLMetry has its fields at once, OpenInference wraps
    each."""
    if isinstance(item, str):
        return Message(role, [TextPart(item)])
    if not isinstance(item, dict):
        return None
    held = item["message"] if isinstance(item.get("message"), dict) else item
    message = {"role": role, **held}
    if isinstance(held.get("contents"), list):
        message["content"] = [_inside(block, "message_content") for block in held["contents"]]
    elif isinstance(content := parse_json_text(held.get("content")), list) and all(
        isinstance(part, dict) for part in content
    ):
        message["content"] = content
    if isinstance(calls := held.get("tool_calls"), list):
        message["tool_calls"] = [_inside(call, "tool_call") for call in calls]
    return parse_message(message)


def _inside(value: Any, name: str) -> Any:
    held = value.get(name, value) if isinstance(value, dict) else value
    if (
        isinstance(held, dict)
        and isinstance(call := value.get("tool_call"), dict)
        and held is not call
    ):
        return {
            **held,
            **call,
        }  # OpenInference for Anthropic: a call among the contents, beside its type.
    image = held.get("image") if isinstance(held, dict) else None
    if isinstance(image, dict) and isinstance(image.get("image"), dict):
        return {"type": "image", "image": image["image"]}
    return held


def _kept_events(given: JsonObject) -> list[Moment]:
    """Pydantic AI keeps what other instrumentations send as events in one attribute of JSON."""
    events = parse_json_text(get_first(given, "events", "all_messages_events"))
    found = (
        [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    )
    return [
        Moment(str(event.get("event.name")), {}, event)
        for event in found
        if event.get("event.name") in _ROLES
    ]


def _of_moment(moment: Moment, side: str, unknown: list[Any]) -> list[Message]:
    """The messages of an event: one, or the whole of a side of the call."""
    given = moment.attributes
    role = _ROLES.get(moment.name)
    if role is None:
        name = "gen_ai.prompt" if side == "input" else "gen_ai.completion"
        whole = get_first(given, f"gen_ai.{side}.messages", name)
        if side == "output":
            return _outputs(whole, unknown) if whole is not None else []
        return _system(given.get("gen_ai.system_instructions")) + (
            parse_messages(whole, unknown) if whole is not None else []
        )
    body = parse_json_text(
        moment.body if moment.body is not None else given.get("gen_ai.event.content")
    )
    body = body if isinstance(body, dict) else {"content": body} if body is not None else given
    inner = body.get("message")
    held = parse_json_text(inner) if inner is not None else body
    message: JsonObject = held if isinstance(held, dict) else {"content": held}
    calls = parse_json_text(get_first(message, "tool_calls") or body.get("tool_calls"))
    content = parse_json_text(message.get("content"))
    whole = content if isinstance(content, list) else message.get("content")
    made = parse_message(
        {
            **message,
            "role": as_text(message.get("role")) or role,
            "content": whole,
            "tool_calls": calls,
        }
    )
    return [made] if made is not None else []
