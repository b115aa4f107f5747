"""Structs that keep the keys they do not know, and how they become JSON and come from it."""

from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

_MORE = "\ue000more"
_MARK = f'"{_MORE}"'.encode()


class Open(Struct, kw_only=True):
    """A type whose unknown keys are kept: they stand in `more`, and on the wire beside the known
    ones."""

    more: dict[str, Any] | UnsetType = field(default=UNSET, name=_MORE)


T = TypeVar("T", bound=Open)
_KNOWN: dict[type, tuple[tuple[str, str], ...]] = {}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(value: Any) -> bytes:
    """The JSON of a value of these types, or of a list or an object of them."""
    made = _encoder.encode(value)
    return _encoder.encode(plain(value)) if _MARK in made else made


def decode(data: bytes | str, type: type[T]) -> T:
    """A value of one of these types from its JSON; msgspec.ValidationError or DecodeError when it
    is none."""
    return typed(_decoder.decode(data), type)


def plain(value: Any) -> Any:
    """The value as objects and lists, with the unknown keys beside the known ones."""
    if isinstance(value, Struct):
        pairs = ((name, getattr(value, attribute)) for attribute, name in _names(value.__class__))
        made = {name: _plain_field(item) for name, item in pairs if item is not UNSET}
        more = getattr(value, "more", UNSET)
        return (
            {**made, **{name: item for name, item in more.items() if name not in made}}
            if more
            else made
        )
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def _plain_field(value: Any) -> Any:
    """Only a type of ours or a list of such is taken apart: anything else is JSON already."""
    if isinstance(value, Struct) or (
        isinstance(value, list) and value and isinstance(value[0], Struct)
    ):
        return plain(value)
    return value


def typed(value: Any, type: type[T]) -> T:
    """An object as one of these types; msgspec.ValidationError when it does not fit."""
    made = msgspec.convert(value, type)
    _keep(made, value)
    return made


def _names(kind: type) -> tuple[tuple[str, str], ...]:
    """The attributes of a type and their names on the wire."""
    known = _KNOWN.get(kind)
    if known is None:
        fields = msgspec.structs.fields(cast(Any, kind))
        known = _KNOWN[kind] = tuple(
            (item.name, item.encode_name) for item in fields if item.name != "more"
        )
    return known


def _keep(made: Any, value: dict[str, Any]) -> None:
    """Put the keys aside that the type does not have, here and below."""
    names = _names(made.__class__)
    known = {name for _, name in names}
    if not value.keys() <= known:
        made.more = {
            name: item for name, item in value.items() if name not in known and name != _MORE
        } or UNSET
    for attribute, name in names:
        item = getattr(made, attribute)
        if isinstance(item, Open):
            _keep(item, value[name])
        elif isinstance(item, list) and item and isinstance(item[0], Open):
            for inner, given in zip(item, value[name], strict=True):
                _keep(inner, given)
