"""Spans out of every form they are written in: OTLP batches, objects that an SDK prints, lists."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.formats.shared.fields import JsonObject, get_first
from open_token.jsontools.timestamps import from_epoch, to_utc

_DEEPEST = 64
_NO_SPAN = "a span without an id"
NAMELESS = "\0"
"""How the names of attributes begin that have none."""


@dataclass(slots=True)
class Moment:
    """Something that happened within a span: its name, its attributes, its body where it was a log
    record."""

    name: str
    attributes: JsonObject
    body: Any = None


@dataclass(slots=True, eq=False)
class Span:
    """One span, with the spans inside it once the tree is built."""

    trace: str
    id: str
    parent: str | None
    name: str
    place: str
    start: int | None
    began: str | None
    ended: str | None
    attributes: JsonObject
    moments: list[Moment]
    error: str | None = None
    resource: JsonObject = field(default_factory=dict)
    children: list["Span"] = field(default_factory=list)
    end: int | None = None


@dataclass(slots=True)
class Log:
    """A log record that belongs to a span."""

    trace: str
    span: str
    moment: Moment
    place: str


@dataclass(slots=True)
class Odd:
    """Something in the place of spans that holds none."""

    place: str
    what: str


def spans_in(record: Any, place: str) -> Iterator[Span | Log | Odd]:
    """Every span and every log record of a span that a record holds, and what is in their
    places."""
    if isinstance(record, list):
        for number, item in enumerate(record, 1):
            yield from spans_in(item, f"{place}, span {number}" if number > 1 else place)
    elif not isinstance(record, dict):
        yield Odd(place, "a record that holds no spans")
    elif isinstance(record.get("spans"), list) and "attributes" not in record:
        for number, item in enumerate(record["spans"], 1):
            yield (
                _printed(item, f"span {number}")
                if isinstance(item, dict)
                else Odd(f"span {number}", _NO_SPAN)
            )
    elif isinstance(record.get("context"), dict):
        yield _printed(record, place)
    else:
        yield from _batches(record, place)


def _batches(record: JsonObject, place: str) -> Iterator[Span | Log | Odd]:
    """The spans and log records of OTLP."""
    known = 0
    for names, scopes, items, made in (_SPANS, _LOGS):
        for name in names:
            known += name in record
            for batch in _listed(record.get(name)):
                held = [scope for scope_name in scopes for scope in _listed(_in(batch, scope_name))]
                resource = _resource(batch) if isinstance(batch, dict) else {}
                for scope in held:
                    given = [item for item_name in items for item in _listed(_in(scope, item_name))]
                    yield from (made(item, resource, place) for item in given)
                    if not given:
                        yield Odd(place, "a batch without spans")
                if not held:
                    yield Odd(place, "a batch without spans")
    if not known:
        yield Odd(place, "a record that holds no spans")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _in(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _resource(batch: JsonObject) -> JsonObject:
    resource = batch.get("resource")
    return attributes_of(resource.get("attributes")) if isinstance(resource, dict) else {}


def _sent(item: Any, resource: JsonObject, place: str) -> Span | Odd:
    """A span of OTLP: ids are hexadecimal text, times are nanoseconds, as text because of
    JavaScript."""
    if not isinstance(item, dict) or not _id(get_first(item, "spanId", "span_id")):
        return Odd(place, _NO_SPAN)
    began, start = _time(get_first(item, "startTimeUnixNano", "start_time_unix_nano"))
    ended, end = _time(get_first(item, "endTimeUnixNano", "end_time_unix_nano"))
    return Span(
        trace=_id(get_first(item, "traceId", "trace_id")),
        id=_id(get_first(item, "spanId", "span_id")),
        parent=_id(get_first(item, "parentSpanId", "parent_span_id")) or None,
        name=str(item.get("name") or ""),
        place=place,
        start=start,
        began=began,
        ended=ended,
        attributes=attributes_of(item.get("attributes")),
        moments=[_moment(event) for event in _listed(item.get("events"))],
        error=_error(item.get("status")),
        resource=resource,
        end=end,
    )


def _printed(item: JsonObject, place: str) -> Span:
    """A span as an SDK or any-agent writes it; ids may be integers that no double can hold."""
    given = item.get("context")
    context: JsonObject = given if isinstance(given, dict) else {}
    parent = item.get("parent")
    above = (
        parent.get("span_id")
        if isinstance(parent, dict)
        else get_first(item, "parent_id", "parent_span_id")
    )
    began, start = _time(item.get("start_time"))
    ended, end = _time(item.get("end_time"))
    return Span(
        trace=_id(context.get("trace_id")),
        id=_id(context.get("span_id")),
        parent=_id(above) or None,
        name=str(item.get("name") or ""),
        place=place,
        start=start,
        began=began,
        ended=ended,
        attributes=attributes_of(item.get("attributes")),
        moments=[_moment(event) for event in _listed(item.get("events"))],
        error=_error(item.get("status")),
        resource=_resource(item),
        end=end,
    )


def _moment(event: Any) -> Moment:
    if not isinstance(event, dict):
        return Moment("", {}, event)
    return Moment(
        str(event.get("name") or ""), attributes_of(event.get("attributes")), event.get("body")
    )


def _log(item: Any, _resource: JsonObject, place: str) -> Log | Odd:
    if not isinstance(item, dict):
        return Odd(place, "a log record that is no object")
    given = attributes_of(item.get("attributes"))
    name = str(get_first(item, "eventName", "event_name") or given.get("event.name") or "")
    moment = Moment(name, given, value_of(item.get("body")))
    return Log(
        _id(get_first(item, "traceId", "trace_id")),
        _id(get_first(item, "spanId", "span_id")),
        moment,
        place,
    )


_SPANS = (
    ("resourceSpans", "resource_spans"),
    ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    ("spans",),
    _sent,
)
_LOGS = (
    ("resourceLogs", "resource_logs"),
    ("scopeLogs", "scope_logs"),
    ("logRecords", "log_records"),
    _log,
)


def _id(value: Any) -> str:
    return (
        str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    )


def _time(value: Any) -> tuple[str | None, int | None]:
    """A time as it is told, and as a number to order by."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 24:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return from_epoch(value // 1000, 1e-6), value
    told = to_utc(value)
    return told, int(
        "".join(sign for sign in told if sign.isdigit()).ljust(23, "0")[:23]
    ) if told else None


