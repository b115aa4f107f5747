"""Inputs and outputs of LangSmith runs, in the forms that LangChain and the SDK's wrappers use."""

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

from open_token.formats.langchain.detect import is_message
from open_token.formats.langchain.langsmith_runs import Run
from open_token.formats.langchain.messages import build_message, read_usage, unwrap_message
from open_token.formats.shared import anthropic_blocks, chat_messages
from open_token.formats.shared.fields import JsonObject, as_text, parse_arguments
from open_token.formats.shared.message_dicts import parse_message
from open_token.formats.shared.messages import (
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    unpack_output,
)
from open_token.formats.shared.responses_content import parse_usage as responses_usage
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

_MESSAGE_INPUTS = ("messages", "input", "chat_history", "history")
_TECHNICAL_INPUTS = frozenset(
    (
        "model",
        "stream",
        "extra_headers",
        "extra_query",
        "extra_body",
        "timeout",
        "temperature",
        "max_tokens",
        "tools",
    )
)
_TECHNICAL_OUTPUTS = frozenset(
    (
        "id",
        "object",
        "created",
        "model",
        "service_tier",
        "system_fingerprint",
        "usage",
        "usage_metadata",
        "llm_output",
        "run",
        "type",
        "stop_reason",
        "stop_sequence",
        "moderation",
        "prompt_filter_results",
        "created_at",
        "status",
        "error",
        "metadata",
    )
)
_MESSAGE_OUTPUTS = ("message", "output", "generation", "text", "completion")
_USUAL_FINISH_REASONS = ("stop", "tool_calls", "function_call")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_MAX_LITERAL_LENGTH = 1 << 16


@dataclass(slots=True)
class RunContent:
    """The inputs or the outputs of a run: messages, and the rest."""

    messages: list[Message] = field(default_factory=list)
    rest: JsonObject = field(default_factory=dict)
    model: str | None = None
    usage: Usage | None = None
    tools: list[str] = field(default_factory=list)
    definitions: Any = None


