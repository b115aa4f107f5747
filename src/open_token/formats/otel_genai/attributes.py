"""Attributes of spans, under the names that the various instrumentations give them.

The known conventions: OpenTelemetry GenAI, OpenLLMetry (Traceloop), OpenInference, Vercel AI SDK,
Pydantic AI and any-agent.
"""

from typing import Any

from open_token.formats.otel_genai.spans import UNNAMED_PREFIX, Span
from open_token.formats.shared.fields import JsonObject, as_text, get_first, parse_arguments
from open_token.formats.shared.messages import ToolCallPart
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

_MIN_TEXT_LENGTH = 40
_OPERATIONS = {
    "chat": "chat",
    "text_completion": "chat",
    "generate_content": "chat",
    "call_llm": "chat",
    "completion": "chat",
    "responses": "chat",
    "invoke_agent": "agent",
    "execute_tool": "tool",
}
_OPENINFERENCE_KINDS = {"LLM": "chat", "AGENT": "agent", "TOOL": "tool"}
_TRACELOOP_KINDS = {"agent": "agent", "tool": "tool"}
_INPUT_MESSAGES = (
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "llm.input_messages.0.message.role",
    "llm.prompts.0",
    "ai.prompt.messages",
)
_OUTPUT_MESSAGES = (
    "gen_ai.output.messages",
    "gen_ai.completion",
    "gen_ai.completion.0.content",
    "ai.response.text",
)
# Pydantic AI puts `events` on spans of any kind, so it does not make a span a chat.
_MESSAGES = (*_INPUT_MESSAGES, "events", *_OUTPUT_MESSAGES)
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.model.id",
    "model_name",
)
_PROVIDERS = (
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "llm.system",
    "ai.model.provider",
)
_AGENT_NAMES = (
    "gen_ai.agent.name",
    "agent.name",
    "agent_name",
    "graph.node.id",
    "traceloop.entity.name",
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TOOL_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "tool.id")
_TOOL_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "tool_arguments",
    "ai.toolCall.args",
    "tool.parameters",
    "input.value",
    "traceloop.entity.input",
)
_TOOL_OUTPUTS = (
    "gen_ai.tool.call.result",
    "gen_ai.output",
    "tool_response",
    "ai.toolCall.result",
    "output.value",
    "traceloop.entity.output",
)
_OTHER_READ = (
    "gen_ai.operation.name",
    "gen_ai.output.type",
    "gen_ai.conversation.id",
    "gen_ai.response.finish_reasons",
    "gen_ai.system",
    "gen_ai.provider.name",
    "gen_ai.tool.type",
    "gen_ai.tool.description",
    "gen_ai.system_instructions",
    "gen_ai.system_instruction",
    "openinference.span.kind",
    "traceloop.span.kind",
    "session.id",
    "llm.model_name",
    "llm.provider",
    "llm.system",
    "ai.model.id",
    "ai.model.provider",
    "ai.response.toolCalls",
    "ai.response.finishReason",
    "all_messages_events",
    "pydantic_ai.all_messages",
    "final_result",
    "input.mime_type",
    "output.mime_type",
    "llm.usage.total_tokens",
    "virtual_parent.genai",
    "agent_name",
    "graph.node.id",
)
_READ = frozenset(
    (
        *_MESSAGES,
        *_TOOL_NAMES,
        *_TOOL_CALL_IDS,
        *_TOOL_ARGUMENTS,
        *_TOOL_OUTPUTS,
        *_OTHER_READ,
    )
)
_READ_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "gen_ai.usage.",
    "gen_ai.agent.",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.prompts.",
    "llm.token_count.",
    "ai.usage.",
)
_USUAL_FINISH_REASONS = (
    "stop",
    "tool_calls",
    "tool_call",
    "end_turn",
    "tool_use",
    "tool-calls",
)


def count_unread(span: Span) -> tuple[bool, int]:
    """Return whether a span has unread technical attributes, and how many unread texts it has."""
    has_technical = False
    texts = 0
    for name, value in span.attributes.items():
        if name in _READ or name.startswith(_READ_PREFIXES):
            continue
        if name.startswith(UNNAMED_PREFIX) or _is_text(value):
            texts += 1
        else:
            has_technical = True
    return has_technical, texts


def _is_text(value: Any) -> bool:
    """Return whether a value may be something that a person or a model wrote."""
    if isinstance(value, str):
        return len(value) >= _MIN_TEXT_LENGTH and " " in value
    return isinstance(value, list | dict)