def _error(status: Any) -> str | None:
    if not isinstance(status, dict):
        return None
    code = str(get_first(status, "code", "status_code")).lower()
    if code not in ("2", "error", "status_code_error", "statuscode.error"):
        return None
    return str(get_first(status, "message", "description") or "the span ended in an error")


def attributes_of(value: Any) -> JsonObject:
    """Attributes as an object, from pairs of keys and typed values or from an object."""
    if isinstance(value, dict):
        return value
    made: JsonObject = {}
    for pair in _listed(value):
        if isinstance(pair, dict) and isinstance(key := pair.get("key"), str):
            made[key] = value_of(pair.get("value"))
        else:
            made[f"{NAMELESS}{len(made)}"] = pair
    return made


def value_of(value: Any, depth: int = 0) -> Any:
    """A typed value of OTLP as plain JSON; integers are written as text there."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return value
    for name, item in value.items():
        if name in (
            "stringValue",
            "string_value",
            "boolValue",
            "bool_value",
            "doubleValue",
            "double_value",
        ):
            return item
        if name in ("intValue", "int_value"):
            return (
                int(item)
                if isinstance(item, str) and item.lstrip("-").isdecimal() and len(item) < 40
                else item
            )
        if name in ("arrayValue", "array_value") and isinstance(item, dict):
            held = item.get("values")
            return [value_of(part, depth + 1) for part in held] if isinstance(held, list) else []
        if name in ("kvlistValue", "kvlist_value") and isinstance(item, dict):
            pairs = _objects(item.get("values"))
            return {str(pair.get("key")): value_of(pair.get("value"), depth + 1) for pair in pairs}
        if name in ("bytesValue", "bytes_value"):
            return {"encoding": "base64", "base64": item}
    return value
