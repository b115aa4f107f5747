"""What the attributes of a span say, in the dialects that instrumentations speak."""

from typing import Any

from open_token.formats.otel_genai.spans import NAMELESS, Span
from open_token.formats.shared.fields import JsonObject, as_text, get_first, parse_arguments
from open_token.formats.shared.messages import ToolCallPart
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

_LONG = 40
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
_OPENINFERENCE = {"LLM": "chat", "AGENT": "agent", "TOOL": "tool"}
_TRACELOOP = {"agent": "agent", "tool": "tool"}
_ASKED = (
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "llm.input_messages.0.message.role",
    "llm.prompts.0",
    "ai.prompt.messages",
    "events",
)
_ANSWERED = (
    "gen_ai.output.messages",
    "gen_ai.completion",
    "gen_ai.completion.0.content",
    "ai.response.text",
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TOOL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "tool.id")
_GIVEN = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "tool_arguments",
    "ai.toolCall.args",
    "tool.parameters",
    "input.value",
    "traceloop.entity.input",
)
_GOT = (
    "gen_ai.tool.call.result",
    "gen_ai.output",
    "tool_response",
    "ai.toolCall.result",
    "output.value",
    "traceloop.entity.output",
)
_BESIDE = (
    "gen_ai.operation.name gen_ai.output.type gen_ai.conversation.id gen_ai.response.finish_reasons gen_ai.system"
    " gen_ai.provider.name gen_ai.tool.type gen_ai.tool.description gen_ai.system_instructions"
    " gen_ai.system_instruction openinference.span.kind traceloop.span.kind session.id llm.model_name llm.provider"
    " llm.system ai.model.id ai.model.provider ai.response.toolCalls ai.response.finishReason all_messages_events"
    " pydantic_ai.all_messages final_result input.mime_type output.mime_type llm.usage.total_tokens"
    " virtual_parent.genai agent_name graph.node.id".split()
)
_READ = frozenset((*_ASKED, *_ANSWERED, *_TOOL_NAMES, *_TOOL_IDS, *_GIVEN, *_GOT, *_BESIDE))
_READ_FAMILIES = (
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


def unread(span: Span) -> tuple[bool, int]:
    """Whether a span has attributes that are not told, and how many of them hold text that somebody
    may have said."""
    left = [
        name
        for name in span.attributes
        if name not in _READ and not name.startswith(_READ_FAMILIES)
    ]
    words = sum(name.startswith(NAMELESS) or _is_text(span.attributes[name]) for name in left)
    return len(left) > words, words


def _is_text(value: Any) -> bool:
    return isinstance(value, list | dict) or (
        isinstance(value, str) and len(value) >= _LONG and " " in value
    )


def kind_of(span: Span) -> str:
    """What a span is a call of: `chat` (a model), `agent`, `tool`, or `other`."""
    given = span.attributes
    operation = given.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, "other")
    for key, kinds in (
        ("openinference.span.kind", _OPENINFERENCE),
        ("traceloop.span.kind", _TRACELOOP),
    ):
        if isinstance(word_given := given.get(key), str):
            return kinds.get(word_given, "other")
    if any(name in given for name in ("gen_ai.tool.name", "ai.toolCall.name")):
        return "tool"
    if any(name in given for name in (*_ASKED[:-1], *_ANSWERED)):
        return "chat"
    first_word = span.name.partition(" ")[0]
    return _OPERATIONS.get(first_word, "other") if _is_genai(span) else "other"


def _is_genai(span: Span) -> bool:
    return any(name.startswith(("gen_ai.", "llm.")) for name in span.attributes)


def is_talk(span: Span) -> bool:
    """Whether a span has to do with a model at all."""
    return kind_of(span) != "other" or _is_genai(span)


def is_wordless(span: Span) -> bool:
    """Whether a span says nothing of what was asked or answered."""
    return not span.moments and not any(name in span.attributes for name in (*_ASKED, *_ANSWERED))


def model_of(span: Span) -> tuple[str | None, str | None]:
    """The model that answered and its provider."""
    given = span.attributes
    names = (
        "gen_ai.response.model",
        "gen_ai.request.model",
        "llm.model_name",
        "ai.model.id",
        "model_name",
    )
    model = as_text(get_first(given, *names))
    named = as_text(
        get_first(
            given,
            "gen_ai.provider.name",
            "gen_ai.system",
            "llm.provider",
            "llm.system",
            "ai.model.provider",
        )
    )
    return model, identify_provider(model, named if named != "other" else None)


def agent_of(span: Span) -> tuple[str, str | None]:
    """The name of an agent, and the id that its runtime gave it."""
    given = span.attributes
    name = as_text(
        get_first(
            given,
            "gen_ai.agent.name",
            "agent.name",
            "agent_name",
            "graph.node.id",
            "traceloop.entity.name",
        )
    )
    return name or span.name.removeprefix("invoke_agent ") or "agent", as_text(
        given.get("gen_ai.agent.id")
    )


def usage_of(span: Span) -> Usage | None:
    """Token counts; the sums include cached and reasoning tokens."""
    given = span.attributes

    def count(*names: str) -> Any:
        value = get_first(given, *names)
        return (
            int(value)
            if isinstance(value, str) and value.isdecimal() and len(value) < 18
            else value
        )

    return build_usage(
        input_tokens=count(
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
            "ai.usage.promptTokens",
        ),
        output_tokens=count(
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
            "ai.usage.completionTokens",
        ),
        reasoning_tokens=count(
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "llm.token_count.completion_details.reasoning",
        ),
        cache_read_tokens=count(
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "llm.token_count.prompt_details.cache_read",
        ),
        cache_write_tokens=count(
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "llm.token_count.prompt_details.cache_write",
        ),
    )


def facts_of(span: Span) -> JsonObject:
    """Why an answer ended, when that is unusual, and what it cost."""
    given = span.attributes
    facts: JsonObject = {}
    reasons = get_first(given, "gen_ai.response.finish_reasons", "ai.response.finishReason")
    unusual = [
        reason
        for reason in (reasons if isinstance(reasons, list) else [reasons])
        if isinstance(reason, str)
        and reason not in ("stop", "tool_calls", "tool_call", "end_turn", "tool_use", "tool-calls")
    ]
    if unusual:
        facts["finish_reason"] = unusual[0] if len(unusual) == 1 else unusual
    cost = {
        name: given[key]
        for name, key in (
            ("input", "gen_ai.usage.input_cost"),
            ("output", "gen_ai.usage.output_cost"),
        )
        if isinstance(given.get(key), int | float)
    }
    if cost:
        facts["cost"] = cost
    return facts


def tool_call(span: Span) -> ToolCallPart:
    """The call that a tool's span served."""
    given = span.attributes
    name = (
        as_text(get_first(given, *_TOOL_NAMES)) or span.name.removeprefix("execute_tool ") or "tool"
    )
    kind = as_text(given.get("gen_ai.tool.type"))
    extra = {"tool_type": kind} if kind and kind != "function" else None
    return ToolCallPart(
        as_text(get_first(given, *_TOOL_IDS)),
        name,
        parse_arguments(get_first(given, *_GIVEN)),
        extra,
    )


def tool_output(span: Span) -> Any:
    """What the tool gave back; None when the span does not say."""
    return get_first(span.attributes, *_GOT)
