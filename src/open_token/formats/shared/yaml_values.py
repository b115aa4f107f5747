"""YAML as the JSON-like values that recordings hold, built from its events: bounded in depth and
size."""

import base64
import binascii
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from open_token.errors import InputError

_DEEPEST = 200
_SPARE = 1 << 26
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_BINARY = ("tag:yaml.org,2002:binary", "!binary")


def documents(text: str, name: str) -> list[Any]:
    """The documents of a YAML text. `name` is what errors call it."""
    yaml = _module(name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(name, len(text)).build(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(
            "the input is not YAML",
            where=f"{name}{place}",
            help="mend that line in a copy; nothing was exported",
            code="input.yaml",
        ) from None


def _module(name: str) -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        raise InputError(
            "to read YAML the package PyYAML is needed",
            where=name,
            help="install it with: pip install 'open-token[http]'",
            code="input.extra",
        ) from None


class _Builder:
    """Turns events into values, without recursion; aliases share the value they name, and their
    size is counted."""

    def __init__(self, name: str, length: int) -> None:
        self._name = name
        self._most = 4 * length + _SPARE
        self._size = 0
        """What all would weigh if every alias were a copy."""
        self._holders: list[tuple[Any, str | None, int]] = []
        self._keys: list[Any] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents: list[Any] = []

    def build(self, events: Iterator[Any]) -> list[Any]:
        kinds = {
            "ScalarEvent": self._scalar,
            "SequenceStartEvent": self._start_list,
            "MappingStartEvent": self._start_mapping,
            "SequenceEndEvent": self._end,
            "MappingEndEvent": self._end,
            "AliasEvent": self._alias,
        }
        for event in events:
            take = kinds.get(type(event).__name__)
            if take is not None:
                take(event)
        return self._documents

    def _scalar(self, event: Any) -> None:
        value = _value(event)
        self._weigh(len(event.value) + 16)
        if event.anchor:
            self._anchors[event.anchor] = (value, len(event.value) + 16)
        self._put(value)

    def _start_list(self, event: Any) -> None:
        self._start([], event)

    def _start_mapping(self, event: Any) -> None:
        self._start({}, event)

    def _start(self, made: Any, event: Any) -> None:
        if len(self._holders) >= _DEEPEST:
            raise self._refusal("the YAML is nested too deep", code="input.deep")
        before = self._size
        self._weigh(32)
        self._holders.append((made, event.anchor, before))
        self._keys.append(_NONE)

    def _end(self, _: Any) -> None:
        made, anchor, before = self._holders.pop()
        self._keys.pop()
        if anchor:
            self._anchors[anchor] = (made, self._size - before)
        self._put(made)

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise self._refusal(
                "a YAML alias names what it stands in, or nothing", code="input.yaml"
            )
        value, size = known
        self._weigh(size)
        self._put(value)

    def _put(self, value: Any) -> None:
        """A value is whole: it goes into its list, or is a key or the value of one."""
        if not self._holders:
            self._documents.append(value)
            return
        holder = self._holders[-1][0]
        if isinstance(holder, list):
            holder.append(value)
        elif self._keys[-1] is _NONE:
            self._keys[-1] = value if isinstance(value, str) else _key(value)
        else:
            holder[self._keys[-1]] = value
            self._keys[-1] = _NONE

    def _weigh(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise self._refusal(
                "the aliases of this YAML unfold to far more than it holds", code="input.yaml-large"
            )

    def _refusal(self, what: str, *, code: str) -> InputError:
        return InputError(what, where=self._name, help="nothing was exported", code=code)


_NONE = object()


def _key(value: Any) -> str:
    return str(value) if value is None or isinstance(value, bool | int | float) else "?"


def _value(event: Any) -> Any:
    """A scalar: what is quoted is a text; what is not is a number or a word only in the way
    recorders write them."""
    text = event.value
    if event.tag in _BINARY:
        try:
            return base64.b64decode(text)
        except (binascii.Error, ValueError):
            return text
    if event.style or event.tag:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
