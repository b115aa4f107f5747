"""JSON-RPC over lines, as far as an MCP server with only tools needs it."""

from typing import Any, BinaryIO, Protocol

import msgspec

from open_token import __version__
from open_token.errors import OpenTokenError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Supported protocol versions, newest first; a client that asks for another gets the newest."""
MAX_LINE_BYTES = 1 << 20
_MAX_BATCH = 50
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602

JsonObject = dict[str, Any]


class Tools(Protocol):
    """The tools that are offered."""

    instructions: str

    def list_tools(self) -> list[JsonObject]:
        """Return the tools as the protocol describes them."""
        ...

    def call(self, name: str, arguments: JsonObject) -> JsonObject | None:
        """Return the result of a call; None for an unknown tool."""
        ...


class _RpcError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def serve(lines: BinaryIO, out: BinaryIO, tools: Tools) -> None:
    """Answer requests until the input ends."""
    while True:
        line = lines.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        answer: Any = None
        if len(line) > MAX_LINE_BYTES:
            _skip_line(line, lines)
            answer = _build_error(None, _INVALID_REQUEST, "the request is too long")
        elif line.strip():
            answer = answer_line(line, tools)
        if answer is not None:
            out.write(msgspec.json.encode(answer) + b"\n")
            out.flush()


def _skip_line(line: bytes, lines: BinaryIO) -> None:
    """Skip the rest of a line that is too long."""
    while line and not line.endswith(b"\n"):
        line = lines.readline(MAX_LINE_BYTES)


def answer_line(line: bytes, tools: Tools) -> Any:
    """Return the answer to a line; None when it needs none."""
    try:
        request = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _build_error(None, _PARSE_ERROR, "the request is not valid JSON")
    if not isinstance(request, list):
        return _answer_request(request, tools)
    # Batches exist in the protocol version of March 2025 only.
    if not 0 < len(request) <= _MAX_BATCH:
        message = f"a batch may have 1 to {_MAX_BATCH} requests"
        return _build_error(None, _INVALID_REQUEST, message)
    answers = [_answer_request(part, tools) for part in request]
    return [answer for answer in answers if answer is not None] or None


def _answer_request(request: Any, tools: Tools) -> JsonObject | None:
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
        return _build_error(None, _INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    if "id" not in request:
        return None  # a notification
    request_id = request["id"]
    method = request.get("method")
    if method is None and ("result" in request or "error" in request):
        return None  # a response to nothing
    is_valid_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    if not is_valid_id or not isinstance(method, str):
        return _build_error(None, _INVALID_REQUEST, "a request needs an id and a method")
    params = request.get("params") or {}
    try:
        if not isinstance(params, dict):
            raise _RpcError(_INVALID_PARAMS, "params must be an object")
        result = _dispatch(method, params, tools)
    except _RpcError as problem:
        return _build_error(request_id, problem.code, problem.message)
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _dispatch(method: str, params: JsonObject, tools: Tools) -> JsonObject:
    if method == "initialize":
        return _initialize(params, tools)
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": tools.list_tools()}
    if method == "tools/call":
        return _call_tool(params, tools)
    raise _RpcError(_METHOD_NOT_FOUND, "unknown method")


def _initialize(params: JsonObject, tools: Tools) -> JsonObject:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "open-token", "title": "Open-Token", "version": __version__},
        "instructions": tools.instructions,
    }


def _call_tool(params: JsonObject, tools: Tools) -> JsonObject:
    name = params.get("name")
    arguments = params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise _RpcError(_INVALID_PARAMS, "a call needs a name and an object of arguments")
    try:
        result = tools.call(name, arguments)
    except OpenTokenError as problem:
        text = problem.what
        if problem.help:
            text += f"\nhelp: {problem.help}"
        return _build_content(text, is_error=True)
    except Exception as problem:
        # The message of an unexpected error may quote content, so only its type is reported.
        return _build_content(f"internal error ({type(problem).__name__})", is_error=True)
    if result is None:
        raise _RpcError(_INVALID_PARAMS, "unknown tool")
    content = _build_content(msgspec.json.encode(result).decode())
    return {**content, "structuredContent": result}


def _build_content(text: str, *, is_error: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _build_error(request_id: str | int | None, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
