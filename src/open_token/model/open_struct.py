"""Structs that preserve unknown keys, and their conversion to and from JSON."""

from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

# A private-use character: no key on the wire has this name.
_MORE_KEY = "\ue000more"
_ENCODED_MORE_KEY = f'"{_MORE_KEY}"'.encode()


class OpenStruct(Struct, kw_only=True):
    """A struct whose unknown keys are preserved in `more`; on the wire they join the known keys."""

    more: dict[str, Any] | UnsetType = field(default=UNSET, name=_MORE_KEY)


T = TypeVar("T", bound=OpenStruct)
_WIRE_NAMES: dict[type, tuple[tuple[str, str], ...]] = {}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(value: Any) -> bytes:
    """Return the JSON of a struct, or of a list or an object of structs."""
    encoded = _encoder.encode(value)
    # Most values have no unknown keys, and then msgspec's encoding is already right.
    if _ENCODED_MORE_KEY in encoded:
        return _encoder.encode(to_builtins(value))
    return encoded


def decode(data: bytes | str, type: type[T]) -> T:
    """Parse a struct from JSON; raise msgspec.ValidationError or DecodeError if it does not fit."""
    return from_builtins(_decoder.decode(data), type)


def to_builtins(value: Any) -> Any:
    """Return a value as dicts and lists, with unknown keys next to the known ones."""
    if isinstance(value, Struct):
        return _struct_to_dict(value)
    if isinstance(value, list | tuple):
        return [to_builtins(item) for item in value]
    if isinstance(value, dict):
        return {name: to_builtins(item) for name, item in value.items()}
    return value


def _struct_to_dict(value: Struct) -> dict[str, Any]:
    result = {}
    for attribute, name in _get_wire_names(value.__class__):
        item = getattr(value, attribute)
        if item is not UNSET:
            result[name] = _field_to_builtins(item)
    more = getattr(value, "more", UNSET)
    if more:
        for name, item in more.items():
            result.setdefault(name, item)
    return result


def _field_to_builtins(value: Any) -> Any:
    # Only structs and lists of structs need conversion: any other field holds JSON already.
    if isinstance(value, Struct):
        return _struct_to_dict(value)
    if isinstance(value, list) and value and isinstance(value[0], Struct):
        return [to_builtins(item) for item in value]
    return value


def from_builtins(value: Any, type: type[T]) -> T:
    """Convert an object to a struct; raise msgspec.ValidationError if it does not fit."""
    struct = msgspec.convert(value, type)
    _preserve_unknown_keys(struct, value)
    return struct


def _get_wire_names(kind: type) -> tuple[tuple[str, str], ...]:
    """Return the attributes of a struct type and their names on the wire."""
    names = _WIRE_NAMES.get(kind)
    if names is None:
        fields = msgspec.structs.fields(cast(Any, kind))
        names = tuple((item.name, item.encode_name) for item in fields if item.name != "more")
        _WIRE_NAMES[kind] = names
    return names


def _preserve_unknown_keys(struct: Any, value: dict[str, Any]) -> None:
    """Store the keys that a struct does not know in `more`, also in nested structs."""
    names = _get_wire_names(struct.__class__)
    known = {name for _, name in names}
    if not value.keys() <= known:
        known.add(_MORE_KEY)
        more = {name: item for name, item in value.items() if name not in known}
        struct.more = more or UNSET
    for attribute, name in names:
        item = getattr(struct, attribute)
        if isinstance(item, OpenStruct):
            _preserve_unknown_keys(item, value[name])
        elif isinstance(item, list) and item and isinstance(item[0], OpenStruct):
            for inner, source in zip(item, value[name], strict=True):
                _preserve_unknown_keys(inner, source)