def _read_message(value: Any) -> Message | None:
    """Return a message of LangChain or of a provider, or a pair of role and text."""
    if isinstance(value, dict):
        if is_message(value):
            return build_message(*unwrap_message(value))
        return parse_message(value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        return parse_message({"role": value[0], "content": value[1]})
    return None


def _read_messages(value: Any) -> list[Message] | None:
    """Return the messages of a list that holds nothing else; None for anything else."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 1 and isinstance(value[0], list):
        # LangChain writes a batch of message lists, with one list as a rule.
        value = value[0]
    messages: list[Message] = []
    for item in value:
        message = _read_message(item)
        if message is None:
            return None
        messages.append(message)
    return messages or None


def read_inputs(run: Run) -> RunContent:
    """Read what a run was given."""
    content = RunContent()
    for name, value in run.get_object("inputs").items():
        _read_input(content, run, name, value)
    if content.model:
        return content
    params = run.get_object("extra").get("invocation_params")
    if not isinstance(params, dict):
        params = {}
    content.model = as_text(params.get("model")) or as_text(params.get("model_name"))
    if not content.tools:
        content.definitions = params.get("tools")
        content.tools = _get_tool_names(content.definitions)
    return content


def _read_input(content: RunContent, run: Run, name: str, value: Any) -> None:
    is_model_call = run.kind == "llm"
    messages = _read_messages(value) if name in _MESSAGE_INPUTS else None
    if messages is None and is_model_call:
        if name in ("prompts", "prompt"):
            messages = _read_prompts(value) or None
        elif name == "system" and isinstance(value, str | list):
            message = parse_message({"role": "system", "content": value})
            messages = [message] if message else []
    if messages is not None:
        content.messages += messages
    elif name == "model":
        content.model = as_text(value)
    elif name == "tools" and isinstance(value, list):
        content.tools = _get_tool_names(value)
        content.definitions = value
    elif value not in _EMPTY and not (is_model_call and name in _TECHNICAL_INPUTS):
        content.rest[name] = value


def _read_prompts(value: Any) -> list[Message]:
    texts = value if isinstance(value, list) else [value]
    return [Message("user", [TextPart(text)]) for text in texts if isinstance(text, str)]


def _get_tool_names(tools: Any) -> list[str]:
    names: list[str] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        definition = tool["function"] if isinstance(tool.get("function"), dict) else tool
        name = as_text(definition.get("name")) or as_text(definition.get("type"))
        if name:
            names.append(name)
    return names


def read_outputs(run: Run) -> RunContent:
    """Read what a run returned."""
    outputs = run.get_object("outputs")
    is_model_call = run.kind == "llm"
    content = RunContent(model=as_text(outputs.get("model")), usage=_read_run_usage(run, outputs))
    content.messages, used_names = _read_output_messages(outputs, is_model_call)
    for message in content.messages:
        content.usage = content.usage or message.usage
        content.model = content.model or message.model
    for name, value in outputs.items():
        is_technical = is_model_call and name in _TECHNICAL_OUTPUTS
        if name not in used_names and not is_technical and value not in _EMPTY:
            content.rest[name] = value
    return content


def _read_output_messages(
    outputs: JsonObject, is_model_call: bool
) -> tuple[list[Message], set[str]]:
    """Return the messages of the outputs, and the names of the fields that hold them."""
    messages: list[Message] | None = _read_generations(outputs.get("generations"))
    if messages:
        return messages, {"generations"}
    messages = _read_choices(outputs.get("choices"))
    if messages:
        return messages, {"choices"}
    messages = _read_messages(outputs.get("messages"))
    if messages:
        return messages, {"messages"}
    if is_model_call:
        return _read_single_message(outputs)
    return [], set()


def _read_single_message(outputs: JsonObject) -> tuple[list[Message], set[str]]:
    """Read one message: the outputs themselves, or one of their fields."""
    is_assistant = outputs.get("role", "assistant") == "assistant"
    if isinstance(outputs.get("content"), str | list) and is_assistant:
        message = parse_message({**outputs, "role": "assistant"})
        if message is not None:
            return [message], set(outputs)
    for name in _MESSAGE_OUTPUTS:
        value = outputs.get(name)
        if isinstance(value, str) and value:
            return [Message("assistant", [TextPart(value)])], {name}
        messages = _read_messages(value)
        if messages:
            return messages, {name}
    return [], set()


def _read_generations(value: Any) -> list[Message]:
    if isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    messages: list[Message] = []
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, dict):
            continue
        message = _read_message(item.get("message"))
        if message is None and isinstance(item.get("text"), str):
            message = Message("assistant", [TextPart(item["text"])])
        if message is not None:
            messages.append(message)
    return messages


def _read_choices(value: Any) -> list[Message]:
    messages: list[Message] = []
    for choice in value if isinstance(value, list) else ():
        body = choice.get("message") if isinstance(choice, dict) else None
        message = parse_message({"role": "assistant", **body}) if isinstance(body, dict) else None
        if message is None:
            continue
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason not in _USUAL_FINISH_REASONS:
            message.facts["finish_reason"] = reason
        messages.append(message)
    return messages


def _read_run_usage(run: Run, outputs: JsonObject) -> Usage | None:
    """Return token counts: LangChain's, the provider's, or else the totals of the service."""
    llm_output = outputs.get("llm_output")
    if not isinstance(llm_output, dict):
        llm_output = {}
    provider_usage = outputs.get("usage")
    usage = (
        read_usage(outputs.get("usage_metadata"))
        or read_usage(run.metadata.get("usage_metadata"))
        or chat_messages.parse_usage(llm_output.get("token_usage"))
        or chat_messages.parse_usage(provider_usage)
    )
    if not usage and outputs.get("type") == "message":
        usage = anthropic_blocks.parse_usage(provider_usage)
    elif not usage:
        usage = responses_usage(provider_usage)
    if usage or run.kind != "llm":
        return usage
    if any(message.usage for message in _read_generations(outputs.get("generations"))):
        return None
    totals = build_usage(
        input_tokens=run.body.get("prompt_tokens"), output_tokens=run.body.get("completion_tokens")
    )
    return totals if totals and any(totals.values()) else None


def read_tool_call(run: Run) -> ToolCallPart:
    """Return the call that a run of a tool or a retriever executed."""
    inputs = run.get_object("inputs")
    given: Any = inputs["input"] if inputs.keys() == {"input"} else inputs
    if isinstance(given, str):
        given = _parse_arguments(given)
    result = _read_result_message(run.get_object("outputs").get("output"))
    call_id = (
        (result.id if result else None)
        or as_text(run.get_object("extra").get("tool_call_id"))
        or as_text(run.metadata.get("tool_call_id"))
    )
    extra = {"native_type": "retriever"} if run.kind == "retriever" else None
    return ToolCallPart(call_id, run.name, given, extra)


def _read_result_message(output: Any) -> ToolResultPart | None:
    """Return the result within a tool message, which tools may return instead of their output."""
    if not is_message(output):
        return None
    message = build_message(*unwrap_message(output))
    return next((part for part in message.parts if isinstance(part, ToolResultPart)), None)


def _parse_arguments(text: str) -> Any:
    """Parse arguments as JSON or as a Python literal: LangChain writes `str(input)`."""
    value = parse_arguments(text)
    if not isinstance(value, str) or text[:1] != "{" or len(text) >= _MAX_LITERAL_LENGTH:
        return value
    try:
        with warnings.catch_warnings(action="ignore"):
            literal = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return literal if isinstance(literal, dict) and _is_json(literal) else text


def _is_json(value: Any) -> bool:
    """Return whether a Python value can be written as JSON."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                return False
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif not isinstance(item, str | int | float | bool | None):
            return False
    return True


def read_tool_result(run: Run) -> ToolResultPart | None:
    """Return what a run of a tool returned; None when it never ended."""
    outputs = run.get_object("outputs")
    error = as_text(run.body.get("error"))
    if not outputs and error is None:
        return ToolResultPart(None, "", run.name) if run.body.get("end_time") else None
    output: Any = outputs["output"] if outputs.keys() == {"output"} else outputs
    facts: JsonObject = {}
    result = _read_result_message(output)
    if result is not None:
        output = result.output
        facts = dict(result.facts or {})
    if error is not None:
        facts["is_error"] = True
        if outputs:
            facts["error"] = error
        else:
            output = error
    if not isinstance(output, str):
        output = unpack_output(output)
    return ToolResultPart(None, output, run.name, facts or None)
