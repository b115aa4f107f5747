"""JSON-RPC over lines, as far as an MCP server with tools and pages needs it.

Two generations of the protocol are answered, each request by what it says of itself: one that names
its version in `_meta` needs no initialization (2026-07-28), any other is of the older generation.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO, Protocol

import msgspec

from open_token import __version__
from open_token.errors import OpenTokenError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Supported versions with initialization, newest first; who asks for another gets the newest."""
STATELESS_VERSION = "2026-07-28"
"""The supported version without initialization."""
APPS_EXTENSION = "io.modelcontextprotocol/ui"
MAX_LINE_BYTES = 1 << 20
_MAX_BATCH = 50
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_INTERNAL_ERROR = -32603
_RESOURCE_NOT_FOUND = -32002
"""Of the older generation; the newer one uses _INVALID_PARAMS."""
_UNSUPPORTED_VERSION = -32022
_META = "io.modelcontextprotocol/"
_LIST_LIFETIME = 3_600_000
"""Milliseconds for which a client may keep a list: it changes with the program only."""

JsonObject = dict[str, Any]


class Tools(Protocol):
    """The tools and resources that are offered."""

    instructions: str

    def list_tools(self) -> list[JsonObject]:
        """Return the tools as the protocol describes them."""
        ...

    def call(self, name: str, arguments: JsonObject) -> JsonObject | None:
        """Return the result of a call; None for an unknown tool."""
        ...

    def list_resources(self) -> list[JsonObject]:
        """Return the resources as the protocol describes them."""
        ...

    def list_resource_templates(self) -> list[JsonObject]:
        """Return the templates of resources that are not listed one by one."""
        ...

    def read_resource(self, uri: str) -> JsonObject | None:
        """Return the content of a resource; None for an unknown one."""
        ...


class _RpcError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


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
        if _is_stateless(method, params):
            result = _answer_stateless(method, params, tools)
        else:
            result = _answer_initialized(method, params, tools)
    except _RpcError as problem:
        return _build_error(request_id, problem.code, problem.message, problem.data)
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _is_stateless(method: str, params: Mapping[str, Any]) -> bool:
    meta = params.get("_meta")
    names_version = isinstance(meta, dict) and f"{_META}protocolVersion" in meta
    return names_version or method == "server/discover"


def _answer_initialized(method: str, params: JsonObject, tools: Tools) -> JsonObject:
    """Answer a request of the generation with initialization; it may come before that, too."""
    if method == "initialize":
        return _initialize(params, tools)
    if method == "ping":
        return {}
    if method == "resources/read":
        return _read_resource(params, tools, _RESOURCE_NOT_FOUND)
    return _dispatch(method, params, tools)


def _answer_stateless(method: str, params: JsonObject, tools: Tools) -> JsonObject:
    """Answer a request that describes its client itself."""
    _check_meta(params)
    if method == "server/discover":
        result: JsonObject = {
            "supportedVersions": [STATELESS_VERSION, *VERSIONS],
            "capabilities": _build_capabilities(),
            "instructions": tools.instructions,
        }
    elif method == "resources/read":
        result = _read_resource(params, tools, _INVALID_PARAMS)
    else:
        result = _dispatch(method, params, tools)
    if method == "resources/read":
        # A conversation may go on at any time.
        result |= {"ttlMs": 0, "cacheScope": "private"}
    elif method != "tools/call":
        result |= {"ttlMs": _LIST_LIFETIME, "cacheScope": "private"}
    meta = {**result.get("_meta", {}), f"{_META}serverInfo": _build_server_info()}
    return {**result, "resultType": "complete", "_meta": meta}


def _check_meta(params: Mapping[str, Any]) -> None:
    """Raise if a request does not say what the version without initialization requires."""
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise _RpcError(_INVALID_PARAMS, "a request of this version needs _meta")
    version = meta.get(f"{_META}protocolVersion")
    if not isinstance(version, str):
        raise _RpcError(_INVALID_PARAMS, f"_meta needs {_META}protocolVersion")
    if version != STATELESS_VERSION:
        data = {"supported": [STATELESS_VERSION, *VERSIONS], "requested": version[:100]}
        raise _RpcError(_UNSUPPORTED_VERSION, "unsupported protocol version", data)
    if not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
        raise _RpcError(_INVALID_PARAMS, f"_meta needs {_META}clientCapabilities")


def _dispatch(method: str, params: JsonObject, tools: Tools) -> JsonObject:
    """Answer what is the same in both generations."""
    if method == "tools/list":
        return {"tools": tools.list_tools()}
    if method == "tools/call":
        return _call_tool(params, tools)
    if method == "resources/list":
        return {"resources": tools.list_resources()}
    if method == "resources/templates/list":
        return {"resourceTemplates": tools.list_resource_templates()}
    raise _RpcError(_METHOD_NOT_FOUND, "unknown method")


def _initialize(params: JsonObject, tools: Tools) -> JsonObject:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[0],
        "capabilities": _build_capabilities(),
        "serverInfo": _build_server_info(),
        "instructions": tools.instructions,
    }


def _build_capabilities() -> JsonObject:
    return {
        "tools": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
        "extensions": {APPS_EXTENSION: {}},
    }


def _build_server_info() -> JsonObject:
    return {"name": "open-token", "title": "Open-Token", "version": __version__}


def _read_resource(params: JsonObject, tools: Tools, not_found: int) -> JsonObject:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise _RpcError(_INVALID_PARAMS, "a resource needs a uri")
    try:
        content = tools.read_resource(uri)
    except OpenTokenError as problem:
        raise _RpcError(_INVALID_PARAMS, _describe(problem)) from None
    except Exception as problem:
        # The message of an unexpected error may quote content, so only its type is reported.
        message = f"internal error ({type(problem).__name__})"
        raise _RpcError(_INTERNAL_ERROR, message) from None
    if content is None:
        raise _RpcError(not_found, "unknown resource")
    return {"contents": [content]}


def _describe(problem: OpenTokenError) -> str:
    return f"{problem.what}\nhelp: {problem.help}" if problem.help else problem.what


def _call_tool(params: JsonObject, tools: Tools) -> JsonObject:
    name = params.get("name")
    arguments = params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise _RpcError(_INVALID_PARAMS, "a call needs a name and an object of arguments")
    try:
        result = tools.call(name, arguments)
    except OpenTokenError as problem:
        return _build_content(_describe(problem), is_error=True)
    except Exception as problem:
        # The message of an unexpected error may quote content, so only its type is reported.
        return _build_content(f"internal error ({type(problem).__name__})", is_error=True)
    if result is None:
        raise _RpcError(_INVALID_PARAMS, "unknown tool")
    content = _build_content(msgspec.json.encode(result).decode())
    return {**content, "structuredContent": result}


def _build_content(text: str, *, is_error: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _build_error(
    request_id: str | int | None, code: int, message: str, data: JsonObject | None = None
) -> JsonObject:
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
