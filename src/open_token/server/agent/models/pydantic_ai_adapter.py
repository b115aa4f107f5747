"""Convert messages to those of pydantic-ai, and its event stream to pieces."""

import base64
import binascii
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import StreamedResponse

from open_token.server.agent.model_interface import (
    Attachment,
    Call,
    CallArgumentsPiece,
    CallStart,
    FinishPiece,
    Media,
    Message,
    Piece,
    Result,
    Text,
    TextPiece,
    Thinking,
    ThinkingPiece,
    UsagePiece,
)

_GOOGLE = "google"
_SIGNATURE_KEY = "thought_signature"
"""The key of Google's signatures, which occur on reasoning and on calls."""
_EXTRA_KEY = "extra_content"
"""The same in OpenAI-compatible services of Google."""
_JSON_PREFIX = "json:"
_ID_PREFIX = "id:"
"""A signature with an id of the provider is stored as `id:<id>|<signature>`."""


def to_pydantic_messages(messages: Sequence[Message], system: str) -> list[ModelMessage]:
    """Convert a history; signatures are only sent back to `system`, the provider."""
    converted = (_convert_message(message, system) for message in messages)
    return [message for message in converted if message is not None]


def _convert_message(message: Message, system: str) -> ModelMessage | None:
    if message.role == "assistant":
        response: list[ModelResponsePart] = []
        for part in message.parts:
            response += _convert_response_part(part, system)
        if response:
            return ModelResponse(parts=response)
        return None
    parts: list[ModelRequestPart] = []
    if message.role == "system":
        parts = [SystemPromptPart(part.text) for part in message.parts if isinstance(part, Text)]
    elif message.role == "tool":
        parts = [_convert_result(part) for part in message.parts if isinstance(part, Result)]
    else:
        content: list[UserContent] = []
        for part in message.parts:
            content += _convert_user_part(part)
        if len(content) == 1 and isinstance(content[0], str):
            parts = [UserPromptPart(content[0])]
        elif content:
            parts = [UserPromptPart(content)]
    if parts:
        return ModelRequest(parts=parts)
    return None


def _convert_response_part(part: Any, system: str) -> Iterator[ModelResponsePart]:
    if isinstance(part, Text):
        yield TextPart(part.text)
    elif isinstance(part, Call):
        call = ToolCallPart(part.name, _normalize_arguments(part.arguments), part.id)
        if part.signature:
            call.provider_name = system
            call.provider_details = _build_details(part.signature)
        yield call
    elif isinstance(part, Thinking) and part.signature:
        # Without its signature no provider accepts reasoning back.
        name, signature = unpack_signature(part.signature)
        if system == _GOOGLE:
            yield ThinkingPart(
                part.text, provider_name=system, provider_details={_SIGNATURE_KEY: signature}
            )
        else:
            yield ThinkingPart(part.text, id=name, signature=signature, provider_name=system)


def _normalize_arguments(text: str) -> str:
    """Return arguments as an object.

    Models sometimes write others, and providers reject a history that contains them.
    """
    try:
        arguments = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        arguments = None
    if isinstance(arguments, dict) and text:
        return text
    return msgspec.json.encode({"raw": text}).decode()


def _convert_result(part: Result) -> ToolReturnPart[Any]:
    outcome: Any = "failed" if part.is_error else "success"
    content: Any = part.content
    if not isinstance(content, str):
        content = msgspec.json.encode(content).decode()
    images = [BinaryContent(media.data, media_type=media.media_type) for media in part.media]
    if images:
        content = [content, *images]
    return ToolReturnPart(part.name, content, part.call_id, outcome=outcome)


def _convert_user_part(part: Any) -> Iterator[UserContent]:
    text = part.text if isinstance(part, Text | Attachment) else None
    if text is not None:
        yield text
    elif isinstance(part, Media):
        data = part.data or _decode_data_url(part.url)
        details = {"detail": part.detail} if part.detail else None
        if data:
            yield BinaryContent(data, media_type=part.media_type, vendor_metadata=details)
        elif part.url.startswith(("https:", "http:")):
            yield ImageUrl(part.url, vendor_metadata=details)
        else:
            yield f"[{part.media_type} that cannot be decoded]"


def _decode_data_url(url: str) -> bytes:
    """Return the bytes of a data: URL."""
    head, _, rest = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        return b""
    try:
        return base64.b64decode(rest, validate=True)
    except binascii.Error:
        return b""


def pack_signature(name: str | None, signature: str) -> str:
    """Join a signature and its id into one text."""
    if name:
        return f"{_ID_PREFIX}{name}|{signature}"
    return signature


