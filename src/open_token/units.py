"""What a source consists of: every record, row, member and block of every file that a reader took
from it."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from open_token.sources.source import Source

_BLOCK = 1 << 16
_BYTES = 1 << 20
_EVENT_END = r"(?<=\n\n)"


@dataclass(frozen=True)
class Unit:
    """One piece, with its number in its file; `at` tells the list or the table that it stands
    in."""

    number: int
    value: Any
    at: str = ""
    place: int = 0


@dataclass(frozen=True)
class Part:
    """One file: its name ('' is the source itself), what it is, facts that are needed to write it
    again, its units."""

    file: str
    shape: str
    units: Callable[[], Iterator[Unit]]
    facts: dict[str, Any] = field(default_factory=dict)
    source: Source | None = None


def parts(
    source: Source, split: str | None = None, wanted: Callable[[str], bool] | None = None
) -> Iterator[Part]:
    """The files of a source: itself, its members, and the others that were read with it, if they
    are wanted."""
    if source.shape == "zip":
        yield Part("", "zip", lambda: iter(()), {"members": source.members}, source)
        for name in source.members:
            member = source.member(name) if wanted is None or wanted(name) else None
            if member is not None:
                yield _part(f"!{name}", member, None)
        return
    if source.shape != "folder":
        yield _part("", source, split)
    seen = {source.path}
    for other in list(source.family):
        if other.is_read and other.path is not None and other.path not in seen:
            seen.add(other.path)
            label = _label(source, other)
            if wanted is None or wanted(label):
                yield _part(label, other, None)


def _label(source: Source, other: Source) -> str:
    """The name of a file as seen from the source."""
    assert source.path is not None
    assert other.path is not None
    home = source.path if source.is_folder else source.path.parent
    return os.path.relpath(other.path, home).replace(os.sep, "/")


def _part(name: str, source: Source, split: str | None) -> Part:
    shape = source.shape
    if shape == "lines":
        return Part(name, shape, lambda: _records(source), source=source)
    if shape == "glued" or (shape == "document" and isinstance(source.document, list)):
        kind = "list" if shape == "document" else shape
        return Part(name, kind, lambda: _records(source), source=source)
    if shape == "document" and isinstance(source.document, dict):
        lists = _lists(source.document)
        facts: dict[str, Any] = (
            {"lists": {key: len(source.document[key]) for key in lists}} if lists else {}
        )
        return Part(name, shape, lambda: _items(source.document, lists), facts, source)
    if shape == "sqlite":
        facts = {"schema": source.database.schema, "columns": source.tables}
        return Part(name, shape, lambda: _rows(source), facts, source)
    if shape in ("text", "events", "empty") and _is_text(source):
        cut = split or (_EVENT_END if shape == "events" else None)
        return Part(name, "text", lambda: _blocks(source.text, cut), source=source)
    if shape == "document":
        return Part(name, shape, lambda: iter((Unit(1, source.document),)), source=source)
    return Part(name, "bytes", lambda: _chunks(source), source=source)


def _is_text(source: Source) -> bool:
    if source not in _texts:
        try:
            source.whole.decode("utf-8")
            _texts[source] = True
        except UnicodeDecodeError:
            _texts[source] = False
    return _texts[source]


_texts: WeakKeyDictionary[Source, bool] = WeakKeyDictionary()


def _records(source: Source) -> Iterator[Unit]:
    return (Unit(number, value) for number, value in source.records(tell=False))


def _lists(document: dict[str, Any]) -> list[str]:
    """The names of the lists in a document whose items are records of their own."""
    return [
        key
        for key, value in document.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    ]


def _items(document: dict[str, Any], lists: list[str]) -> Iterator[Unit]:
    yield Unit(1, {key: [] if key in lists else value for key, value in document.items()})
    number = 1
    for key in lists:
        for place, value in enumerate(document[key]):
            number += 1
            yield Unit(number, value, key, place)


def _rows(source: Source) -> Iterator[Unit]:
    number = 0
    for table in source.tables:
        for row in source.database.rows_of(table):
            number += 1
            yield Unit(number, list(row), table)


def _blocks(text: str, split: str | None) -> Iterator[Unit]:
    """Pieces of text: cut where conversations begin, and at line ends so that none is too long."""
    starts = [found.start() for found in re.finditer(split, text, re.MULTILINE)] if split else []
    number = 0
    for first, end in zip([0, *starts], [*starts, len(text)], strict=True):
        while first < end:
            stop = end
            if end - first > _BLOCK:
                stop = text.rfind("\n", first, first + _BLOCK) + 1 or first + _BLOCK
            number += 1
            yield Unit(number, text[first:stop])
            first = stop


def _chunks(source: Source) -> Iterator[Unit]:
    with source.opened() as stream:
        number = 0
        while data := stream.read(_BYTES):
            number += 1
            yield Unit(number, data)


NOBODY = "(nobody)"
"""What a reader says of a unit that no export may keep, such as the credentials in a runtime's
database."""


def owned(source: Source, module: Any) -> Iterator[tuple[Part, Iterator[Unit]]]:
    """The files of a source, each with the units of the chosen conversation, or all that an export
    may keep."""
    split = module.definition.block_separator
    if not module.definition.holds_several:
        yield from ((part, part.units()) for part in parts(source, split))
        return
    ownership = _Ownership(source, module)
    for part in parts(source, split, ownership.has_file):
        units = ownership.units(part)
        if not ownership.is_later:
            yield part, units
        elif part.shape == "zip":
            own = [name for name in part.facts["members"] if ownership.has_own(name)]
            yield replace(part, facts={**part.facts, "members": own}), units
        elif (first := next(units, None)) is not None or not part.file:
            yield part, chain((first,), units) if first is not None else units


class _Ownership:
    """Whose a unit is. The first of several conversations also has what is nobody's own."""

    def __init__(self, source: Source, module: Any) -> None:
        self._source = source
        self._belongs = module.find_owner
        known = _ids(source, module) if source.conversation is not None else []
        self._wanted = (
            source.conversation if known else None
        )  # a source that lists none is one, named or not
        self._known = frozenset(known)
        self._is_first = known[:1] == [self._wanted]
        self.is_later = self._wanted is not None and not self._is_first
        """Whether it is one of several and not the first, which has what is nobody's own."""

    def has_file(self, name: str) -> bool:
        """Whether there can be something of the conversation in a file."""
        whose = self._belongs(self._source, name, None)
        return whose is None or self._is_ours(whose)

    def has_own(self, name: str) -> bool:
        """Whether a file is the conversation's alone."""
        return bool(self._belongs(self._source, name, None) == self._wanted)

    def units(self, part: Part) -> Iterator[Unit]:
        """The units of a file that are the conversation's; which they are is found out once for all
        conversations."""
        if self._wanted is None or (part.source or self._source).size > _HELD:
            return (unit for unit in part.units() if self._is_ours(self._whose(part, unit)))
        index = _indexes.setdefault(self._source, {})
        if part.file not in index:
            sorted_out = index[part.file] = {}
            for unit in part.units():
                whose = self._whose(part, unit)
                if whose != NOBODY:
                    sorted_out.setdefault(whose if whose in self._known else None, []).append(unit)
        found = index[part.file].get(self._wanted, [])
        if self._is_first and None in index[part.file]:
            found = sorted([*found, *index[part.file][None]], key=lambda unit: unit.number)
        return iter(found)

    def _whose(self, part: Part, unit: Unit) -> str | None:
        whose: str | None
        if not part.file:
            is_shell = part.shape == "document" and not unit.at
            whose = None if is_shell else self._belongs(self._source, *_asked(part, unit))
            return whose
        name = part.file.removeprefix("!")
        whose = self._belongs(self._source, name, None)
        if whose is None and part.shape in ("list", "lines", "glued"):
            whose = self._belongs(self._source, f"{name}{_asked(part, unit)[0]}", unit.value)
        return whose

    def _is_ours(self, whose: str | None) -> bool:
        if self._wanted is None or whose == NOBODY:
            return whose != NOBODY
        return whose == self._wanted or (self._is_first and whose not in self._known)


def _ids(source: Source, module: Any) -> list[str]:
    """The conversations of a source, listed once, however many of them are exported."""
    listed = _listed.setdefault(source, {})
    if module.definition.name not in listed:
        listed[module.definition.name] = [item.id for item in module.list_conversations(source)]
    return listed[module.definition.name]


_listed: WeakKeyDictionary[Source, dict[str, list[str]]] = WeakKeyDictionary()
_HELD = 1 << 26
"""Of a larger file the units are not held in memory, but looked through for each conversation."""
_indexes: WeakKeyDictionary[Source, dict[str, dict[str | None, list[Unit]]]] = WeakKeyDictionary()


def _asked(part: Part, unit: Unit) -> tuple[str, Any]:
    """A unit as readers are asked about it."""
    if part.shape == "sqlite":
        return unit.at, dict(zip(part.facts["columns"][unit.at], unit.value, strict=True))
    if part.shape == "document":
        return f"/{unit.at}/{unit.place}", unit.value
    return f"/{unit.number if part.shape in ('lines', 'text') else unit.number - 1}", unit.value