def get_kind(span: Span) -> str:
    """Return what a span is a call of: `chat` (a model), `agent`, `tool`, or `other`."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, "other")
    openinference_kind = attributes.get("openinference.span.kind")
    if isinstance(openinference_kind, str):
        return _OPENINFERENCE_KINDS.get(openinference_kind, "other")
    traceloop_kind = attributes.get("traceloop.span.kind")
    if isinstance(traceloop_kind, str):
        return _TRACELOOP_KINDS.get(traceloop_kind, "other")
    if "gen_ai.tool.name" in attributes or "ai.toolCall.name" in attributes:
        return "tool"
    if any(name in attributes for name in (*_INPUT_MESSAGES, *_OUTPUT_MESSAGES)):
        return "chat"
    if not _has_genai_attributes(span):
        return "other"
    return _OPERATIONS.get(span.name.partition(" ")[0], "other")


def _has_genai_attributes(span: Span) -> bool:
    return any(name.startswith(("gen_ai.", "llm.")) for name in span.attributes)


def is_model_related(span: Span) -> bool:
    """Return whether a span has to do with a model at all."""
    return get_kind(span) != "other" or _has_genai_attributes(span)


def has_messages(span: Span) -> bool:
    """Return whether a span holds anything of what was asked or answered."""
    return bool(span.events) or any(name in span.attributes for name in _MESSAGES)


def get_model(span: Span) -> tuple[str | None, str | None]:
    """Return the model that answered and its provider."""
    model = as_text(get_first(span.attributes, *_MODELS))
    provider = as_text(get_first(span.attributes, *_PROVIDERS))
    if provider == "other":
        provider = None
    return model, identify_provider(model, provider)


def get_agent(span: Span) -> tuple[str, str | None]:
    """Return the name of an agent, and the id that its runtime gave it."""
    name = as_text(get_first(span.attributes, *_AGENT_NAMES))
    if not name:
        name = span.name.removeprefix("invoke_agent ") or "agent"
    return name, as_text(span.attributes.get("gen_ai.agent.id"))


def get_usage(span: Span) -> Usage | None:
    """Return token counts; the totals include cached and reasoning tokens."""
    return build_usage(
        input_tokens=_get_count(
            span,
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
            "ai.usage.promptTokens",
        ),
        output_tokens=_get_count(
            span,
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
            "ai.usage.completionTokens",
        ),
        reasoning_tokens=_get_count(
            span,
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "llm.token_count.completion_details.reasoning",
        ),
        cache_read_tokens=_get_count(
            span,
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "llm.token_count.prompt_details.cache_read",
        ),
        cache_write_tokens=_get_count(
            span,
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "llm.token_count.prompt_details.cache_write",
        ),
    )


def _get_count(span: Span, *names: str) -> Any:
    """Return a count; some exporters write every attribute as text."""
    value = get_first(span.attributes, *names)
    if isinstance(value, str) and value.isdecimal() and len(value) < 18:
        return int(value)
    return value


def get_answer_facts(span: Span) -> JsonObject:
    """Return why an answer ended, when that is unusual, and what it cost."""
    attributes = span.attributes
    facts: JsonObject = {}
    reasons = get_first(attributes, "gen_ai.response.finish_reasons", "ai.response.finishReason")
    if not isinstance(reasons, list):
        reasons = [reasons]
    unusual = [
        reason
        for reason in reasons
        if isinstance(reason, str) and reason not in _USUAL_FINISH_REASONS
    ]
    if unusual:
        facts["finish_reason"] = unusual[0] if len(unusual) == 1 else unusual
    cost: JsonObject = {}
    for side in ("input", "output"):
        value = attributes.get(f"gen_ai.usage.{side}_cost")
        if isinstance(value, int | float):
            cost[side] = value
    if cost:
        facts["cost"] = cost
    return facts


def get_tool_call(span: Span) -> ToolCallPart:
    """Return the call that a span of a tool executed."""
    attributes = span.attributes
    name = as_text(get_first(attributes, *_TOOL_NAMES))
    if not name:
        name = span.name.removeprefix("execute_tool ") or "tool"
    tool_type = as_text(attributes.get("gen_ai.tool.type"))
    extra = {"tool_type": tool_type} if tool_type and tool_type != "function" else None
    call_id = as_text(get_first(attributes, *_TOOL_CALL_IDS))
    return ToolCallPart(
        call_id, name, parse_arguments(get_first(attributes, *_TOOL_ARGUMENTS)), extra
    )


def get_tool_output(span: Span) -> Any:
    """Return what the tool returned; None when the span does not hold it."""
    return get_first(span.attributes, *_TOOL_OUTPUTS)
