"""Messages of a span: in JSON attributes, in attributes with numbered names, and in events."""

from collections import Counter, deque
from itertools import takewhile
from typing import Any

from open_token.formats.otel_genai.spans import Span, SpanEvent
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_first,
    parse_arguments,
    parse_json_text,
)
from open_token.formats.shared.message_dicts import parse_message, parse_messages
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    parse_parts,
)
from open_token.formats.shared.repeated_history import hash_part, split_message

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_MAX_DEPTH = 12
_MESSAGE_LISTS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
)
_GOOGLE_PROVIDERS = ("gemini", "vertex_ai", "gcp.gemini", "gcp.vertex_ai", "gcp.gen_ai")


def read_input(span: Span, unknown: list[Any]) -> list[Message]:
    """Return the messages that the model, or the agent, was given.

    An instrumentation may record them in several forms at once. What is no message is added to
    `unknown`.
    """
    attributes = span.attributes
    whole = get_first(attributes, "gen_ai.input.messages", "ai.prompt.messages", "gen_ai.prompt")
    if whole is None and "pydantic_ai.all_messages" in attributes:
        whole = _take_until_answer(parse_json_text(attributes["pydantic_ai.all_messages"]))
    instructions = get_first(attributes, "gen_ai.system_instructions", "gen_ai.system_instruction")
    messages = _read_system(instructions)
    if whole is not None:
        messages += parse_messages(whole, unknown)
    forms = [messages]
    for prefix in ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts."):
        forms.append(_read_numbered(attributes, prefix, "user"))
    events = [event for event in _get_events(span) if event.name != "gen_ai.choice"]
    forms += _read_events(events, "input", unknown)
    return _repair_ids(_merge_forms(forms), span)


def read_output(span: Span, unknown: list[Any]) -> list[Message]:
    """Return the messages that the model, or the agent, answered."""
    attributes = span.attributes
    forms = [
        _read_answers(get_first(attributes, "gen_ai.output.messages", "gen_ai.completion"), unknown)
    ]
    if "gen_ai.output" in attributes:
        forms.append(_read_any_agent_output(attributes["gen_ai.output"]))
    for prefix in ("gen_ai.completion.", "llm.output_messages."):
        forms.append(_read_numbered(attributes, prefix, "assistant"))
    forms.append(_read_vercel_output(attributes))
    events = [event for event in _get_events(span) if _is_answer(event)]
    forms += _read_events(events, "output", unknown)
    if not any(forms):
        value = get_first(attributes, "output.value", "final_result")
        if value is not None:
            return [_build_answer(value)]
    return _repair_ids(_merge_forms(forms), span)


def read_whole_run(span: Span, unknown: list[Any]) -> list[Message]:
    """Return all messages of the run of an agent, which Pydantic AI records on the agent's span."""
    whole = span.attributes.get("pydantic_ai.all_messages")
    if whole is None:
        return []
    return _repair_ids(parse_messages(whole, unknown), span)


def is_message_event(event: SpanEvent) -> bool:
    """Return whether an event holds messages, or an error."""
    if event.name in _EVENT_ROLES or event.name == "exception":
        return True
    return any(name in event.attributes for name in _MESSAGE_LISTS)


def _take_until_answer(messages: Any) -> Any:
    """Of all messages of a Pydantic AI run, the input is what precedes the first answer."""
    if not isinstance(messages, list):
        return []
    return list(takewhile(lambda item: not _is_assistant(item), messages))


