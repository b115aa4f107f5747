"""The protocol: JSON-RPC, a line each way, as far as a server with nothing but tools needs it."""

from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import msgspec

from open_token import __version__
from open_token.errors import OpenTokenError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""The versions that we speak, newest first; who asks for another is offered the newest."""
LONGEST = 1 << 20
_MOST_AT_ONCE = 50
_BROKEN, _ODD, _UNKNOWN, _WRONG = -32700, -32600, -32601, -32602


class Tools(Protocol):
    """What is offered."""

    instructions: str

    def listed(self) -> list[dict[str, Any]]:
        """The tools, as the protocol describes them."""
        ...

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """What came of a call, as an object; None when there is no such tool."""
        ...


class _Refused(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def serve(lines: BinaryIO, out: BinaryIO, tools: Tools) -> None:
    """Answer one request after another until nobody asks any more."""
    while line := lines.readline(LONGEST + 1):
        if len(line) > LONGEST:
            while not line.endswith(b"\n") and (line := lines.readline(LONGEST)):
                pass
            answer: Any = _error(None, _ODD, "the request is too long")
        else:
            answer = answered(line, tools) if line.strip() else None
        if answer is not None:
            out.write(msgspec.json.encode(answer) + b"\n")
            out.flush()


def answered(line: bytes, tools: Tools) -> Any:
    """The answer to a line; None when it asks for none."""
    try:
        asked = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error(None, _BROKEN, "this is not JSON")
    if isinstance(asked, list):  # the version of March 2025 has several in one line
        if not 0 < len(asked) <= _MOST_AT_ONCE:
            return _error(None, _ODD, f"from one to {_MOST_AT_ONCE} requests in one line")
        return [answer for one in asked if (answer := _one(one, tools)) is not None] or None
    return _one(asked, tools)


def _one(asked: Any, tools: Tools) -> dict[str, Any] | None:
    if not isinstance(asked, dict) or asked.get("jsonrpc") != "2.0":
        return _error(None, _ODD, "this is not a JSON-RPC 2.0 request")
    known, method = asked.get("id"), asked.get("method")
    if "id" not in asked or (method is None and ("result" in asked or "error" in asked)):
        return None  # a notification, or an answer that nobody waits for
    if not isinstance(known, str | int) or isinstance(known, bool) or not isinstance(method, str):
        return _error(None, _ODD, "a request has an id and a method")
    params = asked.get("params") or {}
    try:
        if not isinstance(params, dict):
            raise _Refused(_WRONG, "params is not an object")
        return {"jsonrpc": "2.0", "id": known, "result": _result(method, params, tools)}
    except _Refused as problem:
        return _error(known, problem.code, problem.message)


def _result(method: str, params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    answers: dict[str, Callable[[dict[str, Any], Tools], dict[str, Any]]] = {
        "initialize": _greeting,
        "ping": lambda *_: {},
        "tools/list": lambda _, tools: {"tools": tools.listed()},
        "tools/call": _called,
    }
    if method not in answers:
        raise _Refused(_UNKNOWN, "there is no such method here")
    return answers[method](params, tools)


def _greeting(params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "open-token", "title": "Open-Token", "version": __version__},
        "instructions": tools.instructions,
    }


def _called(params: dict[str, Any], tools: Tools) -> dict[str, Any]:
    name, given = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(given, dict):
        raise _Refused(_WRONG, "a call has a name and an object of arguments")
    try:
        found = tools.call(name, given)
    except OpenTokenError as problem:
        parts = (problem.what, problem.help and f"help: {problem.help}")
        return _words("\n".join(filter(None, parts)), is_error=True)
    except Exception as problem:
        return _words(
            f"something went wrong inside open-token ({type(problem).__name__})", is_error=True
        )
    if found is None:
        raise _Refused(_WRONG, "there is no such tool")
    return {**_words(msgspec.json.encode(found).decode()), "structuredContent": found}


def _words(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _error(known: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}
