"""Source values as JSON that every implementation reads alike, and back.

Values that plain JSON cannot hold are wrapped in an object with a single key that starts with `$`:
`$int`, `$float` and `$bytes` hold scalars, `$line` holds a line of JSON lines as it is in the file,
`$deep` holds JSON text of deeply nested data, `$ref` names a string in an event, `$raw` escapes an
object of the source that looks like a wrapper, and `$withheld` replaces hidden reasoning
and compressed bytes that redaction cannot look into.
"""

import base64
from typing import Any, NamedTuple

from open_token.jsontools.nesting import decode_deep, encode_deep
from open_token.native.references import FindReference, ResolveReference, UnresolvedValue
from open_token.sources.decompress import find_compression
from open_token.sources.source import IrregularLine


class Withheld(NamedTuple):
    """What is left out of native data."""

    reasoning: bool = False
    compressed: bool = False
    """Bytes that redaction cannot look into."""


NOTHING = Withheld()
_MAX_INTEGER = 2**53 - 1
# Wrappers must not make a value deeper than an event may be.
_MAX_DEPTH = 64
_REASONING_KEYS = frozenset(
    (
        "thinking",
        "thought",
        "thoughts",
        "reasoning",
        "reasoning_content",
        "reasoningText",
        "thinking_blocks",
        "summary",
    )
)


def _find_none(text: str) -> None:
    return None


def encode_value(
    value: Any,
    find: FindReference = _find_none,
    *,
    withheld: Withheld = NOTHING,
    depth: int = 0,
) -> Any:
    """Return a source value as portable JSON; `withheld` says what is left out.

    Strings for which `find` returns a reference are replaced by it. Parts that need no encoding are
    not copied.
    """
    kind = type(value)
    if kind is str:
        reference = find(value)
        return value if reference is None else {"$ref": reference}
    if kind is dict:
        return _encode_object(value, find, withheld, depth)
    if kind is list:
        return _encode_list(value, find, withheld, depth)
    if kind is int and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        return {"$int": str(value)}
    if kind is float and value - value != 0:  # infinite or not a number
        return {"$float": repr(value)}
    if kind is bytes:
        if withheld.compressed and find_compression(value) == "zstd":
            # Redaction cannot look into it: a secret or reasoning in there would stay.
            return {"$withheld": "compressed"}
        return {"$bytes": base64.b64encode(value).decode()}
    if kind is IrregularLine:
        return _encode_line(value.raw, withheld)
    return value


def _encode_line(raw: bytes, withheld: Withheld) -> Any:
    """Return a line that is torn or repaired: as text, so that it is redacted as text."""
    if withheld.reasoning:
        # It is not known which part of half a record is reasoning.
        return {"$withheld": "reasoning"}
    try:
        return {"$line": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"$bytes": base64.b64encode(raw).decode()}


def _encode_list(value: list[Any], find: FindReference, withheld: Withheld, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return {"$deep": encode_deep(value)}
    items = []
    has_changed = False
    for item in value:
        encoded = encode_value(item, find, withheld=withheld, depth=depth + 1)
        if encoded is not item:
            has_changed = True
        items.append(encoded)
    return items if has_changed else value


def _encode_object(
    value: dict[str, Any], find: FindReference, withheld: Withheld, depth: int
) -> Any:
    if depth > _MAX_DEPTH:
        return {"$deep": encode_deep(value)}
    if is_wrapper(value):
        ((key, inner),) = value.items()
        # What was one level below the object is three below the wrapper: object, list, value.
        return {"$raw": [key, encode_value(inner, find, withheld=withheld, depth=depth + 3)]}
    changed = None
    for key, item in value.items():
        new: Any
        if withheld.reasoning and key in _REASONING_KEYS and item:
            new = {"$withheld": "reasoning"}
        else:
            new = encode_value(item, find, withheld=withheld, depth=depth + 1)
        if new is not item:
            if changed is None:
                changed = dict(value)
            changed[key] = new
    return value if changed is None else changed


def is_wrapper(value: dict[str, Any]) -> bool:
    """Return whether an object stands for another value."""
    return len(value) == 1 and next(iter(value)).startswith("$")


def _resolve_none(reference: str) -> str:
    raise UnresolvedValue("$ref")


def decode_value(value: Any, resolve: ResolveReference = _resolve_none) -> Any:
    """Return the value as it was in the source; raise UnresolvedValue if it is not there."""
    if isinstance(value, list):
        return [decode_value(item, resolve) for item in value]
    if not isinstance(value, dict):
        return value
    if is_wrapper(value):
        ((name, encoded),) = value.items()
        return _decode_wrapper(name, encoded, resolve)
    return {key: decode_value(item, resolve) for key, item in value.items()}


def _decode_wrapper(name: str, encoded: Any, resolve: ResolveReference) -> Any:
    match name, encoded:
        case "$ref", str():
            return resolve(encoded)
        case "$raw", [str() as key, inner]:
            return {key: decode_value(inner, resolve)}
        case "$int", str():
            return int(encoded)
        case "$float", str():
            return float(encoded)
        case "$bytes", str():
            return base64.b64decode(encoded)
        case "$line", str():
            return encoded.encode()
        case "$deep", str():
            return decode_deep(encoded)
    raise UnresolvedValue(name)