def _is_assistant(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _is_answer(event: SpanEvent) -> bool:
    if event.name in _EVENT_ROLES:
        return event.name == "gen_ai.choice"
    return event.name.startswith("gen_ai.")


def _merge_forms(forms: list[list[Message]]) -> list[Message]:
    """Return all messages; one that is recorded in several forms counts once."""
    forms = [form for form in forms if form]
    if len(forms) == 1:
        return forms[0]
    merged: list[Message] = []
    seen: Counter[bytes] = Counter()
    for form in forms:
        counts: Counter[bytes] = Counter()
        for message in form:
            digests = [hash_part(role, part) for role, part in split_message(message)]
            counts.update(digests)
            if not digests or any(counts[digest] > seen[digest] for digest in digests):
                merged.append(message)
        seen |= counts
    return merged


def _build_answer(value: Any) -> Message:
    return Message("assistant", [TextPart(value if isinstance(value, str) else [value])])


def _read_answers(value: Any, unknown: list[Any]) -> list[Message]:
    if value is None:
        return []
    if isinstance(value, str) and parse_json_text(value) is value:
        return [Message("assistant", [TextPart(value)])]
    messages = parse_messages(value, unknown)
    for message in messages:
        if message.role == "user":
            message.role = "assistant"
    return messages


def _read_system(value: Any) -> list[Message]:
    content = parse_json_text(value)
    if content is None:
        return []
    message = Message("system", [])
    message.parts = parse_parts(content, message.unknown_kinds)
    return [message]


def _read_any_agent_output(value: Any) -> list[Message]:
    """any-agent writes text verbatim, and calls as a list of names and arguments."""
    calls = parse_json_text(value)
    if not isinstance(calls, list) or not calls or not all(map(_is_any_agent_call, calls)):
        return [_build_answer(value)]
    parts: list[Part] = []
    for call in calls:
        tool = as_text(call["tool.name"]) or "tool"
        parts.append(ToolCallPart(None, tool, parse_arguments(call.get("tool.args"))))
    return [Message("assistant", parts)]


def _is_any_agent_call(call: Any) -> bool:
    return isinstance(call, dict) and "tool.name" in call


def _read_vercel_output(attributes: JsonObject) -> list[Message]:
    text = attributes.get("ai.response.text")
    calls = parse_json_text(attributes.get("ai.response.toolCalls"))
    body: JsonObject = {"role": "assistant", "content": text if isinstance(text, str) else None}
    if isinstance(calls, list):
        body["tool_calls"] = calls
    message = parse_message(body)
    if message is None or not message.parts:
        return []
    return [message]


def _read_numbered(attributes: JsonObject, prefix: str, role: str) -> list[Message]:
    """Return the messages of attributes such as `gen_ai.prompt.0.role`."""
    tree: JsonObject = {}
    for name in [name for name in attributes if name.startswith(prefix)]:
        steps = name[len(prefix) :].split(".", _MAX_DEPTH)
        if steps[0].isdecimal():
            _insert(tree, steps, attributes[name])
    messages = [_read_numbered_message(item, role) for item in _to_list(tree)]
    return [message for message in messages if message is not None]


def _insert(tree: JsonObject, steps: list[str], value: Any) -> None:
    node = tree
    for step in steps[:-1]:
        child = node.setdefault(step, {})
        if not isinstance(child, dict):
            # A name that has a value and, in another attribute, fields as well.
            child = node[step] = {"": child}
        node = child
    node[steps[-1]] = value


def _to_list(tree: JsonObject) -> list[Any]:
    return [_restore_lists(tree[name]) for name in sorted(tree, key=_get_index)]


def _get_index(name: str) -> int:
    return int(name) if name.isdecimal() and len(name) < 10 else 1 << 40


def _restore_lists(value: Any) -> Any:
    """Turn objects whose names are numbers into lists."""
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() for name in value):
        return _to_list(value)
    return {name: _restore_lists(item) for name, item in value.items()}


def _read_numbered_message(item: Any, role: str) -> Message | None:
    """Read a message: OpenInference wraps it and its parts in objects, OpenLLMetry does not."""
    if isinstance(item, str):
        return Message(role, [TextPart(item)])
    if not isinstance(item, dict):
        return None
    fields = item["message"] if isinstance(item.get("message"), dict) else item
    message = {"role": role, **fields}
    contents = fields.get("contents")
    if isinstance(contents, list):
        message["content"] = [_unwrap(block, "message_content") for block in contents]
    else:
        content = parse_json_text(fields.get("content"))
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            message["content"] = content
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [_unwrap(call, "tool_call") for call in calls]
    return parse_message(message)


