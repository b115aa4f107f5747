"""Spans and log records, parsed from OTLP batches, from objects that an SDK prints, and from lists."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.formats.shared.fields import JsonObject, get_first
from open_token.jsontools.timestamps import from_epoch, to_utc

_MAX_DEPTH = 64
_SPAN_WITHOUT_ID = "a span without an id"
_RECORD_WITHOUT_SPANS = "a record that holds no spans"
_BATCH_WITHOUT_SPANS = "a batch without spans"
_PLAIN_VALUES = frozenset(
    ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value")
)
_ERROR_CODES = ("2", "error", "status_code_error", "statuscode.error")
UNNAMED_PREFIX = "\0"
"""Prefix of the names that attributes without a usable key get."""


@dataclass(slots=True)
class SpanEvent:
    """An event within a span; `body` is set where it was recorded as a log record."""

    name: str
    attributes: JsonObject
    body: Any = None


@dataclass(slots=True, eq=False)
class Span:
    """One span; `children` is filled when the tree is built."""

    trace_id: str
    id: str
    parent_id: str | None
    name: str
    place: str
    start_order: int | None
    """The start time as a number, comparable within one file only."""
    started_at: str | None
    ended_at: str | None
    attributes: JsonObject
    events: list[SpanEvent]
    error: str | None = None
    resource: JsonObject = field(default_factory=dict)
    children: list["Span"] = field(default_factory=list)
    end_order: int | None = None


@dataclass(slots=True)
class LogRecord:
    """A log record that belongs to a span."""

    trace_id: str
    span_id: str
    event: SpanEvent
    place: str


@dataclass(slots=True)
class Unusable:
    """Something in the position of a span that is none."""

    place: str
    reason: str


Item = Span | LogRecord | Unusable


def parse_spans(record: Any, place: str) -> Iterator[Item]:
    """Yield every span and log record of a record, and what else is in their positions."""
    if isinstance(record, list):
        for number, item in enumerate(record, 1):
            yield from parse_spans(item, f"{place}, span {number}" if number > 1 else place)
    elif not isinstance(record, dict):
        yield Unusable(place, _RECORD_WITHOUT_SPANS)
    elif isinstance(record.get("spans"), list) and "attributes" not in record:
        yield from _parse_any_agent(record["spans"])
    elif isinstance(record.get("context"), dict):
        yield _parse_sdk_span(record, place)
    else:
        yield from _parse_batches(record, place)


def _parse_any_agent(spans: list[Any]) -> Iterator[Item]:
    for number, item in enumerate(spans, 1):
        place = f"span {number}"
        if isinstance(item, dict):
            yield _parse_sdk_span(item, place)
        else:
            yield Unusable(place, _SPAN_WITHOUT_ID)


def _parse_batches(record: JsonObject, place: str) -> Iterator[Item]:
    """Yield the spans and log records of OTLP."""
    has_batches = False
    for layout in (_SPAN_LAYOUT, _LOG_LAYOUT):
        for name in layout.batch_names:
            if name not in record:
                continue
            has_batches = True
            for batch in _to_list(record[name]):
                yield from _parse_batch(batch, layout, place)
    if not has_batches:
        yield Unusable(place, _RECORD_WITHOUT_SPANS)


def _parse_batch(batch: Any, layout: "_Layout", place: str) -> Iterator[Item]:
    scopes = _get_items(batch, layout.scope_names)
    if not scopes:
        yield Unusable(place, _BATCH_WITHOUT_SPANS)
        return
    resource = _parse_resource(batch)
    for scope in scopes:
        items = _get_items(scope, layout.item_names)
        if not items:
            yield Unusable(place, _BATCH_WITHOUT_SPANS)
        for item in items:
            yield layout.parse(item, resource, place)


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _get_items(value: Any, names: tuple[str, ...]) -> list[Any]:
    if not isinstance(value, dict):
        return []
    return [item for name in names for item in _to_list(value.get(name))]


def _parse_resource(batch: JsonObject) -> JsonObject:
    resource = batch.get("resource")
    if not isinstance(resource, dict):
        return {}
    return parse_attributes(resource.get("attributes"))


def _parse_otlp_span(item: Any, resource: JsonObject, place: str) -> Span | Unusable:
    """Parse a span of OTLP: ids are hexadecimal, times are nanoseconds (as text for JavaScript)."""
    if not isinstance(item, dict) or not _parse_id(get_first(item, "spanId", "span_id")):
        return Unusable(place, _SPAN_WITHOUT_ID)
    started_at, start_order = _parse_time(
        get_first(item, "startTimeUnixNano", "start_time_unix_nano")
    )
    ended_at, end_order = _parse_time(get_first(item, "endTimeUnixNano", "end_time_unix_nano"))
    return Span(
        trace_id=_parse_id(get_first(item, "traceId", "trace_id")),
        id=_parse_id(get_first(item, "spanId", "span_id")),
        parent_id=_parse_id(get_first(item, "parentSpanId", "parent_span_id")) or None,
        name=str(item.get("name") or ""),
        place=place,
        start_order=start_order,
        started_at=started_at,
        ended_at=ended_at,
        attributes=parse_attributes(item.get("attributes")),
        events=[_parse_event(event) for event in _to_list(item.get("events"))],
        error=_parse_error(item.get("status")),
        resource=resource,
        end_order=end_order,
    )


def _parse_sdk_span(item: JsonObject, place: str) -> Span:
    """Parse a span as an SDK or any-agent writes it; ids may be integers beyond 64 bits."""
    context = item.get("context")
    if not isinstance(context, dict):
        context = {}
    parent = item.get("parent")
    if isinstance(parent, dict):
        parent_id = parent.get("span_id")
    else:
        parent_id = get_first(item, "parent_id", "parent_span_id")
    started_at, start_order = _parse_time(item.get("start_time"))
    ended_at, end_order = _parse_time(item.get("end_time"))
    return Span(
        trace_id=_parse_id(context.get("trace_id")),
        id=_parse_id(context.get("span_id")),
        parent_id=_parse_id(parent_id) or None,
        name=str(item.get("name") or ""),
        place=place,
        start_order=start_order,
        started_at=started_at,
        ended_at=ended_at,
        attributes=parse_attributes(item.get("attributes")),
        events=[_parse_event(event) for event in _to_list(item.get("events"))],
        error=_parse_error(item.get("status")),
        resource=_parse_resource(item),
        end_order=end_order,
    )


def _parse_event(event: Any) -> SpanEvent:
    if not isinstance(event, dict):
        return SpanEvent("", {}, event)
    name = str(event.get("name") or "")
    return SpanEvent(name, parse_attributes(event.get("attributes")), event.get("body"))


def _parse_log_record(item: Any, _resource: JsonObject, place: str) -> LogRecord | Unusable:
    if not isinstance(item, dict):
        return Unusable(place, "a log record that is not an object")
    attributes = parse_attributes(item.get("attributes"))
    name = get_first(item, "eventName", "event_name") or attributes.get("event.name") or ""
    return LogRecord(
        trace_id=_parse_id(get_first(item, "traceId", "trace_id")),
        span_id=_parse_id(get_first(item, "spanId", "span_id")),
        event=SpanEvent(str(name), attributes, parse_value(item.get("body"))),
        place=place,
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """How OTLP nests the items of one signal: batch, scope, item."""

    batch_names: tuple[str, ...]
    scope_names: tuple[str, ...]
    item_names: tuple[str, ...]
    parse: Callable[[Any, JsonObject, str], Item]


_SPAN_LAYOUT = _Layout(
    batch_names=("resourceSpans", "resource_spans"),
    # `instrumentationLibrarySpans` is what OTLP called scopes before 0.15.
    scope_names=("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    item_names=("spans",),
    parse=_parse_otlp_span,
)
_LOG_LAYOUT = _Layout(
    batch_names=("resourceLogs", "resource_logs"),
    scope_names=("scopeLogs", "scope_logs"),
    item_names=("logRecords", "log_records"),
    parse=_parse_log_record,
)


def _parse_id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value).lower()


def _parse_time(value: Any) -> tuple[str | None, int | None]:
    """Return a time as a timestamp, and as a number to sort by."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 24:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return from_epoch(value // 1000, 1e-6), value
    timestamp = to_utc(value)
    if not timestamp:
        return timestamp, None
    digits = "".join(character for character in timestamp if character.isdigit())
    return timestamp, int(digits.ljust(23, "0")[:23])


