"""What goes into a run of LangSmith and what comes out, in the many forms that wrappers give it."""

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

from open_token.formats.langchain.langsmith_runs import Run
from open_token.formats.langchain.messages import message_of, opened, usage_of
from open_token.formats.langchain.shapes import is_message
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

_ASIDE = frozenset(
    "model stream extra_headers extra_query extra_body timeout temperature max_tokens tools".split()
)
_ASIDE_OUT = frozenset(
    "id object created model service_tier system_fingerprint usage usage_metadata llm_output run type stop_reason"
    " stop_sequence moderation prompt_filter_results created_at status error metadata".split()
)
_LONGEST = 1 << 16


@dataclass(slots=True)
class Told:
    """The messages of one side of a run, and what of it is no message."""

    messages: list[Message] = field(default_factory=list)
    rest: JsonObject = field(default_factory=dict)
    model: str | None = None
    usage: Usage | None = None
    tools: list[str] = field(default_factory=list)
    definitions: Any = None


def any_message(value: Any) -> Message | None:
    """A message, as LangChain or as a provider writes it, or as a pair of role and words."""
    if isinstance(value, dict):
        return message_of(*opened(value)) if is_message(value) else parse_message(value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        return parse_message({"role": value[0], "content": value[1]})
    return None


def _messages(value: Any) -> list[Message] | None:
    """All of a list that is nothing but messages; None for anything else."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    made = [any_message(item) for item in value]
    return [item for item in made if item is not None] if made and all(made) else None


def asked(run: Run) -> Told:
    """What a run was given."""
    told = Told()
    for name, value in run.part("inputs").items():
        found = (
            _messages(value) if name in ("messages", "input", "chat_history", "history") else None
        )
        if found is not None:
            told.messages += found
        elif name in ("prompts", "prompt") and run.kind == "llm" and (words := _prompts(value)):
            told.messages += words
        elif name == "model":
            told.model = as_text(value)
        elif name == "tools" and isinstance(value, list):
            told.tools, told.definitions = _names(value), value
        elif name == "system" and run.kind == "llm" and isinstance(value, str | list):
            told.messages += (
                [message]
                if (message := parse_message({"role": "system", "content": value}))
                else []
            )
        elif value not in (None, "", [], {}) and not (run.kind == "llm" and name in _ASIDE):
            told.rest[name] = value
    if not told.model:
        params = run.part("extra").get("invocation_params")
        given = params if isinstance(params, dict) else {}
        told.model = as_text(given.get("model")) or as_text(given.get("model_name"))
        if not told.tools:
            told.tools, told.definitions = _names(given.get("tools")), given.get("tools")
    return told


def _prompts(value: Any) -> list[Message]:
    words = value if isinstance(value, list) else [value]
    return [Message("user", [TextPart(text)]) for text in words if isinstance(text, str)]


def _names(tools: Any) -> list[str]:
    given = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    held = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in given]
    return [
        name for tool in held if (name := as_text(tool.get("name")) or as_text(tool.get("type")))
    ]


def answered(run: Run) -> Told:
    """What a run gave back."""
    outputs = run.part("outputs")
    told = Told(model=as_text(outputs.get("model")))
    told.usage = _usage(run, outputs)
    shown: set[str] = set()
    for name, read in (
        ("generations", _generations),
        ("choices", _choices),
        ("messages", _messages),
    ):
        if name in outputs and (found := read(outputs[name])):
            told.messages = found
            shown = {name}
            break
    else:
        if run.kind == "llm":
            told.messages, shown = _single(outputs)
    told.usage = told.usage or next(
        (message.usage for message in told.messages if message.usage), None
    )
    told.model = told.model or next(
        (message.model for message in told.messages if message.model), None
    )
    aside = _ASIDE_OUT if run.kind == "llm" else frozenset()
    told.rest = {
        name: value
        for name, value in outputs.items()
        if name not in shown and name not in aside and value not in (None, "", [], {})
    }
    return told


def _single(outputs: JsonObject) -> tuple[list[Message], set[str]]:
    """One message: the outputs themselves, or one of their fields."""
    if (
        isinstance(outputs.get("content"), str | list)
        and outputs.get("role", "assistant") == "assistant"
    ):
        message = parse_message({**outputs, "role": "assistant"})
        if message is not None:
            return [message], set(outputs)
    for name in ("message", "output", "generation", "text", "completion"):
        value = outputs.get(name)
        if isinstance(value, str) and value:
            return [Message("assistant", [TextPart(value)])], {name}
        if isinstance(value, dict | list) and (found := _messages(value)):
            return found, {name}
    return [], set()


def _generations(value: Any) -> list[Message]:
    if isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    made = []
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, dict):
            continue
        message = any_message(item.get("message"))
        if message is None and isinstance(item.get("text"), str):
            message = Message("assistant", [TextPart(item["text"])])
        if message is not None:
            made.append(message)
    return made


def _choices(value: Any) -> list[Message]:
    made = []
    for choice in value if isinstance(value, list) else ():
        held = choice.get("message") if isinstance(choice, dict) else None
        message = parse_message({"role": "assistant", **held}) if isinstance(held, dict) else None
        if message is not None:
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason not in ("stop", "tool_calls", "function_call"):
                message.facts["finish_reason"] = reason
            made.append(message)
    return made


def _usage(run: Run, outputs: JsonObject) -> Usage | None:
    llm = outputs.get("llm_output")
    held = llm if isinstance(llm, dict) else {}
    given = outputs.get("usage")
    return (
        usage_of(outputs.get("usage_metadata"))
        or usage_of(run.metadata.get("usage_metadata"))
        or chat_messages.parse_usage(held.get("token_usage"))
        or chat_messages.parse_usage(given)
        or (
            anthropic_blocks.parse_usage(given)
            if outputs.get("type") == "message"
            else responses_usage(given)
        )
        or (_whole(run) if run.kind == "llm" and not _holds_usage(outputs) else None)
    )


def _holds_usage(outputs: JsonObject) -> bool:
    return any(message.usage for message in _generations(outputs.get("generations")))


def _whole(run: Run) -> Usage | None:
    """The sums that the service shows on a run."""
    tokens = build_usage(
        input_tokens=run.body.get("prompt_tokens"), output_tokens=run.body.get("completion_tokens")
    )
    return tokens if tokens and any(tokens.values()) else None


def tool_call(run: Run) -> ToolCallPart:
    """The call that a run of a tool served."""
    inputs = run.part("inputs")
    given: Any = inputs["input"] if inputs.keys() == {"input"} else inputs
    if isinstance(given, str):
        given = _literal(given) if given[:1] == "{" else parse_arguments(given)
    extra = {"native_type": "retriever"} if run.kind == "retriever" else None
    output: Any = run.part("outputs").get("output")
    held = message_of(*opened(output)) if is_message(output) else None
    native = (
        next((part.id for part in held.parts if isinstance(part, ToolResultPart)), None)
        if held
        else None
    )
    native = (
        native
        or as_text(run.part("extra").get("tool_call_id"))
        or as_text(run.metadata.get("tool_call_id"))
    )
    return ToolCallPart(native, run.name, given, extra)


def _literal(text: str) -> Any:
    """Arguments as JSON, or as Python shows an object: LangChain writes `str(input)` of what its
    tools are given."""
    made = parse_arguments(text)
    if isinstance(made, str) and len(text) < _LONGEST:
        try:
            with warnings.catch_warnings(action="ignore"):
                value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
        return value if isinstance(value, dict) and _is_plain(value) else text
    return made


def _is_plain(value: Any) -> bool:
    """Whether Python's words say only what JSON can say too."""
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


def tool_result(run: Run) -> ToolResultPart | None:
    """What a run of a tool gave back; None when it never ended."""
    outputs, error = run.part("outputs"), as_text(run.body.get("error"))
    if not outputs and error is None:
        return (
            ToolResultPart(None, "", run.name)
            if "end_time" in run.body and run.body.get("end_time")
            else None
        )
    facts: JsonObject = {}
    output: Any = outputs["output"] if outputs.keys() == {"output"} else outputs
    if is_message(output):
        made = next(
            (
                part
                for part in message_of(*opened(output)).parts
                if isinstance(part, ToolResultPart)
            ),
            None,
        )
        if made is not None:
            output, facts = made.output, dict(made.facts or {})
    if error is not None:
        facts["is_error"] = True
        if outputs:
            facts["error"] = error
        else:
            output = error
    return ToolResultPart(
        None, output if isinstance(output, str) else unpack_output(output), run.name, facts or None
    )
