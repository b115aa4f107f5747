"""The units of a source: every record, row, item and block of every file that was read."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any
from weakref import WeakKeyDictionary

from open_token.registry import Reader
from open_token.sources.source import IrregularLine, Source

NOBODY = "(nobody)"
"""What a reader returns for a unit that no export may keep, such as credentials in a database."""

_TEXT_BLOCK = 1 << 16
_BYTE_BLOCK = 1 << 20
_EVENT_END = r"(?<=\n\n)"
# Units of larger files are not kept in memory, but searched again for each conversation.
_MAX_INDEXED = 1 << 26


@dataclass(frozen=True)
class SourceUnit:
    """One piece of a file, with its number there.

    `at` names the table, or the list of a document, and `place` the position in that list.
    """

    number: int
    value: Any
    at: str = ""
    place: int = 0


@dataclass(frozen=True)
class SourcePart:
    """One file: its name ('' is the source itself), shape, units, and facts to rebuild it."""

    file: str
    shape: str
    units: Callable[[], Iterator[SourceUnit]]
    facts: dict[str, Any] = field(default_factory=dict)
    source: Source | None = None


def iter_parts(
    source: Source, split: str | None = None, is_wanted: Callable[[str], bool] | None = None
) -> Iterator[SourcePart]:
    """Yield the files of a source: itself, its members, and the others that were read with it.

    `split` is a pattern at which text is cut into blocks.
    """
    if source.shape == "zip":
        yield SourcePart("", "zip", lambda: iter(()), {"members": source.members}, source)
        for name in source.members:
            if is_wanted is not None and not is_wanted(name):
                continue
            member = source.member(name)
            if member is not None:
                yield _build_part(f"!{name}", member, None)
        return
    if source.shape != "folder":
        yield _build_part("", source, split)
    # A copy: building a part may open more files, which join the family.
    seen = {source.path}
    for other in list(source.family):
        if not other.is_read or other.path is None or other.path in seen:
            continue
        seen.add(other.path)
        label = _build_label(source, other)
        if is_wanted is None or is_wanted(label):
            yield _build_part(label, other, None)


def _build_label(source: Source, other: Source) -> str:
    """Return the path of a file relative to the source."""
    assert source.path is not None
    assert other.path is not None
    home = source.path if source.is_folder else source.path.parent
    return os.path.relpath(other.path, home).replace(os.sep, "/")


def _build_part(name: str, source: Source, split: str | None) -> SourcePart:
    shape = source.shape
    if shape == "lines":
        return SourcePart(name, shape, lambda: _iter_lines(source), source=source)
    if shape == "glued":
        return SourcePart(name, shape, lambda: _iter_records(source), source=source)
    if shape == "document":
        return _build_document_part(name, source)
    if shape == "sqlite":
        facts = {"schema": source.database.schema, "columns": source.tables}
        return SourcePart(name, shape, lambda: _iter_rows(source), facts, source)
    if shape in ("text", "events", "empty") and _is_text(source):
        pattern = split
        if pattern is None and shape == "events":
            pattern = _EVENT_END

        def iter_blocks() -> Iterator[SourceUnit]:
            return _iter_text_blocks(source.text, pattern)

        return SourcePart(name, "text", iter_blocks, source=source)
    return SourcePart(name, "bytes", lambda: _iter_byte_blocks(source), source=source)


def _build_document_part(name: str, source: Source) -> SourcePart:
    document = source.document
    if isinstance(document, list):
        return SourcePart(name, "list", lambda: _iter_records(source), source=source)
    if not isinstance(document, dict):
        return SourcePart(name, "document", lambda: iter((SourceUnit(1, document),)), source=source)
    list_keys = _find_record_lists(document)
    facts: dict[str, Any] = {}
    if list_keys:
        # Restoring the document needs to know how many items go into each list.
        facts["lists"] = {key: len(document[key]) for key in list_keys}
    return SourcePart(
        name, "document", lambda: _iter_items(source.document, list_keys), facts, source
    )


_is_utf8: WeakKeyDictionary[Source, bool] = WeakKeyDictionary()


def _is_text(source: Source) -> bool:
    if source not in _is_utf8:
        try:
            source.whole.decode("utf-8")
            _is_utf8[source] = True
        except UnicodeDecodeError:
            _is_utf8[source] = False
    return _is_utf8[source]


def _iter_lines(source: Source) -> Iterator[SourceUnit]:
    return (SourceUnit(number, value) for number, value in source.lines())


def _iter_records(source: Source) -> Iterator[SourceUnit]:
    return (SourceUnit(number, value) for number, value in source.records(is_preview=True))


def _find_record_lists(document: dict[str, Any]) -> list[str]:
    """Return the keys of the lists in a document whose items are all objects."""
    keys = []
    for key, value in document.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            keys.append(key)
    return keys


def _iter_items(document: dict[str, Any], list_keys: list[str]) -> Iterator[SourceUnit]:
    """Yield a document with empty lists, and then the items of its lists."""
    shell = dict(document)
    for key in list_keys:
        shell[key] = []
    yield SourceUnit(1, shell)
    number = 1
    for key in list_keys:
        for place, value in enumerate(document[key]):
            number += 1
            yield SourceUnit(number, value, key, place)


def _iter_rows(source: Source) -> Iterator[SourceUnit]:
    number = 0
    for table in source.tables:
        for row in source.database.read_table(table):
            number += 1
            yield SourceUnit(number, list(row), table)


def _iter_text_blocks(text: str, pattern: str | None) -> Iterator[SourceUnit]:
    """Cut text where conversations begin, and at line ends so that no block is too long."""
    bounds = [0]
    if pattern:
        for match in re.finditer(pattern, text, re.MULTILINE):
            bounds.append(match.start())
    bounds.append(len(text))
    number = 0
    for start, end in pairwise(bounds):
        while start < end:
            stop = end
            if end - start > _TEXT_BLOCK:
                longest = start + _TEXT_BLOCK
                line_end = text.rfind("\n", start, longest) + 1
                # A line that is longer than a block is cut anywhere.
                stop = line_end or longest
            number += 1
            yield SourceUnit(number, text[start:stop])
            start = stop


def _iter_byte_blocks(source: Source) -> Iterator[SourceUnit]:
    number = 0
    with source.opened() as stream:
        while data := stream.read(_BYTE_BLOCK):
            number += 1
            yield SourceUnit(number, data)


def iter_owned_units(
    source: Source, reader: Reader
) -> Iterator[tuple[SourcePart, Iterator[SourceUnit]]]:
    """Yield the files of a source, each with the units of the selected conversation.

    Without a selection these are all units that an export may keep. `reader` is its reader; its
    `find_owner` says which conversation a unit belongs to.
    """
    split = reader.definition.block_separator
    if not reader.definition.holds_several:
        for part in iter_parts(source, split):
            yield part, part.units()
        return
    ownership = _Ownership(source, reader)
    for part in iter_parts(source, split, ownership.may_own_file):
        units = ownership.iter_units(part)
        if not ownership.is_later:
            yield part, units
            continue
        # Files of which a later conversation owns nothing are embedded with the first one only;
        # otherwise every conversation of an archive would list all of its files.
        if part.shape == "zip":
            members = [name for name in part.facts["members"] if ownership.owns_file(name)]
            yield replace(part, facts={**part.facts, "members": members}), units
            continue
        first = next(units, None)
        if first is not None:
            yield part, chain((first,), units)
        elif not part.file:
            # The source itself is always there: its facts say what restore has to write.
            yield part, units


class _Ownership:
    """Decides which units belong to the selected conversation of a source.

    The first of several conversations also owns what belongs to none of them. `is_later` is set if
    the selected one is not the first.
    """

    def __init__(self, source: Source, reader: Reader) -> None:
        self._source = source
        self._ask_reader = reader.find_owner
        known: list[str] = []
        if source.conversation is not None:
            known = _list_ids(source, reader)
        # A source that lists no conversations is one, whether it is named or not.
        self._wanted = source.conversation if known else None
        self._known = frozenset(known)
        self._is_first = bool(known) and known[0] == self._wanted
        self.is_later = self._wanted is not None and not self._is_first

    def may_own_file(self, name: str) -> bool:
        """Return whether a file may hold units of the conversation."""
        owner = self._ask_reader(self._source, name, None)
        return owner is None or self._is_wanted(owner)

    def owns_file(self, name: str) -> bool:
        """Return whether a file belongs to the conversation alone."""
        return bool(self._ask_reader(self._source, name, None) == self._wanted)

    def iter_units(self, part: SourcePart) -> Iterator[SourceUnit]:
        """Return the units of a file that belong to the conversation."""
        file = part.source or self._source
        if self._wanted is None or file.size > _MAX_INDEXED:
            return self._iter_wanted(part)
        # The owners are found once for all conversations of the source.
        index = _units_by_owner.setdefault(self._source, {})
        if part.file not in index:
            index[part.file] = self._group_by_owner(part)
        groups = index[part.file]
        units = groups.get(self._wanted, [])
        if self._is_first and None in groups:
            units = sorted([*units, *groups[None]], key=lambda unit: unit.number)
        return iter(units)

    def _iter_wanted(self, part: SourcePart) -> Iterator[SourceUnit]:
        for unit in part.units():
            if self._is_wanted(self._find_owner(part, unit)):
                yield unit

    def _group_by_owner(self, part: SourcePart) -> dict[str | None, list[SourceUnit]]:
        groups: dict[str | None, list[SourceUnit]] = {}
        for unit in part.units():
            owner = self._find_owner(part, unit)
            if owner != NOBODY:
                key = owner if owner in self._known else None
                groups.setdefault(key, []).append(unit)
        return groups

    def _find_owner(self, part: SourcePart, unit: SourceUnit) -> str | None:
        owner: str | None
        if not part.file:
            # The document around the lists belongs to no conversation, and so to the first.
            is_shell = part.shape == "document" and not unit.at
            if is_shell:
                return None
            address, value = _address_unit(part, unit)
            owner = self._ask_reader(self._source, address, value)
            return owner
        name = part.file.removeprefix("!")
        owner = self._ask_reader(self._source, name, None)
        if owner is None and part.shape in ("list", "lines", "glued"):
            address, value = _address_unit(part, unit)
            owner = self._ask_reader(self._source, f"{name}{address}", value)
        return owner

    def _is_wanted(self, owner: str | None) -> bool:
        if owner == NOBODY:
            return False
        if self._wanted is None or owner == self._wanted:
            return True
        return self._is_first and owner not in self._known


_ids_of_source: WeakKeyDictionary[Source, dict[str, list[str]]] = WeakKeyDictionary()
_units_by_owner: WeakKeyDictionary[Source, dict[str, dict[str | None, list[SourceUnit]]]] = (
    WeakKeyDictionary()
)


def _list_ids(source: Source, reader: Reader) -> list[str]:
    """Return the conversations of a source, which are listed once, however many are exported."""
    ids = _ids_of_source.setdefault(source, {})
    if reader.definition.name not in ids:
        conversations = reader.list_conversations(source)
        ids[reader.definition.name] = [conversation.id for conversation in conversations]
    return ids[reader.definition.name]


def _address_unit(part: SourcePart, unit: SourceUnit) -> tuple[str, Any]:
    """Return the address and the value with which a reader is asked about a unit."""
    if part.shape == "sqlite":
        return unit.at, dict(zip(part.facts["columns"][unit.at], unit.value, strict=True))
    if part.shape == "document":
        return f"/{unit.at}/{unit.place}", unit.value
    number = unit.number
    # Units are counted from 1. Readers count lines and blocks of text alike, items of lists from 0.
    if part.shape not in ("lines", "text"):
        number -= 1
    value = unit.value
    if isinstance(value, IrregularLine):
        # Several records on one line belong together: the first one says whose they are.
        value = value.records[0] if value.records else None
    return f"/{number}", value
