"""Detection of the provider APIs: which dialect a record is in, and what kind of record it is.

All dialects are told apart here, so that no two of their readers can claim the same input.
"""

from typing import Any

import msgspec

from open_token.formats.shared.chat_logs import is_agent_log
from open_token.formats.shared.fields import as_dicts
from open_token.formats.shared.row_shapes import is_dataset
from open_token.sources.source import Source

CHAT = "openai_chat"
ANTHROPIC = "anthropic_messages"
RESPONSES = "openai_responses"
GEMINI = "gemini_api"
BEDROCK = "bedrock_converse"
COHERE = "cohere"

_PREFERENCE = (CHAT, ANTHROPIC, RESPONSES, GEMINI, BEDROCK, COHERE)
_MAX_INSPECTED = 512

# Fields that only records of other formats have.
_FOREIGN_FIELDS = frozenset(
    (
        "uuid parentUuid leafUuid sessionId sessionID session_id projectHash mapping"
        " chat_messages conversations part_kind payload lc kwargs latency_sec trajectory"
        " trajectory_format history info images videos audios threadId thread_id chunkedPrompt"
        " open_token_version schema_version toolInvocations experimental_attachments"
        " usageLedger epoch runId"
    ).split()
)
_FOREIGN_MESSAGE_FIELDS = _FOREIGN_FIELDS | frozenset(
    (
        "created ts parentId message_type agent is_demo modelInfo metrics sender from value"
        " source toolCalls kind extra messageId"
    ).split()
)
_HISTORY_FIELDS = {
    CHAT: "messages",
    ANTHROPIC: "messages",
    RESPONSES: "input",
    GEMINI: "contents",
    BEDROCK: "messages",
    COHERE: "messages",
}
_DIALECTS_OF_ROLE = {
    "user": {CHAT, ANTHROPIC, RESPONSES},
    "assistant": {CHAT, ANTHROPIC, RESPONSES},
    "system": {CHAT, ANTHROPIC, RESPONSES},
    "developer": {CHAT, RESPONSES},
    "tool": {CHAT},
    "function": {CHAT},
}
_GEMINI_ROLES = ("user", "model", "function", "system", "tool", None)

_CHAT_PARTS = frozenset("text image_url input_audio audio_url video_url file refusal".split())
_ANTHROPIC_BLOCKS = frozenset(
    (
        "text image document thinking redacted_thinking tool_use tool_result server_tool_use"
        " mcp_tool_use mcp_tool_result search_result compaction container_upload fallback"
    ).split()
)
_RESPONSES_PARTS = frozenset(
    (
        "input_text output_text input_image input_file input_audio refusal summary_text"
        " reasoning_text"
    ).split()
)
_RESPONSES_ITEMS = frozenset(
    (
        "web_search_call file_search_call computer_call code_interpreter_call"
        " image_generation_call local_shell_call shell_call apply_patch_call mcp_call"
        " mcp_list_tools item_reference compaction"
    ).split()
)
_GEMINI_PARTS = frozenset(
    (
        "text inlineData fileData functionCall functionResponse executableCode"
        " codeExecutionResult toolCall toolResponse thought thoughtSignature inline_data"
        " file_data function_call function_response executable_code code_execution_result"
        " tool_call tool_response thought_signature"
    ).split()
)
# A block of Bedrock has one field, which says what it is.
_BEDROCK_BLOCKS = frozenset(
    (
        "text image document video audio toolUse toolResult reasoningContent cachePoint"
        " guardContent citationsContent searchResult"
    ).split()
)
_BEDROCK_EVENTS = frozenset(
    (
        "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata"
        " internalServerException modelStreamErrorException validationException"
        " throttlingException serviceUnavailableException"
    ).split()
)
_COHERE_EVENTS = frozenset(
    (
        "message-start content-start content-delta content-end tool-plan-delta tool-call-start"
        " tool-call-delta tool-call-end citation-start citation-end message-end"
    ).split()
)
_COHERE_FINISH_REASONS = frozenset(
    "COMPLETE STOP_SEQUENCE MAX_TOKENS TOOL_CALL ERROR TIMEOUT".split()
)
_COHERE_SETTINGS = frozenset("documents citation_options safety_mode strict_tools".split())
_COHERE_MODELS = ("command", "c4ai-")
_ANTHROPIC_EVENTS = frozenset(
    (
        "message_start content_block_start content_block_delta content_block_stop message_delta"
        " message_stop ping"
    ).split()
)
# Requests for speech or embeddings have an `input`, too.
_OTHER_API_FIELDS = frozenset("voice encoding_format dimensions".split())
_CHAT_SETTINGS = frozenset(
    (
        "n stream_options response_format max_completion_tokens frequency_penalty"
        " presence_penalty logprobs logit_bias seed functions function_call"
        " parallel_tool_calls reasoning_effort"
    ).split()
)
_ANTHROPIC_SETTINGS = frozenset(
    (
        "system anthropic_version anthropic_beta stop_sequences thinking mcp_servers container"
        " betas"
    ).split()
)

