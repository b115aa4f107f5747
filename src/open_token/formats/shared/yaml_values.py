"""YAML as JSON-like values, built from parser events: bounded in depth and size."""

import base64
import binascii
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from open_token.errors import InputError

_MAX_DEPTH = 200
_SPARE_BYTES = 1 << 26
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_BINARY_TAGS = ("tag:yaml.org,2002:binary", "!binary")


def parse_yaml(text: str, name: str) -> list[Any]:
    """Return the documents of a YAML text; `name` is the name in errors."""
    yaml = _import_yaml(name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(name, len(text)).build(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(
            "the input is not YAML",
            where=f"{name}{place}",
            help="fix that line in a copy; nothing was exported",
            code="input.yaml",
        ) from None


def _import_yaml(name: str) -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        raise InputError(
            "to read YAML the package PyYAML is needed",
            where=name,
            help="install it with: pip install PyYAML",
            code="input.extra",
        ) from None


class _Builder:
    """Builds values from events, without recursion.

    Aliases share the value that they name; their size is counted as if it were copied.
    """

    def __init__(self, name: str, length: int) -> None:
        self._name = name
        self._max_size = 4 * length + _SPARE_BYTES
        self._size = 0
        """The size of everything if every alias were a copy."""
        self._open: list[tuple[Any, str | None, int]] = []
        self._keys: list[Any] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents: list[Any] = []

    def build(self, events: Iterator[Any]) -> list[Any]:
        handlers = {
            "ScalarEvent": self._add_scalar,
            "SequenceStartEvent": self._start_list,
            "MappingStartEvent": self._start_mapping,
            "SequenceEndEvent": self._end_collection,
            "MappingEndEvent": self._end_collection,
            "AliasEvent": self._add_alias,
        }
        for event in events:
            handle = handlers.get(type(event).__name__)
            if handle is not None:
                handle(event)
        return self._documents

    def _add_scalar(self, event: Any) -> None:
        value = _parse_scalar(event)
        self._add_size(len(event.value) + 16)
        if event.anchor:
            self._anchors[event.anchor] = (value, len(event.value) + 16)
        self._add_value(value)

    def _start_list(self, event: Any) -> None:
        self._start_collection([], event)

    def _start_mapping(self, event: Any) -> None:
        self._start_collection({}, event)

    def _start_collection(self, value: Any, event: Any) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise self._error("the YAML is nested too deep", code="input.deep")
        size_before = self._size
        self._add_size(32)
        self._open.append((value, event.anchor, size_before))
        self._keys.append(_NO_KEY)

    def _end_collection(self, _: Any) -> None:
        value, anchor, size_before = self._open.pop()
        self._keys.pop()
        if anchor:
            self._anchors[anchor] = (value, self._size - size_before)
        self._add_value(value)

    def _add_alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise self._error("a YAML alias names what it stands in, or nothing", code="input.yaml")
        value, size = known
        self._add_size(size)
        self._add_value(value)

    def _add_value(self, value: Any) -> None:
        """Add a complete value: to its list, or as a key or the value of one."""
        if not self._open:
            self._documents.append(value)
            return
        collection = self._open[-1][0]
        if isinstance(collection, list):
            collection.append(value)
        elif self._keys[-1] is _NO_KEY:
            self._keys[-1] = value if isinstance(value, str) else _format_key(value)
        else:
            collection[self._keys[-1]] = value
            self._keys[-1] = _NO_KEY

    def _add_size(self, size: int) -> None:
        self._size += size
        if self._size > self._max_size:
            raise self._error(
                "the aliases of this YAML unfold to far more than it holds", code="input.yaml-large"
            )

    def _error(self, what: str, *, code: str) -> InputError:
        return InputError(what, where=self._name, help="nothing was exported", code=code)


_NO_KEY = object()


def _format_key(value: Any) -> str:
    return str(value) if value is None or isinstance(value, bool | int | float) else "?"


def _parse_scalar(event: Any) -> Any:
    """Return a scalar; unquoted ones are numbers or constants only as recorders write them."""
    text = event.value
    if event.tag in _BINARY_TAGS:
        try:
            return base64.b64decode(text)
        except (binascii.Error, ValueError):
            return text
    if event.style or event.tag:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
