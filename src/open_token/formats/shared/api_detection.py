"""Tells the dialects of the providers apart in one place, so that no two of their readers can claim
one input."""

from typing import Any

import msgspec

from open_token.formats.shared.request_pairs import split
from open_token.sources.source import Source

CHAT, ANTHROPIC, RESPONSES, GEMINI = (
    "openai_chat",
    "anthropic_messages",
    "openai_responses",
    "gemini_api",
)
_ORDER = (CHAT, ANTHROPIC, RESPONSES, GEMINI)
_LOOKED_AT = 512

_FOREIGN = frozenset(
    "uuid parentUuid leafUuid sessionId sessionID session_id projectHash mapping chat_messages conversations part_kind"
    " payload lc kwargs latency_sec trajectory trajectory_format history info images videos audios threadId thread_id"
    " chunkedPrompt open_token_version schema_version toolInvocations experimental_attachments usageLedger"
    " epoch runId".split()
)
_FOREIGN_IN_MESSAGE = _FOREIGN | frozenset(
    "created ts parentId message_type agent is_demo modelInfo metrics sender from value source toolCalls kind"
    " extra messageId".split()
)
_HISTORY = {CHAT: "messages", ANTHROPIC: "messages", RESPONSES: "input", GEMINI: "contents"}

_ROLES = {
    "user": {CHAT, ANTHROPIC, RESPONSES},
    "assistant": {CHAT, ANTHROPIC, RESPONSES},
    "system": {CHAT, ANTHROPIC, RESPONSES},
    "developer": {CHAT, RESPONSES},
    "tool": {CHAT},
    "function": {CHAT},
}
_CHAT_PARTS = frozenset("text image_url input_audio audio_url video_url file refusal".split())
_ANTHROPIC_BLOCKS = frozenset(
    "text image document thinking redacted_thinking tool_use tool_result server_tool_use mcp_tool_use mcp_tool_result"
    " search_result compaction container_upload fallback".split()
)
_RESPONSES_PARTS = frozenset(
    "input_text output_text input_image input_file input_audio refusal summary_text reasoning_text".split()
)
_GEMINI_PARTS = frozenset(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse"
    " thought thoughtSignature inline_data file_data function_call function_response executable_code"
    " code_execution_result tool_call tool_response thought_signature".split()
)
_ANTHROPIC_EVENTS = frozenset(
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping".split()
)
_OTHER_INPUTS = frozenset("voice encoding_format dimensions".split())
_CHAT_SETTINGS = frozenset(
    "n stream_options response_format max_completion_tokens frequency_penalty presence_penalty logprobs logit_bias seed"
    " functions function_call parallel_tool_calls reasoning_effort".split()
)
_ANTHROPIC_SETTINGS = frozenset(
    "system anthropic_version anthropic_beta stop_sequences thinking mcp_servers container betas".split()
)


class Look(msgspec.Struct, frozen=True):
    """What a record is (request, response, pair, message, chunk), in which dialects, and which of
    them is likelier."""

    kind: str
    dialects: frozenset[str]
    likely: str | None = None


def spoken(source: Source) -> str | None:
    """The one dialect that every record of the source fits; None when there is none."""
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0][:_LOOKED_AT]
        if is_task_of_cline(sample):
            return None
    fitting: frozenset[str] = frozenset(_ORDER)
    likely = None
    for record in sample:
        look = look_at(record)
        if look is None:
            return None
        fitting &= look.dialects
        likely = likely or look.likely
    return _choice(fitting, likely) if sample else None


def is_task_of_cline(messages: list[Any]) -> bool:
    """Cline and its forks keep bare lists of Anthropic messages; each turn of the user ends with
    what they inject."""
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    content = first.get("content")
    if isinstance(content, str):
        return content.lstrip().startswith("<task>") and "<environment_details>" in content
    blocks = (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )
    texts = [str(block.get("text", "")).lstrip() for block in blocks]
    return any(text.startswith(("<task>", "<environment_details>")) for text in texts)


def _choice(fitting: frozenset[str], likely: str | None) -> str | None:
    if likely in fitting:
        return likely
    return next((name for name in _ORDER if name in fitting), None)


def look_at(record: Any) -> Look | None:
    """What a record is; None when it belongs to no dialect."""
    if not isinstance(record, dict) or not _FOREIGN.isdisjoint(record):
        return None
    sides = split(record)
    if sides is not None:
        return _pair(*sides)
    return _request(record) or _response(record) or _chunk(record) or _message(record)


