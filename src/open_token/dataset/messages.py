"""Chat messages of an agent run, in the form of OpenAI and in the form of Inspect AI."""

from collections.abc import Iterable, Iterator
from typing import Any

from open_token.jsontools.objects import as_object, as_text
from open_token.model.document import Event
from open_token.writers.trajectory import (
    AgentRun,
    InputMessage,
    JsonObject,
    Losses,
    Media,
    ModelResponse,
    ToolCall,
    iter_content,
    to_json_text,
)

_INPUT_ROLES = ("system", "developer", "user")


def build_openai_messages(run: AgentRun, losses: Losses) -> list[JsonObject]:
    """Return the messages of a run as Chat Completions takes them."""
    messages: list[JsonObject] = []
    for item in run.items:
        if isinstance(item, InputMessage):
            messages.append(_build_input(item, losses))
        elif isinstance(item, ModelResponse) and not item.is_empty:
            messages.append(_build_openai_answer(item, losses))
            messages.extend(_build_openai_results(item.calls, losses))
    return messages


def build_openai_tools(run: AgentRun) -> list[JsonObject]:
    """Return the tools of a run: those that the record describes, and those that were called."""
    described = {as_text(tool.get("name")): tool for tool in run.tools}
    called = [call.tool for response in run.responses for call in response.calls]
    tools = []
    for name in dict.fromkeys([*described, *called]):
        function: JsonObject = {"name": name}
        description = described.get(name, {}).get("description")
        if isinstance(description, str):
            function["description"] = description
        tools.append({"type": "function", "function": function})
    return tools


def build_inspect_messages(run: AgentRun, losses: Losses) -> list[JsonObject]:
    """Return the messages of a run as Inspect AI and Docent take them."""
    messages: list[JsonObject] = []
    for item in run.items:
        if isinstance(item, InputMessage):
            messages.append(_build_inspect_input(item, losses))
        elif isinstance(item, ModelResponse) and not item.is_empty:
            messages.append(_build_inspect_answer(item, losses))
            messages.extend(_build_inspect_results(item.calls, losses))
    return messages


def build_sharegpt(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Return OpenAI messages as ShareGPT turns; calls and results are turns of their own."""
    turns: list[JsonObject] = []
    senders = {"system": "system", "developer": "system", "user": "human", "tool": "observation"}
    for message in messages:
        role = str(message["role"])
        text = message.get("content") or ""
        if role != "assistant":
            turns.append({"from": senders[role], "value": text})
            continue
        if text:
            turns.append({"from": "gpt", "value": text})
        for call in message.get("tool_calls", []):
            function = call["function"]
            value = f'{{"name": {to_json_text(function["name"])}, "arguments": {function["arguments"]}}}'
            turns.append({"from": "function_call", "value": value})
    return turns


def iter_runs(run: AgentRun) -> Iterator[AgentRun]:
    """Yield a run and all runs of its subagents, each before its own."""
    yield run
    for subagent in run.subagents:
        yield from iter_runs(subagent)


def _build_input(item: InputMessage, losses: Losses) -> JsonObject:
    text = _render_text(item.event, losses)
    role = item.event.get("role")
    if role in _INPUT_ROLES:
        return {"role": str(role), "content": text}
    # A result whose call is not in the record has nothing that a tool message could refer to.
    return {"role": "user", "content": text}


def _build_openai_answer(response: ModelResponse, losses: Losses) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": _render_answer(response, losses)}
    reasoning = _render_reasoning(response)
    if reasoning:
        message["reasoning_content"] = reasoning
    if response.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": to_json_text(call.arguments)},
            }
            for call in response.calls
        ]
    return message


def _build_openai_results(calls: Iterable[ToolCall], losses: Losses) -> Iterator[JsonObject]:
    for call in calls:
        if call.result is not None:
            text = _render_text(call.result, losses)
            yield {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": text}


def _build_inspect_input(item: InputMessage, losses: Losses) -> JsonObject:
    message = _build_input(item, losses)
    if message["role"] == "developer":
        message["role"] = "system"
    return {"id": str(item.event.get("id")), **message}


def _build_inspect_answer(response: ModelResponse, losses: Losses) -> JsonObject:
    text = _render_answer(response, losses)
    reasoning = _render_reasoning(response)
    content: Any = text
    if reasoning:
        content = [{"type": "reasoning", "reasoning": reasoning}]
        if text:
            content.append({"type": "text", "text": text})
    first = response.events[0] if response.events else {}
    message: JsonObject = {
        "id": str(first.get("id")),
        "role": "assistant",
        "content": content,
    }
    if response.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "function": call.tool,
                "arguments": _to_arguments(call.arguments),
                "type": "function",
            }
            for call in response.calls
        ]
    return message


def _build_inspect_results(calls: Iterable[ToolCall], losses: Losses) -> Iterator[JsonObject]:
    for call in calls:
        if call.result is None:
            continue
        message: JsonObject = {
            "id": str(call.result.get("id")),
            "role": "tool",
            "content": _render_text(call.result, losses),
            "tool_call_id": call.id,
            "function": call.tool,
        }
        if call.facts.get("is_error") is True:
            message["error"] = {
                "type": "unknown",
                "message": "the record says that the call failed",
            }
        yield message


def _to_arguments(arguments: Any) -> JsonObject:
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _render_answer(response: ModelResponse, losses: Losses) -> str:
    return _render_text(response.message, losses) if response.message is not None else ""


def _render_reasoning(response: ModelResponse) -> str:
    texts = [as_text(as_object(event.get("content")).get("text")) for event in response.thoughts]
    return "\n\n".join(text for text in texts if text)


def _render_text(event: Event, losses: Losses) -> str:
    """Return what an event says as one text; media are named and not included."""
    parts = []
    for part in iter_content(event, losses):
        if isinstance(part, Media):
            losses.report_missing("media", event, "an image, sound or file")
            parts.append(f"[{part.media_type or part.kind}]")
        else:
            parts.append(part)
    return "\n\n".join(parts)
