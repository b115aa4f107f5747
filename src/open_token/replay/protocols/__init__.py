"""Provider protocols: detection by path, parsing of requests, rendering of responses."""

import re
from typing import Any, Protocol

import msgspec

from open_token.replay.protocols import anthropic, chat, gemini, responses
from open_token.replay.requests import ModelRequest, ModelResponse


class ProviderProtocol(Protocol):
    """The interface of a protocol module."""

    def parse_request(self, body: dict[str, Any], target: str) -> ModelRequest:
        """Parse the JSON body of a request to a path."""
        ...

    def render_reply(self, response: ModelResponse, request: ModelRequest) -> bytes:
        """Encode a response as one JSON value."""
        ...

    def render_stream(self, response: ModelResponse, request: ModelRequest) -> bytes:
        """Encode a response as a stream."""
        ...

    def render_error(self, status: int, message: str) -> bytes:
        """Encode an error."""
        ...


PROTOCOLS: dict[str, ProviderProtocol] = {
    "anthropic": anthropic,
    "responses": responses,
    "chat": chat,
    "gemini": gemini,
}
_PATHS = {
    "/messages": "anthropic",
    "/responses": "responses",
    "/chat/completions": "chat",
}
_GEMINI_PATH = re.compile(r"/models/[^/:]{1,200}:(?:streamGenerateContent|generateContent)\Z")
_TOKEN_COUNTS = {
    "/messages/count_tokens": b'{"input_tokens":1}',
    "/responses/input_tokens": b'{"object":"response.input_tokens","input_tokens":1}',
    ":countTokens": b'{"totalTokens":1}',
}


class Reply(msgspec.Struct, frozen=True):
    """An HTTP response."""

    status: int
    kind: str
    """The media type."""
    body: bytes


def detect_protocol(target: str) -> str | None:
    """Return the protocol of a request path."""
    path = target.partition("?")[0].rstrip("/")
    if _GEMINI_PATH.search(path):
        return "gemini"
    for suffix, protocol in _PATHS.items():
        if path.endswith(suffix):
            return protocol
    return None


def answer_token_count(target: str) -> bytes | None:
    """Return the answer to a request to count tokens; None for any other request."""
    path = target.partition("?")[0].rstrip("/")
    for suffix, answer in _TOKEN_COUNTS.items():
        if path.endswith(suffix):
            return answer
    return None


def parse_request(protocol: str, body: dict[str, Any], target: str) -> ModelRequest:
    """Parse a request of a protocol."""
    return PROTOCOLS[protocol].parse_request(body, target)


def render_response(request: ModelRequest, response: ModelResponse) -> Reply:
    """Encode a response in the form that was requested."""
    if response.error:
        return render_refusal(request.protocol, 400, response.error)
    protocol = PROTOCOLS[request.protocol]
    if not request.stream:
        return Reply(200, "application/json", protocol.render_reply(response, request))
    kind = "application/json" if request.is_json_list else "text/event-stream"
    return Reply(200, kind, protocol.render_stream(response, request))


def render_refusal(protocol: str | None, status: int, message: str) -> Reply:
    """Encode an error in the form of a protocol."""
    body = PROTOCOLS[protocol or "chat"].render_error(status, message)
    return Reply(status, "application/json", body)