def kind_in(record: Any, dialect: str) -> str | None:
    """What a record is to a reader that was chosen: by its shape alone where its content is new or
    odd."""
    if not isinstance(record, dict):
        return None
    if "role" in record and "stop_reason" not in record and "usage" not in record:
        said = ("parts",) if dialect == GEMINI else ("content", "tool_calls", "function_call")
        return "message" if any(name in record for name in said) else None
    look = look_at(record)
    if look is not None and dialect in look.dialects:
        return look.kind
    if split(record) is not None:
        return "pair"
    if isinstance(record.get(_HISTORY[dialect]), list):
        return "request"
    return "message" if dialect == RESPONSES and isinstance(record.get("type"), str) else None


def _pair(request: Any, response: Any) -> Look | None:
    if not isinstance(request, dict | None) or not isinstance(response, dict | list | None):
        return None
    asked = _request(request) if request is not None else None
    first = (
        next((part for part in response if isinstance(part, dict)), {})
        if isinstance(response, list)
        else response
    )
    told = (_response(first) or _chunk(first)) if first else None
    if asked is None and told is None:
        return None
    if asked is None or told is None:
        known = asked or told
        return Look("pair", known.dialects, known.likely) if known else None
    return Look("pair", asked.dialects & told.dialects, asked.likely)


def _request(body: dict[str, Any]) -> Look | None:
    if isinstance(body.get("messages"), list):
        return _messages_request(body)
    if "contents" in body:
        return Look("request", frozenset((GEMINI,))) if _are_contents(body) else None
    return Look("request", frozenset((RESPONSES,))) if _is_responses_request(body) else None


def _messages_request(body: dict[str, Any]) -> Look | None:
    if str(body.get("id", "")).startswith("T-"):
        return None  # a thread of Amp
    fitting = frozenset((CHAT, ANTHROPIC))
    for message in body["messages"][:_LOOKED_AT]:
        look = _message(message)
        if look is None:
            return None
        fitting &= look.dialects
    fitting &= _tools_dialects(body.get("tools"))
    if not fitting or not (body["messages"] or "model" in body):
        return None
    return Look("request", fitting, _likely(body))


def _tools_dialects(tools: Any) -> frozenset[str]:
    both = frozenset((CHAT, ANTHROPIC))
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            if isinstance(tool.get("function"), dict):
                both &= {CHAT}
            elif "input_schema" in tool:
                both &= {ANTHROPIC}
    return both


def _likely(body: dict[str, Any]) -> str:
    path, model = str(body.get("path", "")), str(body.get("model", ""))
    if "chat/completions" in path or not _CHAT_SETTINGS.isdisjoint(body):
        return CHAT
    is_claude = model.startswith("claude") or "anthropic.claude" in model
    if (
        "v1/messages" in path
        or not _ANTHROPIC_SETTINGS.isdisjoint(body)
        or (is_claude and "max_tokens" in body)
    ):
        return ANTHROPIC
    return CHAT


def _are_contents(body: dict[str, Any]) -> bool:
    contents = body["contents"]
    named = any(
        name in body for name in ("model", "config", "generationConfig", "generation_config")
    )
    if isinstance(contents, str):
        return named
    if isinstance(contents, dict):
        return _is_content(contents)
    if not isinstance(contents, list):
        return False
    known = [
        _is_content(item) or (named and isinstance(item, str)) for item in contents[:_LOOKED_AT]
    ]
    return all(known) or (any(known) and all(map(_may_be_content, contents)))


def _is_responses_request(body: dict[str, Any]) -> bool:
    given = body.get("input")
    model = str(body.get("model", ""))
    if not _OTHER_INPUTS.isdisjoint(body) or "embed" in model or "moderation" in model:
        return False
    named = any(
        body.get(name) for name in ("model", "instructions", "previous_response_id", "conversation")
    )
    if isinstance(given, str):
        return named
    if not isinstance(given, list) or not (named or given):
        return False
    known = [
        look is not None and RESPONSES in look.dialects
        for look in map(_message, given[:_LOOKED_AT])
    ]
    return all(known) or (named and any(known) and all(map(_may_be_item, given)))