def _unwrap(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return value
    block = value.get(name, value)
    if not isinstance(block, dict):
        return block
    call = value.get("tool_call")
    if isinstance(call, dict) and block is not call:
        # OpenInference for Anthropic puts a call among the contents, next to its type.
        return {**block, **call}
    image = block.get("image")
    if isinstance(image, dict) and isinstance(image.get("image"), dict):
        return {"type": "image", "image": image["image"]}
    return block


def _get_events(span: Span) -> list[SpanEvent]:
    """Return the events of a span, with those that Pydantic AI stores in one JSON attribute."""
    stored = parse_json_text(get_first(span.attributes, "events", "all_messages_events"))
    events: list[SpanEvent] = []
    for event in stored if isinstance(stored, list) else ():
        if isinstance(event, dict) and event.get("event.name") in _EVENT_ROLES:
            events.append(SpanEvent(str(event["event.name"]), {}, event))
    return events + span.events


def _read_events(events: list[SpanEvent], side: str, unknown: list[Any]) -> list[list[Message]]:
    """Return the forms that events are: single messages are one form, each list is another."""
    single: list[Message] = []
    lists: list[list[Message]] = []
    for event in events:
        role = _EVENT_ROLES.get(event.name)
        if role is None:
            lists.append(_read_list_event(event, side, unknown))
            continue
        message = _read_message_event(event, role)
        if message is not None:
            single.append(message)
    return [single, *lists]


def _read_list_event(event: SpanEvent, side: str, unknown: list[Any]) -> list[Message]:
    """Read an event that holds all messages of one side of the call."""
    attributes = event.attributes
    if side == "output":
        whole = get_first(attributes, "gen_ai.output.messages", "gen_ai.completion")
        return _read_answers(whole, unknown)
    messages = _read_system(attributes.get("gen_ai.system_instructions"))
    whole = get_first(attributes, "gen_ai.input.messages", "gen_ai.prompt")
    if whole is not None:
        messages += parse_messages(whole, unknown)
    return messages


def _read_message_event(event: SpanEvent, role: str) -> Message | None:
    body = event.body if event.body is not None else event.attributes.get("gen_ai.event.content")
    body = parse_json_text(body)
    if body is None:
        body = event.attributes
    elif not isinstance(body, dict):
        body = {"content": body}
    message = body.get("message")
    message = body if message is None else parse_json_text(message)
    if not isinstance(message, dict):
        message = {"content": message}
    content = parse_json_text(message.get("content"))
    if not isinstance(content, list):
        content = message.get("content")
    calls = parse_json_text(get_first(message, "tool_calls") or body.get("tool_calls"))
    role = as_text(message.get("role")) or role
    return parse_message({**message, "role": role, "content": content, "tool_calls": calls})


def _repair_ids(messages: list[Message], span: Span) -> list[Message]:
    """Make the results of one side of a call refer to their calls."""
    is_google = str(span.attributes.get("gen_ai.provider.name")) in _GOOGLE_PROVIDERS
    for message in messages:
        message.parts = [_repair_summary(part) for part in message.parts]
    if is_google:
        _remove_positional_ids(messages)
    parts = [part for message in messages for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ToolCallPart)]
    results = [part.id for part in parts if isinstance(part, ToolResultPart)]
    if all(results) and calls and all(call and call.startswith("fc_") for call in calls):
        _pair_in_order(messages)
    return messages


def _remove_positional_ids(messages: list[Message]) -> None:
    """Remove the ids that google-genai 1.3 builds from the tool's name and the part's position.

    Calls and results stand at different positions, so these ids do not match.
    """
    tools: set[str] = set()
    for message in messages:
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart) and part.id == f"{part.tool}_{position}":
                tools.add(part.tool)
                message.parts[position] = part._replace(id=None)
            elif isinstance(part, ToolResultPart) and part.id:
                tool = part.id.removesuffix(f"_{position}")
                if tool in tools:
                    message.parts[position] = part._replace(id=None, tool=tool)


def _repair_summary(part: Part) -> Part:
    """OpenLLMetry 0.62 records a reasoning summary of the Responses API as the JSON of its list."""
    if not isinstance(part, ReasoningPart) or not part.text:
        return part
    summaries = parse_json_text(part.text)
    if not isinstance(summaries, list) or not all(map(_is_summary, summaries)):
        return part
    texts = [as_text(item.get("text")) for item in summaries]
    text = "\n\n".join(filter(None, texts))
    return ReasoningPart(text, summary=True) if text else part


def _is_summary(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "summary_text"


def _pair_in_order(messages: list[Message]) -> None:
    """Pair results with calls by order.

    OpenLLMetry 0.62 records calls of the Responses API with the ids of their items (`fc_...`),
    which no result names.
    """
    calls: deque[str | None] = deque()
    for message in messages:
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                calls.append(part.id)
            elif isinstance(part, ToolResultPart) and calls:
                message.parts[position] = part._replace(id=calls.popleft())
