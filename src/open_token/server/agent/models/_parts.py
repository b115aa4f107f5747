"""Our messages as those of pydantic-ai, and its stream of events as our pieces."""

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

from open_token.server.agent.interface import (
    Call,
    CallBegun,
    CallPiece,
    Counted,
    Media,
    Message,
    Piece,
    Result,
    Text,
    TextPiece,
    Thinking,
    ThinkingPiece,
)

_GOOGLE = "google"
_SIGNED = "thought_signature"
_BESIDE = "extra_content"
_AS_JSON = "json:"
"""Where the library keeps the signatures of Google's, which stand on thoughts and calls alike."""
_NAMED = "id:"
"""A signature that comes with an id of the provider's is kept together with it:
`id:<id>|<signature>`."""


def messages_of(messages: Sequence[Message], system: str) -> list[ModelMessage]:
    """The history as the library wants it; `system` is the provider, to whom alone signatures go
    back."""
    return [made for message in messages if (made := _message(message, system)) is not None]


def _message(message: Message, system: str) -> ModelMessage | None:
    if message.role == "assistant":
        said = [part for given in message.parts for part in _response_part(given, system)]
        return ModelResponse(parts=said) if said else None
    parts: list[ModelRequestPart] = []
    if message.role == "system":
        parts = [SystemPromptPart(part.text) for part in message.parts if isinstance(part, Text)]
    elif message.role == "tool":
        parts = [_returned(part) for part in message.parts if isinstance(part, Result)]
    elif content := [item for part in message.parts for item in _content(part)]:
        parts = [
            UserPromptPart(
                content[0] if len(content) == 1 and isinstance(content[0], str) else content
            )
        ]
    return ModelRequest(parts=parts) if parts else None


def _response_part(part: Any, system: str) -> Iterator[ModelResponsePart]:
    if isinstance(part, Text):
        yield TextPart(part.text)
    elif isinstance(part, Call):
        signed: Any = (
            {"provider_name": system, "provider_details": _details(part.signature)}
            if part.signature
            else {}
        )
        yield ToolCallPart(part.name, _arguments(part.arguments), part.id, **signed)
    elif (
        isinstance(part, Thinking) and part.signature
    ):  # without its signature no provider takes a thought back
        name, signature = unpacked(part.signature)
        if system == _GOOGLE:
            yield ThinkingPart(
                part.text, provider_name=system, provider_details={_SIGNED: signature}
            )
        else:
            yield ThinkingPart(part.text, id=name, signature=signature, provider_name=system)


def _arguments(text: str) -> str:
    """Arguments as an object: providers refuse a history in which a call has others, and a model
    did write such."""
    try:
        given = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        given = None
    return text if isinstance(given, dict) and text else msgspec.json.encode({"raw": text}).decode()


def _returned(part: Result) -> ToolReturnPart[Any]:
    outcome: Any = "failed" if part.is_error else "success"
    words = (
        part.content
        if isinstance(part.content, str)
        else msgspec.json.encode(part.content).decode()
    )
    pictures = [BinaryContent(media.data, media_type=media.media_type) for media in part.media]
    return ToolReturnPart(
        part.name, [words, *pictures] if pictures else words, part.call_id, outcome=outcome
    )


def _content(part: Any) -> Iterator[UserContent]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, Media):
        data = part.data or _data(part.url)
        if data:
            yield BinaryContent(data, media_type=part.media_type)
        elif part.url.startswith(("https:", "http:")):
            yield ImageUrl(part.url)
        else:
            yield f"[{part.media_type} that cannot be read]"


def _data(url: str) -> bytes:
    """The bytes of a data: address."""
    head, _, rest = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        return b""
    try:
        return base64.b64decode(rest, validate=True)
    except binascii.Error:
        return b""


def packed(name: str | None, signature: str) -> str:
    """A signature and the id that belongs to it, as one text."""
    return f"{_NAMED}{name}|{signature}" if name else signature


def unpacked(kept: str) -> tuple[str | None, str]:
    """The id and the signature again."""
    if kept.startswith(_NAMED) and "|" in kept:
        name, _, signature = kept.removeprefix(_NAMED).partition("|")
        return name, signature
    return None, kept


