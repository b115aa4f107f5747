"""The lists of names as they lie in a file of the cache: searched there, since to make sets of them
takes too long."""

import functools
import hashlib
import sys
import zlib
from array import array
from collections.abc import Container, Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from open_token.passes._extra import names_folder
from open_token.passes._keeping import keep
from open_token.passes._people_lists import list_files, lists, words
from open_token.sources.origin import files_below
from open_token.storage.files import read_optional, remove

_FORM = b"names 1\n"
_BUCKETS = 1 << 14
_HEAD = 4 * (_BUCKETS + 1)
_CHECK = 8
_PLACE: list[Path] = []
"""The cache folder that was told first: what is kept there says the same in all of them."""


class Known(NamedTuple):
    """What can be asked for a word in small letters."""

    given: Container[str]
    family: Container[str]
    ordinary: Container[str]


class Table:
    """Words by their checksum: where each bucket begins, then the words of all of them, each on a
    line."""

    def __init__(self, raw: memoryview) -> None:
        self._starts = raw[:_HEAD].cast("I")
        self._words = bytes(raw[_HEAD:])

    def __contains__(self, word: object) -> bool:
        raw = str(word).encode("utf-8", "surrogatepass")
        number = zlib.crc32(raw) % _BUCKETS
        line, starts = b"\n%b\n" % raw, self._starts
        return self._words.find(line, starts[number], starts[number + 1] + 1) >= 0


def table_bytes(words: Iterable[str]) -> bytes:
    """The table of these words."""
    buckets: list[list[bytes]] = [[] for _ in range(_BUCKETS)]
    for word in sorted(words):
        raw = word.encode("utf-8", "surrogatepass")
        buckets[zlib.crc32(raw) % _BUCKETS].append(raw)
    starts, parts, place = array("I"), [], 0
    for bucket in buckets:
        starts.append(place)
        parts += bucket
        place += sum(len(raw) + 1 for raw in bucket)
    starts.append(place)
    body = b"\n".join([b"", *parts, b""])
    return starts.tobytes() + body + bytes(-len(body) % 4)


def keep_in(cache: Path | None) -> None:
    """Say where the names may be kept, before they are asked for."""
    if cache is not None and not _PLACE:
        _PLACE.append(cache)


@functools.cache
def names() -> Known:
    """The names as this process holds them."""
    return known(_PLACE[0] if _PLACE else None)


def known(cache: Path | None) -> Known:
    """The names of all languages, from the cache if it has them, else into it; empty where there
    are none."""
    folder = names_folder()
    if folder is None or cache is None:
        return Known(*lists(), words())
    place = cache / f"names-{_stamp(folder)}.table"
    raw = read_optional(place, private=True)
    if raw is None or (kept := _opened(raw)) is None:
        kept = Known(*lists(), words())
        if keep(place, _stored(*lists(), words())):
            for old in files_below(cache, "names-*.table"):
                if old != place:
                    remove(old)
    return kept


@functools.cache
def _stamp(folder: Path) -> str:
    """Changes with the installed lists, and with the form of the table."""
    told = [f"{file} {facts.st_size} {facts.st_mtime_ns}" for file, facts in list_files(folder)]
    return hashlib.sha256("\n".join([repr(_FORM), sys.byteorder, *told]).encode()).hexdigest()[:32]


def _stored(*listed: frozenset[str]) -> bytes:
    tables = list(map(table_bytes, listed))
    body = b"".join([array("I", map(len, tables)).tobytes(), *tables])
    return _FORM + zlib.crc32(body).to_bytes(_CHECK, "big") + body


def _opened(raw: bytes) -> Known | None:
    """None for a file that is damaged or of another form."""
    begin = len(_FORM) + _CHECK
    body = memoryview(raw)[begin:]
    if raw[: len(_FORM)] != _FORM or raw[len(_FORM) : begin] != zlib.crc32(body).to_bytes(
        _CHECK, "big"
    ):
        return None
    count = len(Known._fields)
    ends = list(accumulate(body[: 4 * count].cast("I"), initial=4 * count))
    return Known(*(Table(body[start:end]) for start, end in pairwise(ends)))
