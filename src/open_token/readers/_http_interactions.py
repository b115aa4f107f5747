"""Recorded HTTP as a list of exchanges: VCR cassettes of several libraries, in YAML or JSON, and
HAR files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from open_token.readers._http_bodies import Unreadable, har_text, plain, text_of
from open_token.readers._yaml_values import documents
from open_token.source import Source
from open_token.timestamps import format_utc, to_utc

Body = dict[str, Any]


@dataclass
class Exchange:
    """A request and its response, unpacked."""

    number: int
    """Its place among the recorded ones, from 1."""
    method: str
    url: str
    request: Any
    response: Any
    at: str | None
    """When it was recorded."""
    problems: list[str] = field(default_factory=list)


def exchanges(source: Source) -> list[Exchange]:
    """Everything that was recorded, in order."""
    values = (
        documents(source.text, source.name)
        if source.shape == "text"
        else [value for _, value in source.records()]
    )
    items = [item for value in values for item in listed(value)]
    return [_exchange(number, item) for number, item in enumerate(items, 1)]


def listed(value: Any) -> list[Any]:
    """The recorded items of a document."""
    if not isinstance(value, dict):
        return []
    log = value.get("log")
    held = (
        log.get("entries")
        if isinstance(log, dict)
        else value.get("interactions", value.get("http_interactions"))
    )
    return held if isinstance(held, list) else []


def _exchange(number: int, item: Any) -> Exchange:
    item = item if isinstance(item, dict) else {}
    request, response = _body(item.get("request")), _body(item.get("response"))
    problems: list[str] = []
    asked = _read(request, problems)
    told = _read(response, problems)
    url = request.get("uri") or request.get("url")
    return Exchange(
        number,
        str(request.get("method") or "").upper(),
        url if isinstance(url, str) else "",
        asked,
        told,
        _time(item, response),
        problems,
    )


def _read(side: Body, problems: list[str]) -> Any:
    """The body of a request or a response."""
    encoding = _header(side, "content-encoding")
    try:
        if side.get("parsed_body") is not None:
            return plain(side["parsed_body"])
        if isinstance(side.get("postData"), dict):
            return har_text(side["postData"], encoding)
        if isinstance(side.get("content"), dict):
            return har_text(side["content"], encoding)
        return text_of(side.get("body"), encoding)
    except Unreadable as problem:
        problems.append(str(problem))
        return None


def _header(side: Body, name: str) -> str:
    """A header, out of an object or a list of pairs; recorders keep the values as texts or
    lists."""
    for key, value in _headers(side.get("headers")):
        if key.lower() == name:
            return str(value[0] if isinstance(value, list) and value else value)
    return ""


def _headers(headers: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(headers, dict):
        yield from ((str(key), value) for key, value in headers.items())
    elif isinstance(headers, list):
        for item in headers:
            if isinstance(item, dict):
                yield str(item.get("name")), item.get("value")


def _time(item: Body, response: Body) -> str | None:
    """When an exchange was recorded, as far as the recording or the server says so."""
    for value in (item.get("startedDateTime"), item.get("recorded_at"), _header(response, "date")):
        if isinstance(value, str) and value:
            if made := to_utc(value):
                return made
            try:
                moment = parsedate_to_datetime(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if moment.tzinfo is not None:
                return format_utc(moment)
    return None


def _body(value: Any) -> Body:
    return value if isinstance(value, dict) else {}