async def pieces_of(stream: StreamedResponse) -> AsyncGenerator[Piece, None]:
    """The pieces of an answer, and at the end what it took."""
    taking = _Taking()
    async for event in stream:
        for piece in taking.take(event):
            yield piece
    yield Counted(usage_of(stream.usage))


class _Taking:
    """Follows the parts of an answer; a call whose arguments come as an object is told when it is
    whole."""

    def __init__(self) -> None:
        self._begun: dict[int, str] = {}
        self._unsigned: dict[int, str | None] = {}
        """Thoughts that ended without a signature, by their ids: OpenAI signs the first of several
        after the last."""
        self._is_next = False
        """A thought begins right behind such a one."""

    def take(self, event: Any) -> Iterator[Piece]:
        """The pieces that an event stands for."""
        if isinstance(event, PartStartEvent):
            yield from self._start(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            yield from self._delta(event.index, event.delta)
        elif isinstance(event, PartEndEvent):
            yield from self._end(event.index, event.part)

    def _start(self, index: int, part: Any) -> Iterator[Piece]:
        if isinstance(part, TextPart) and part.content:
            yield TextPiece(part.content)
        elif isinstance(part, ThinkingPart):
            self._is_next = index - 1 in self._unsigned
            yield from self._thought(part.content)
        elif isinstance(part, ToolCallPart) and not isinstance(part.args, dict):
            self._begun[index] = part.tool_call_id
            yield CallBegun(part.tool_call_id, part.tool_name, _signature(part))
            if part.args:
                yield CallPiece(part.tool_call_id, part.args)

    def _thought(self, words: str | None) -> Iterator[Piece]:
        if words:
            yield ThinkingPiece(f"\n\n{words}" if self._is_next else words)
            self._is_next = False

    def _delta(self, index: int, delta: Any) -> Iterator[Piece]:
        if isinstance(delta, TextPartDelta) and delta.content_delta:
            yield TextPiece(delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            yield from self._thought(delta.content_delta)
            if delta.signature_delta and index in self._unsigned:
                yield ThinkingPiece(
                    signature=packed(self._unsigned.pop(index), delta.signature_delta)
                )
        elif (
            isinstance(delta, ToolCallPartDelta)
            and index in self._begun
            and isinstance(delta.args_delta, str)
        ):
            yield CallPiece(self._begun[index], delta.args_delta)

    def _end(self, index: int, part: Any) -> Iterator[Piece]:
        if isinstance(part, ThinkingPart):
            if signature := part.signature or _signature(part):
                yield ThinkingPiece(signature=packed(part.id, signature))
            else:
                self._unsigned[index] = part.id
        elif isinstance(part, ToolCallPart) and index not in self._begun:
            yield CallBegun(part.tool_call_id, part.tool_name, _signature(part))
            yield CallPiece(part.tool_call_id, part.args_as_json_str())


def _signature(part: ThinkingPart | ToolCallPart) -> str | None:
    """What Google signed a part with, told in its own way or as services do that speak as OpenAI
    does."""
    details = part.provider_details or {}
    signature, beside = details.get(_SIGNED), details.get(_BESIDE)
    if isinstance(signature, str):
        return signature
    return f"{_AS_JSON}{msgspec.json.encode(beside).decode()}" if beside else None


def _details(signature: str) -> dict[str, Any]:
    """The same for the way back; of an imported log it may say anything."""
    if not signature.startswith(_AS_JSON):
        return {_SIGNED: signature}
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return {_BESIDE: msgspec.json.decode(signature.removeprefix(_AS_JSON))}
    return {}


def usage_of(usage: Any) -> dict[str, int]:
    """What an answer took: all that went in, cached or not, and all that came out, thoughts too."""
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if not any(counts.values()):
        return {}
    details = usage.details or {}
    further = {
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": details.get("reasoning_tokens") or details.get("thoughts_tokens", 0),
    }
    return {**counts, **{name: count for name, count in further.items() if count}}