def _parse_error(status: Any) -> str | None:
    if not isinstance(status, dict):
        return None
    code = str(get_first(status, "code", "status_code")).lower()
    if code not in _ERROR_CODES:
        return None
    return str(get_first(status, "message", "description") or "the span ended in an error")


def parse_attributes(value: Any) -> JsonObject:
    """Return attributes as an object, from OTLP pairs of key and typed value or from an object."""
    if isinstance(value, dict):
        return value
    attributes: JsonObject = {}
    for pair in _to_list(value):
        key = pair.get("key") if isinstance(pair, dict) else None
        if isinstance(key, str):
            attributes[key] = parse_value(pair.get("value"))
        else:
            attributes[f"{UNNAMED_PREFIX}{len(attributes)}"] = pair
    return attributes


def parse_value(value: Any, depth: int = 0) -> Any:
    """Return a typed value of OTLP as plain JSON; OTLP writes 64-bit integers as text."""
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return value
    for name, item in value.items():
        if name in _PLAIN_VALUES:
            return item
        if name in ("intValue", "int_value"):
            return _parse_integer(item)
        if name in ("arrayValue", "array_value") and isinstance(item, dict):
            values = item.get("values")
            if not isinstance(values, list):
                return []
            return [parse_value(part, depth + 1) for part in values]
        if name in ("kvlistValue", "kvlist_value") and isinstance(item, dict):
            return _parse_pairs(item.get("values"), depth + 1)
        if name in ("bytesValue", "bytes_value"):
            return {"encoding": "base64", "base64": item}
    return value


def _parse_integer(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 40:
        return int(value)
    return value


def _parse_pairs(values: Any, depth: int) -> JsonObject:
    if not isinstance(values, list):
        return {}
    pairs = [pair for pair in values if isinstance(pair, dict)]
    return {str(pair.get("key")): parse_value(pair.get("value"), depth) for pair in pairs}