# The names and wrappers that recorders give to the two sides of an exchange.
_REQUEST_NAMES = ("request", "request_body", "requestBody", "req")
_RESPONSE_NAMES = ("response", "response_body", "responseBody", "resp", "res")
_BODY_NAMES = ("parsed_body", "body", "json", "string")
_MAX_WRAPPERS = 3
_INVOCATION_LOG = "ModelInvocationLog"
_HISTORY_NAMES = ("messages", "contents", "input")
_BODY_FIELDS = frozenset(
    (*_HISTORY_NAMES, "choices", "candidates", "output", "type", "role", "error")
)


class Classification(msgspec.Struct, frozen=True):
    """What a record is (request, response, pair, message, chunk), and in which dialects.

    `likely` is the dialect to prefer where several fit.
    """

    kind: str
    dialects: frozenset[str]
    likely: str | None = None


def detect_dialect(source: Source) -> str | None:
    """Return the dialect that every record of the source fits; None if there is none."""
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0][:_MAX_INSPECTED]
        if is_cline_task(sample):
            return None
    if not sample or is_agent_log(sample) or is_dataset(source):
        return None
    fitting = frozenset(_PREFERENCE)
    likely = None
    for record in sample:
        classification = classify_record(record)
        if classification is None:
            return None
        fitting &= classification.dialects
        likely = likely or classification.likely
    if likely in fitting:
        return likely
    return next((name for name in _PREFERENCE if name in fitting), None)


def is_cline_task(messages: list[Any]) -> bool:
    """Return whether a list of Anthropic messages is a task of Cline or one of its forks.

    Their files are bare lists of messages; each user turn ends with a block that they inject.
    """
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    content = first.get("content")
    if isinstance(content, str):
        return content.lstrip().startswith("<task>") and "<environment_details>" in content
    texts = (str(block.get("text", "")).lstrip() for block in as_dicts(content))
    return any(text.startswith(("<task>", "<environment_details>")) for text in texts)


def classify_record(record: Any) -> Classification | None:
    """Return what a record is; None if it belongs to no dialect."""
    if not isinstance(record, dict) or not _FOREIGN_FIELDS.isdisjoint(record):
        return None
    if _is_converse_log(record):
        return Classification("pair", frozenset((BEDROCK,)))
    exchange = split_exchange(record)
    if exchange is not None:
        return _classify_exchange(*exchange)
    return (
        _classify_request(record)
        or _classify_response(record)
        or _classify_chunk(record)
        or _classify_message(record)
    )