def unpack_signature(text: str) -> tuple[str | None, str]:
    """Split a text into the id and the signature."""
    if text.startswith(_ID_PREFIX) and "|" in text:
        name, _, signature = text.removeprefix(_ID_PREFIX).partition("|")
        return name, signature
    return None, text


async def to_pieces(stream: StreamedResponse) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of an answer, and finally why it ended and its usage."""
    converter = _EventConverter()
    async for event in stream:
        for piece in converter.convert(event):
            yield piece
    if stream.finish_reason is not None:
        yield FinishPiece(stream.finish_reason)
    yield UsagePiece(to_usage(stream.usage))


class _EventConverter:
    """Tracks the parts of an answer; calls with object arguments are emitted when complete."""

    def __init__(self) -> None:
        self._started_calls: dict[int, str] = {}
        self._unsigned: dict[int, str | None] = {}
        """Ids of unsigned reasoning: OpenAI signs the first of several parts after the last."""
        self._needs_separator = False
        """New reasoning begins right after such a part."""

    def convert(self, event: Any) -> Iterator[Piece]:
        """Yield the pieces of an event."""
        if isinstance(event, PartStartEvent):
            yield from self._start_part(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            yield from self._add_delta(event.index, event.delta)
        elif isinstance(event, PartEndEvent):
            yield from self._end_part(event.index, event.part)

    def _start_part(self, index: int, part: Any) -> Iterator[Piece]:
        if isinstance(part, TextPart) and part.content:
            yield TextPiece(part.content)
        elif isinstance(part, ThinkingPart):
            self._needs_separator = index - 1 in self._unsigned
            yield from self._add_thinking(part.content)
        elif isinstance(part, ToolCallPart) and not isinstance(part.args, dict):
            self._started_calls[index] = part.tool_call_id
            yield CallStart(part.tool_call_id, part.tool_name, _get_signature(part))
            if part.args:
                yield CallArgumentsPiece(part.tool_call_id, part.args)

    def _add_thinking(self, text: str | None) -> Iterator[Piece]:
        if text:
            yield ThinkingPiece(f"\n\n{text}" if self._needs_separator else text)
            self._needs_separator = False

    def _add_delta(self, index: int, delta: Any) -> Iterator[Piece]:
        if isinstance(delta, TextPartDelta) and delta.content_delta:
            yield TextPiece(delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            yield from self._add_thinking(delta.content_delta)
            if delta.signature_delta and index in self._unsigned:
                yield ThinkingPiece(
                    signature=pack_signature(self._unsigned.pop(index), delta.signature_delta)
                )
        elif (
            isinstance(delta, ToolCallPartDelta)
            and index in self._started_calls
            and isinstance(delta.args_delta, str)
        ):
            yield CallArgumentsPiece(self._started_calls[index], delta.args_delta)

    def _end_part(self, index: int, part: Any) -> Iterator[Piece]:
        if isinstance(part, ThinkingPart):
            signature = part.signature or _get_signature(part)
            if signature:
                yield ThinkingPiece(signature=pack_signature(part.id, signature))
            else:
                self._unsigned[index] = part.id
        elif isinstance(part, ToolCallPart) and index not in self._started_calls:
            yield CallStart(part.tool_call_id, part.tool_name, _get_signature(part))
            yield CallArgumentsPiece(part.tool_call_id, part.args_as_json_str())


def _get_signature(part: ThinkingPart | ToolCallPart) -> str | None:
    """Return the signature of Google, in its own format or in the OpenAI-compatible one."""
    details = part.provider_details or {}
    signature = details.get(_SIGNATURE_KEY)
    if isinstance(signature, str):
        return signature
    extra = details.get(_EXTRA_KEY)
    if extra:
        return f"{_JSON_PREFIX}{msgspec.json.encode(extra).decode()}"
    return None


def _build_details(signature: str) -> dict[str, Any]:
    """Return the details of a signature that is sent back; an imported one may be anything."""
    if not signature.startswith(_JSON_PREFIX):
        return {_SIGNATURE_KEY: signature}
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return {_EXTRA_KEY: msgspec.json.decode(signature.removeprefix(_JSON_PREFIX))}
    return {}


def to_usage(usage: Any) -> dict[str, int]:
    """Return the usage: all input tokens, cached or not, and all output tokens with reasoning."""
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if not any(counts.values()):
        return {}
    details = usage.details or {}
    more = {
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": details.get("reasoning_tokens") or details.get("thoughts_tokens", 0),
    }
    return {**counts, **{name: count for name, count in more.items() if count}}