def _may_be_item(item: Any) -> bool:
    """Whether it is an item by its shape: OpenAI adds kinds of items faster than a list of them can
    follow."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("type" if "type" in item else "role"), str)
        and _FOREIGN_IN_MESSAGE.isdisjoint(item)
    )


def _response(body: dict[str, Any]) -> Look | None:
    if body.get("object") == "response" or (
        str(body.get("id", "")).startswith("resp_") and isinstance(body.get("output"), list)
    ):
        return Look("response", frozenset((RESPONSES,)))
    choices = body.get("choices")
    if (
        isinstance(choices, list)
        and choices
        and all(isinstance(c, dict) and isinstance(c.get("message"), dict) for c in choices)
    ):
        return Look("response", frozenset((CHAT,)))
    return Look("response", frozenset((ANTHROPIC,))) if _is_anthropic_response(body) else None


def _is_anthropic_response(body: dict[str, Any]) -> bool:
    if (
        body.get("type") != "message"
        or body.get("role") != "assistant"
        or not isinstance(body.get("content"), list)
    ):
        return False
    return "stop_reason" in body or ("usage" in body and "model" in body)


def _chunk(body: dict[str, Any]) -> Look | None:
    kind = body.get("type")
    if isinstance(kind, str):
        if kind in _ANTHROPIC_EVENTS:
            return Look("chunk", frozenset((ANTHROPIC,)))
        if kind == "error" and isinstance(body.get("error"), dict):
            return Look("chunk", frozenset((ANTHROPIC, RESPONSES)))
        if kind == "error" and "sequence_number" in body:
            return Look("chunk", frozenset((RESPONSES,)))
        return Look("chunk", frozenset((RESPONSES,))) if kind.startswith("response.") else None
    choices = body.get("choices")
    if isinstance(choices, list) and (
        body.get("object") == "chat.completion.chunk"
        or any(isinstance(c, dict) and "delta" in c for c in choices)
    ):
        return Look("chunk", frozenset((CHAT,)))
    return Look("chunk", frozenset((GEMINI,))) if _is_gemini_response(body) else None


def _is_gemini_response(body: dict[str, Any]) -> bool:
    usage = "usageMetadata" in body or "usage_metadata" in body
    candidates = body.get("candidates")
    if candidates is None:
        return usage and (
            "modelVersion" in body
            or "model_version" in body
            or "promptFeedback" in body
            or "prompt_feedback" in body
        )
    marks = {"content", "finishReason", "finish_reason"}
    return isinstance(candidates, list) and all(
        isinstance(c, dict) and (usage or marks & c.keys()) for c in candidates
    )


def _message(value: Any) -> Look | None:
    if not isinstance(value, dict) or not _FOREIGN_IN_MESSAGE.isdisjoint(value):
        return None
    if "parts" in value:
        return Look("message", frozenset((GEMINI,))) if _is_content(value) else None
    if "type" in value and value.get("type") != "message":
        return Look("message", frozenset((RESPONSES,))) if _is_item(value) else None
    role = value.get("role")
    fitting = frozenset(_ROLES.get(role, ()) if isinstance(role, str) else ())
    if value.get("type") == "message":
        fitting &= {RESPONSES}
    if any(name in value for name in ("tool_calls", "function_call", "tool_call_id")):
        fitting &= {CHAT}
    elif "content" not in value:
        return None
    for dialects in _content_dialects(value.get("content")):
        fitting &= dialects
    return Look("message", fitting) if fitting else None


def _content_dialects(content: Any) -> list[set[str]]:
    if content is None or isinstance(content, str):
        return []
    if not isinstance(content, list):
        return [set()]
    return [_part_dialects(part) for part in content]


def _part_dialects(part: Any) -> set[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return set()
    found = set()
    if kind in _CHAT_PARTS or (kind == "thinking" and isinstance(part.get("thinking"), list)):
        found.add(CHAT)
    elif kind in _ANTHROPIC_BLOCKS or kind.endswith("_tool_result"):
        found.add(ANTHROPIC)
    if kind == "text":
        found.add(ANTHROPIC)
    if kind in _RESPONSES_PARTS:
        found.add(RESPONSES)
    return found


def _is_item(item: dict[str, Any]) -> bool:
    kind = item["type"]
    if not isinstance(kind, str):
        return False
    if kind in ("function_call", "custom_tool_call"):
        return "call_id" in item and "name" in item
    if kind == "reasoning":
        return isinstance(item.get("summary"), list)
    if kind.endswith("_call_output"):
        return "call_id" in item
    calls = (
        "web_search_call",
        "file_search_call",
        "computer_call",
        "code_interpreter_call",
        "image_generation_call",
    )
    others = (
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_call",
        "mcp_list_tools",
        "item_reference",
        "compaction",
    )
    return kind in calls or kind in others or kind.startswith("mcp_approval_")


def _is_content(value: Any) -> bool:
    return _may_be_content(value) and all(_GEMINI_PARTS & part.keys() for part in value["parts"])


def _may_be_content(value: Any) -> bool:
    """Whether it is a content by its shape, whatever its parts are."""
    if not isinstance(value, dict) or not isinstance(value.get("parts"), list):
        return False
    if (
        value.get("role", "user") not in ("user", "model", "function", "system", "tool", None)
        or "id" in value
        or "type" in value
    ):
        return False
    return all(
        isinstance(part, dict) and "type" not in part and "kind" not in part
        for part in value["parts"]
    )