def get_record_kind(record: Any, dialect: str) -> str | None:
    """Return what a record is to the reader of a dialect.

    Once a reader is chosen, the outer shape decides, even if the content is new or malformed.
    """
    if not isinstance(record, dict):
        return None
    if "role" in record and "stop_reason" not in record and "usage" not in record:
        if dialect == GEMINI:
            has_content = "parts" in record
        else:
            has_content = any(name in record for name in ("content", "tool_calls", "function_call"))
        return "message" if has_content else None
    classification = classify_record(record)
    if classification is not None and dialect in classification.dialects:
        return classification.kind
    if split_exchange(record) is not None:
        return "pair"
    if isinstance(record.get(_HISTORY_FIELDS[dialect]), list):
        return "request"
    if dialect == RESPONSES and isinstance(record.get("type"), str):
        return "message"
    return None


def _classify_exchange(request: Any, response: Any) -> Classification | None:
    if not isinstance(request, dict | None) or not isinstance(response, dict | list | None):
        return None
    asked = _classify_request(request) if request is not None else None
    if isinstance(response, list):
        # The events of a stream: the first one tells the dialect.
        response = next((event for event in response if isinstance(event, dict)), None)
    answered = None
    if response:
        answered = _classify_response(response) or _classify_chunk(response)
    if asked is not None and answered is not None:
        return Classification("pair", asked.dialects & answered.dialects, asked.likely)
    known = asked or answered
    return Classification("pair", known.dialects, known.likely) if known else None


def _classify_request(body: dict[str, Any]) -> Classification | None:
    if isinstance(body.get("messages"), list):
        return _classify_messages_request(body)
    if "contents" in body:
        dialect = GEMINI if _is_gemini_request(body) else None
    else:
        dialect = RESPONSES if _is_responses_request(body) else None
    return Classification("request", frozenset((dialect,))) if dialect else None


def _classify_messages_request(body: dict[str, Any]) -> Classification | None:
    if str(body.get("id", "")).startswith("T-"):
        return None  # a thread of Amp
    fitting = _find_tool_dialects(body.get("tools"))
    for message in body["messages"][:_MAX_INSPECTED]:
        classification = _classify_message(message)
        if classification is None:
            return None
        fitting &= classification.dialects
    if not fitting or not (body["messages"] or "model" in body):
        return None
    return Classification("request", fitting, _guess_messages_dialect(body))


def _find_tool_dialects(tools: Any) -> frozenset[str]:
    dialects = frozenset((CHAT, ANTHROPIC, BEDROCK, COHERE))
    for tool in as_dicts(tools):
        if isinstance(tool.get("function"), dict):
            dialects &= {CHAT, COHERE}
        elif "input_schema" in tool:
            dialects &= {ANTHROPIC}
    return dialects


def _guess_messages_dialect(body: dict[str, Any]) -> str:
    """Return the likeliest of the dialects whose requests have `messages`."""
    path = str(body.get("path", ""))
    model = str(body.get("model", ""))
    if not _COHERE_SETTINGS.isdisjoint(body) or model.startswith(_COHERE_MODELS):
        return COHERE
    if "chat/completions" in path or not _CHAT_SETTINGS.isdisjoint(body):
        return CHAT
    if "v1/messages" in path or not _ANTHROPIC_SETTINGS.isdisjoint(body):
        return ANTHROPIC
    is_claude = model.startswith("claude") or "anthropic.claude" in model
    return ANTHROPIC if is_claude and "max_tokens" in body else CHAT


def _is_gemini_request(body: dict[str, Any]) -> bool:
    contents = body["contents"]
    names_model = any(
        name in body for name in ("model", "config", "generationConfig", "generation_config")
    )
    if isinstance(contents, str):
        return names_model
    if isinstance(contents, dict):
        return _is_gemini_content(contents)
    if not isinstance(contents, list):
        return False
    known = [
        _is_gemini_content(item) or (names_model and isinstance(item, str))
        for item in contents[:_MAX_INSPECTED]
    ]
    return all(known) or (any(known) and all(map(_has_content_shape, contents)))


