"""The four ways in which agents ask models: which one a request uses, how it is read, how it is
answered."""

import re
from types import ModuleType
from typing import Any, cast

import msgspec

from open_token.replay.asked import Answer, Asked
from open_token.replay.wires import _anthropic, _chat, _gemini, _responses

WIRES: dict[str, ModuleType] = {
    "anthropic": _anthropic,
    "responses": _responses,
    "chat": _chat,
    "gemini": _gemini,
}
_ENDS = (("/messages", "anthropic"), ("/responses", "responses"), ("/chat/completions", "chat"))
_GEMINI = re.compile(r"/models/[^/:]{1,200}:(?:streamGenerateContent|generateContent)\Z")
_COUNTS = {
    "/messages/count_tokens": b'{"input_tokens":1}',
    "/responses/input_tokens": b'{"object":"response.input_tokens","input_tokens":1}',
    ":countTokens": b'{"totalTokens":1}',
}


class Reply(msgspec.Struct, frozen=True):
    """What goes back over HTTP."""

    status: int
    kind: str
    body: bytes


def wire_of(target: str) -> str | None:
    """The wire that a request's path belongs to."""
    path = target.partition("?")[0].rstrip("/")
    if _GEMINI.search(path):
        return "gemini"
    return next((wire for end, wire in _ENDS if path.endswith(end)), None)


def count_of(target: str) -> bytes | None:
    """The answer to a question for the number of tokens; None if it is no such question."""
    path = target.partition("?")[0].rstrip("/")
    return next((answer for end, answer in _COUNTS.items() if path.endswith(end)), None)


def read(wire: str, body: dict[str, Any], target: str) -> Asked:
    """A request as every wire tells it."""
    return cast(Asked, WIRES[wire].read(body, target))


def written(asked: Asked, answer: Answer) -> Reply:
    """An answer in the form that was asked for."""
    if answer.error:
        return refused(asked.wire, 400, answer.error)
    if asked.stream:
        kind = "application/json" if asked.is_listed else "text/event-stream"
        return Reply(200, kind, WIRES[asked.wire].stream(answer, asked))
    return Reply(200, "application/json", WIRES[asked.wire].reply(answer, asked))


def refused(wire: str | None, status: int, message: str) -> Reply:
    """An error in the wire's own form."""
    return Reply(status, "application/json", WIRES[wire or "chat"].error(status, message))
