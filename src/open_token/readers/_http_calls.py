"""Which recorded exchanges are model calls, and in which dialect: by their address, else by what
both bodies hold."""

import re
from typing import Any
from urllib.parse import unquote

from open_token.readers._http_interactions import Body, Exchange
from open_token.readers._wire_dialect import ANTHROPIC, CHAT, GEMINI, RESPONSES, look_at
from open_token.readers._wire_pairs import split

_ADDRESSES = (
    (re.compile(r"/chat/completions$"), CHAT, "messages"),
    (re.compile(r"/messages$"), ANTHROPIC, "messages"),
    (re.compile(r"/responses(?:/[\w-]+)?$"), RESPONSES, "input"),
    (re.compile(r":(?:generate|streamGenerate)Content$", re.IGNORECASE), GEMINI, "contents"),
)
_MODEL = re.compile(r"/models/([^/:]+):")
_TIMES = {ANTHROPIC: "created_at", GEMINI: "createTime"}


def call_of(exchange: Exchange) -> tuple[str, Body] | None:
    """The dialect of a model call and its record of request and response; None when it is none."""
    asked, told = split({"request": exchange.request, "response": exchange.response}) or (
        None,
        None,
    )
    asked = asked if isinstance(asked, dict) else None
    told = told if isinstance(told, dict | list) else None
    dialect = _dialect(exchange, asked, told)
    if dialect is None:
        return None
    if told is None and isinstance(exchange.response, str) and exchange.response.strip():
        exchange.problems.append("a response that is neither JSON nor a stream of events")
    if (
        asked is not None
        and dialect == GEMINI
        and "model" not in asked
        and (named := _MODEL.search(exchange.url))
    ):
        asked = {**asked, "model": unquote(named[1])}
    return dialect, {"request": asked, "response": _dated(told, dialect, exchange.at)}


def _dialect(exchange: Exchange, asked: Body | None, told: Any) -> str | None:
    path = exchange.url.partition("?")[0].partition("#")[0].rstrip("/")
    for address, dialect, history in _ADDRESSES:
        if (
            address.search(path)
            and asked is not None
            and history in asked
            and exchange.method in ("POST", "")
        ):
            return dialect
    if polled := _polled(path, exchange, told):
        return polled
    if asked is None or told is None:
        return None
    both = look_at({"request": asked, "response": told}), look_at(asked), look_at(_first(told))
    pair, request, response = both
    if (
        pair is None
        or request is None
        or response is None
        or not pair.dialects
        or response.kind == "message"
    ):
        return None
    return pair.likely if pair.likely in pair.dialects else min(pair.dialects)


def _polled(path: str, exchange: Exchange, told: Any) -> str | None:
    """A response of the Responses API that was fetched when it was done: the request before it had
    none yet."""
    is_done = (
        isinstance(told, dict)
        and told.get("object") == "response"
        and told.get("status") == "completed"
    )
    return RESPONSES if is_done and exchange.method == "GET" and "/responses/" in path else None


def _first(told: Any) -> Any:
    return (
        next((part for part in told if isinstance(part, dict)), None)
        if isinstance(told, list)
        else told
    )


def _dated(told: Any, dialect: str, at: str | None) -> Any:
    """A response with the time of the recording, where its dialect has a place for a time and it
    gives none."""
    name = _TIMES.get(dialect)
    if at is None or name is None:
        return told
    if isinstance(told, dict) and not told.get(name):
        return {**told, name: at}
    if isinstance(told, list) and told and isinstance(told[0], dict):
        first = told[0]
        message = first.get("message")
        if dialect == GEMINI and not first.get(name):
            return [{**first, name: at}, *told[1:]]
        if dialect == ANTHROPIC and isinstance(message, dict):
            return [{**first, "message": {**message, name: at}}, *told[1:]]
    return told