def _is_responses_request(body: dict[str, Any]) -> bool:
    model = str(body.get("model", ""))
    if not _OTHER_API_FIELDS.isdisjoint(body) or "embed" in model or "moderation" in model:
        return False
    names_model = any(
        body.get(name) for name in ("model", "instructions", "previous_response_id", "conversation")
    )
    items = body.get("input")
    if isinstance(items, str):
        return names_model
    if not isinstance(items, list) or not (names_model or items):
        return False
    known = []
    for item in items[:_MAX_INSPECTED]:
        classification = _classify_message(item)
        known.append(classification is not None and RESPONSES in classification.dialects)
    return all(known) or (names_model and any(known) and all(map(_has_item_shape, items)))


def _has_item_shape(item: Any) -> bool:
    """Return whether a value may be a Responses item of a type that is not known here.

    OpenAI adds item types faster than a list of them can follow.
    """
    if not isinstance(item, dict) or not _FOREIGN_MESSAGE_FIELDS.isdisjoint(item):
        return False
    return isinstance(item.get("type" if "type" in item else "role"), str)


def _classify_response(body: dict[str, Any]) -> Classification | None:
    if _is_responses_response(body):
        dialect = RESPONSES
    elif _is_chat_response(body):
        dialect = CHAT
    elif _is_anthropic_response(body):
        dialect = ANTHROPIC
    elif _is_bedrock_response(body):
        dialect = BEDROCK
    elif isinstance(body.get("message"), dict) and _is_cohere_end(body.get("finish_reason")):
        dialect = COHERE
    else:
        return None
    return Classification("response", frozenset((dialect,)))


def _is_responses_response(body: dict[str, Any]) -> bool:
    if body.get("object") == "response":
        return True
    return str(body.get("id", "")).startswith("resp_") and isinstance(body.get("output"), list)


def _is_chat_response(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    return all(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices
    )


def _is_anthropic_response(body: dict[str, Any]) -> bool:
    if body.get("type") != "message" or body.get("role") != "assistant":
        return False
    if not isinstance(body.get("content"), list):
        return False
    return "stop_reason" in body or ("usage" in body and "model" in body)


def _is_cohere_end(reason: Any) -> bool:
    return isinstance(reason, str) and reason in _COHERE_FINISH_REASONS


def _is_bedrock_response(body: dict[str, Any]) -> bool:
    output = body.get("output")
    if not isinstance(output, dict) or "stopReason" not in body:
        return False
    return isinstance(output.get("message"), dict)


def _classify_chunk(body: dict[str, Any]) -> Classification | None:
    dialects = _find_chunk_dialects(body)
    return Classification("chunk", frozenset(dialects)) if dialects else None


def _find_chunk_dialects(body: dict[str, Any]) -> tuple[str, ...]:
    kind = body.get("type")
    if isinstance(kind, str):
        if kind in _ANTHROPIC_EVENTS:
            return (ANTHROPIC,)
        if kind in _COHERE_EVENTS:
            return (COHERE,)
        if kind == "error" and isinstance(body.get("error"), dict):
            return (ANTHROPIC, RESPONSES)
        if kind.startswith("response.") or (kind == "error" and "sequence_number" in body):
            return (RESPONSES,)
        return ()
    if _is_chat_chunk(body):
        return (CHAT,)
    if _is_bedrock_event(body):
        return (BEDROCK,)
    return (GEMINI,) if _is_gemini_response(body) else ()


def _is_chat_chunk(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    if not isinstance(choices, list):
        return False
    if body.get("object") == "chat.completion.chunk":
        return True
    return any(isinstance(choice, dict) and "delta" in choice for choice in choices)


def _is_bedrock_event(body: dict[str, Any]) -> bool:
    if len(body) != 1 or _BEDROCK_EVENTS.isdisjoint(body):
        return False
    name, value = next(iter(body.items()))
    if not isinstance(value, dict):
        return False
    return name != "metadata" or "usage" in value or "metrics" in value


def _is_gemini_response(body: dict[str, Any]) -> bool:
    has_usage = "usageMetadata" in body or "usage_metadata" in body
    candidates = body.get("candidates")
    if candidates is None:
        # The last chunk of a stream may hold nothing but the usage.
        return has_usage and any(
            name in body
            for name in ("modelVersion", "model_version", "promptFeedback", "prompt_feedback")
        )
    if not isinstance(candidates, list):
        return False
    known_fields = {"content", "finishReason", "finish_reason"}
    return all(
        isinstance(candidate, dict) and (has_usage or known_fields & candidate.keys())
        for candidate in candidates
    )


def _classify_message(message: Any) -> Classification | None:
    if not isinstance(message, dict) or not _FOREIGN_MESSAGE_FIELDS.isdisjoint(message):
        return None
    if "parts" in message:
        fitting = frozenset((GEMINI,)) if _is_gemini_content(message) else frozenset()
    elif "type" in message and message["type"] != "message":
        fitting = frozenset((RESPONSES,)) if _is_responses_item(message) else frozenset()
    else:
        fitting = _find_message_dialects(message)
    return Classification("message", fitting) if fitting else None


def _find_message_dialects(message: dict[str, Any]) -> frozenset[str]:
    """Return the dialects that a message with a role may be in."""
    role = message.get("role")
    if not isinstance(role, str):
        return frozenset()
    if role in ("assistant", "tool") and _has_cohere_fields(message):
        return frozenset((COHERE,))
    fitting = _find_common_dialects(message, role)
    # Without a field of its own, a message of Cohere is one of the chat dialect.
    return fitting | {COHERE} if CHAT in fitting else fitting


def _has_cohere_fields(message: dict[str, Any]) -> bool:
    """Return whether a message has what only Cohere has: a plan, documents as a result, citations."""
    if isinstance(message.get("tool_plan"), str):
        return True
    if any("sources" in citation for citation in as_dicts(message.get("citations"))):
        return True
    return any(isinstance(part.get("document"), dict) for part in as_dicts(message.get("content")))


def _find_common_dialects(message: dict[str, Any], role: str) -> frozenset[str]:
    """Return the dialects that fit by role, fields and parts."""
    fitting = frozenset(_DIALECTS_OF_ROLE.get(role, ()))
    if message.get("type") == "message":
        fitting &= {RESPONSES}
    if any(name in message for name in ("tool_calls", "function_call", "tool_call_id")):
        fitting &= {CHAT}
    elif "content" not in message:
        return frozenset()
    content = message.get("content")
    if content is None or isinstance(content, str):
        return fitting
    if not isinstance(content, list):
        return frozenset()
    if role in ("user", "assistant") and _is_bedrock_content(content):
        return frozenset((BEDROCK,))
    for part in content:
        fitting &= _find_part_dialects(part)
    return fitting


def _is_bedrock_content(content: list[Any]) -> bool:
    """Return whether every block has one field, and one of these fields is a known kind."""
    if not all(isinstance(block, dict) and len(block) == 1 for block in content):
        return False
    for block in content:
        name, value = next(iter(block.items()))
        if name in _BEDROCK_BLOCKS and isinstance(value, str if name == "text" else dict):
            return True
    return False


def _find_part_dialects(part: Any) -> set[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return set()
    dialects = set()
    # Mistral, which speaks the chat dialect, has thinking parts with a list of pieces.
    if kind in _CHAT_PARTS or (kind == "thinking" and isinstance(part.get("thinking"), list)):
        dialects.add(CHAT)
    elif kind in _ANTHROPIC_BLOCKS or kind.endswith("_tool_result"):
        dialects.add(ANTHROPIC)
    if kind == "text":
        dialects.add(ANTHROPIC)
    if kind in _RESPONSES_PARTS:
        dialects.add(RESPONSES)
    return dialects


def _is_responses_item(item: dict[str, Any]) -> bool:
    kind = item["type"]
    if not isinstance(kind, str):
        return False
    if kind in ("function_call", "custom_tool_call"):
        return "call_id" in item and "name" in item
    if kind == "reasoning":
        return isinstance(item.get("summary"), list)
    if kind.endswith("_call_output"):
        return "call_id" in item
    return kind in _RESPONSES_ITEMS or kind.startswith("mcp_approval_")


def _is_gemini_content(value: Any) -> bool:
    return _has_content_shape(value) and all(_GEMINI_PARTS & part.keys() for part in value["parts"])


def _has_content_shape(value: Any) -> bool:
    """Return whether a value may be a Gemini content, whatever its parts are."""
    if not isinstance(value, dict) or not isinstance(value.get("parts"), list):
        return False
    if "id" in value or "type" in value or value.get("role", "user") not in _GEMINI_ROLES:
        return False
    return all(
        isinstance(part, dict) and "type" not in part and "kind" not in part
        for part in value["parts"]
    )


def split_exchange(record: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the request and the response of a record that holds either under a common name.

    None means that the record holds neither.
    """
    if record.get("schemaType") == _INVOCATION_LOG:
        return _split_invocation_log(record)
    request = next((record[name] for name in _REQUEST_NAMES if name in record), None)
    response = next((record[name] for name in _RESPONSE_NAMES if name in record), None)
    if request is None and response is None:
        return None
    # Events of a Responses stream hold a response, too.
    if str(record.get("type", "")).startswith("response."):
        return None
    if request is None and any(name in record for name in _HISTORY_NAMES):
        request = {name: value for name, value in record.items() if name not in _RESPONSE_NAMES}
    return _unwrap_body(request), _unwrap_body(response)


def _is_converse_log(record: dict[str, Any]) -> bool:
    """Return whether a record is an entry of Bedrock's invocation log, for the Converse API."""
    if record.get("schemaType") != _INVOCATION_LOG:
        return False
    return str(record.get("operation", "")).startswith("Converse")


def _split_invocation_log(record: dict[str, Any]) -> tuple[Any, Any]:
    """Return the bodies of an entry of Bedrock's invocation log, with its model and time."""
    request = _get_logged_body(record, "input")
    response = _get_logged_body(record, "output")
    if isinstance(request, dict):
        name = "modelId" if _is_converse_log(record) else "model"
        request = {name: record.get("modelId"), **request}
    facts = {"timestamp": record["timestamp"]} if "timestamp" in record else {}
    if isinstance(record.get("errorCode"), str):
        facts["error"] = {"code": record["errorCode"]}
    if isinstance(response, dict):
        response = {**facts, **response}
    elif response is None and "error" in facts:
        response = facts
    elif isinstance(response, list) and response and isinstance(response[0], dict):
        response = [{**facts, **response[0]}, *response[1:]]
    return request, response


def _get_logged_body(record: dict[str, Any], side: str) -> Any:
    part = record.get(side)
    return _unwrap_body(part.get(f"{side}BodyJson")) if isinstance(part, dict) else None


def _unwrap_body(value: Any, depth: int = 0) -> Any:
    """Return a body without its wrapping: JSON text, event-stream text, an object with a `body`."""
    if isinstance(value, str):
        return _parse_body_text(value)
    if not isinstance(value, dict) or depth >= _MAX_WRAPPERS:
        return value
    if not _BODY_FIELDS.isdisjoint(value):
        return value
    inner = next((value[name] for name in _BODY_NAMES if value.get(name)), None)
    return value if inner is None else _unwrap_body(inner, depth + 1)


def _parse_body_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        pass
    lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(msgspec.json.decode(line))
        except (ValueError, RecursionError):
            # The last event of a stream is often cut off, or not JSON: `[DONE]`.
            if number < len(lines):
                return text
    return events or text
