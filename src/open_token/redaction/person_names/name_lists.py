"""Lists of given and family names of many languages, and of common words that are no names.

Most names come from the package mimesis, of which only the data is read; names.txt adds those of
regions that it has in other scripts alone. As tables in the cache folder they load fast.
"""

import functools
import hashlib
import os
import re
import sys
import unicodedata
import zlib
from array import array
from collections.abc import Container, Iterable
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.redaction.cache_files import write_cache_file
from open_token.storage.files import read_optional, remove_file

_PACKAGE = "mimesis"
_MISSING_REMARK = (
    "people's names were looked for by a short list alone: the package mimesis is not installed"
)
_FOLDER = Path(__file__).resolve().parent.parent / "rules"
_NAMES_FILE = Path(__file__).resolve().parent / "names.txt"
_END_OF_GIVEN_NAMES = "----"
# The first is counted by scripts/make_words.py, the second is written by hand.
_WORD_FILES = ("words.txt", "nobody.txt")
# Countries that add hardly a name to the others of their language are not read.
_LANGUAGES = """ar ar-dz ar-om az cs da de de-at de-ch el en en-au en-ca es es-mx et fa fi fr hr hu is it ja kk ko nl
    nl-be no pl pt pt-br ru sk sv tr uk zh""".split()
_COMMENTS = re.compile("^#.*", re.MULTILINE)
_ACCENTS = re.compile("[\u0300-\u036f]+")

_TABLE_FORMAT = b"names 1\n"
_BUCKETS = 1 << 14
_INDEX_SIZE = 4 * (_BUCKETS + 1)
_CHECKSUM_SIZE = 8
_CACHE_FOLDERS: list[Path] = []
"""The cache folder that was given first, if any: the tables are the same in all of them."""


class NameLists(NamedTuple):
    """Names in lower case, with and without their accents."""

    given: frozenset[str] = frozenset()
    family: frozenset[str] = frozenset()


class NameTables(NamedTuple):
    """Words in lower case that can be looked up."""

    given: Container[str]
    family: Container[str]
    ordinary: Container[str]


@functools.cache
def find_names_folder() -> Path | None:
    """Return the folder of the lists of names; None where they are not installed."""
    try:
        spec = find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    folder = Path(spec.origin).parent / "datasets"
    return folder if (folder / "en" / "person.json").is_file() else None


def list_missing_extras() -> list[str]:
    """Return the remark about missing packages for the account of a redaction."""
    return [_MISSING_REMARK] if find_names_folder() is None else []


@functools.cache
def load_common_words() -> frozenset[str]:
    """Return words, products, months and places that are no names by themselves."""
    text = "\n".join((read_optional(_FOLDER / name) or b"").decode() for name in _WORD_FILES)
    return frozenset(_COMMENTS.sub("", text).split())


@functools.cache
def load_name_lists() -> NameLists:
    """Return the names of all languages; without mimesis only those of our own file."""
    own = _COMMENTS.sub("", (read_optional(_NAMES_FILE) or b"").decode())
    given, _, family = own.partition(_END_OF_GIVEN_NAMES)
    folder = find_names_folder()
    people = [_read_person(file) for file in _list_person_files(folder)] if folder else []
    given_names = [given, *(_join_strings(person.names) for person in people)]
    family_names = [family, *(_join_strings(person.surnames) for person in people)]
    return NameLists(
        _collect_spellings(" ".join(given_names)), _collect_spellings(" ".join(family_names))
    )


def _list_source_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the existing files that the tables are made of."""
    files = [*_list_person_files(folder), _NAMES_FILE, *(_FOLDER / name for name in _WORD_FILES)]
    return [(file, file.stat()) for file in files if file.is_file()]


def _list_person_files(folder: Path) -> list[Path]:
    return [folder / language / "person.json" for language in _LANGUAGES]


def strip_accents(word: str) -> str:
    """Return a word in lower case and without accents."""
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    return _ACCENTS.sub("", unicodedata.normalize("NFD", lowered))


class _Person(msgspec.Struct):
    names: Any = None
    surnames: Any = None


def _read_person(file: Path) -> _Person:
    try:
        return msgspec.json.decode(read_optional(file) or b"{}", type=_Person)
    except msgspec.DecodeError:
        return _Person()


def _collect_spellings(text: str) -> frozenset[str]:
    text = text.casefold()
    return frozenset(text.split()) | frozenset(strip_accents(text).split())


def _join_strings(value: Any) -> str:
    """Return the strings of a list, or of lists by gender, as one text."""
    if isinstance(value, dict):
        return " ".join(map(_join_strings, value.values()))
    if isinstance(value, list):
        return " ".join(item for item in value if isinstance(item, str))
    return ""


class Table:
    """A hash table of words: where each bucket begins, then the words, each on a line."""

    def __init__(self, raw: memoryview) -> None:
        self._starts = raw[:_INDEX_SIZE].cast("I")
        self._words = bytes(raw[_INDEX_SIZE:])

    def __contains__(self, word: object) -> bool:
        raw = str(word).encode("utf-8", "surrogatepass")
        bucket = zlib.crc32(raw) % _BUCKETS
        line = b"\n%b\n" % raw
        starts = self._starts
        return self._words.find(line, starts[bucket], starts[bucket + 1] + 1) >= 0


def _build_table(words: Iterable[str]) -> bytes:
    buckets: list[list[bytes]] = [[] for _ in range(_BUCKETS)]
    for word in sorted(words):
        raw = word.encode("utf-8", "surrogatepass")
        buckets[zlib.crc32(raw) % _BUCKETS].append(raw)
    starts = array("I")
    lines: list[bytes] = []
    position = 0
    for bucket in buckets:
        starts.append(position)
        lines += bucket
        position += sum(len(raw) + 1 for raw in bucket)
    starts.append(position)
    body = b"\n".join([b"", *lines, b""])
    padding = bytes(-len(body) % 4)
    return starts.tobytes() + body + padding


def set_cache_folder(cache: Path | None) -> None:
    """Set where the tables are stored, before the first look-up."""
    if cache is not None and not _CACHE_FOLDERS:
        _CACHE_FOLDERS.append(cache)


@functools.cache
def load_names() -> NameTables:
    """Return the names, loaded once a process."""
    return load_name_tables(_CACHE_FOLDERS[0] if _CACHE_FOLDERS else None)


def load_name_tables(cache: Path | None) -> NameTables:
    """Return the names of all languages from the cache, which is filled if it does not have them."""
    folder = find_names_folder()
    if folder is None or cache is None:
        return NameTables(*load_name_lists(), load_common_words())
    path = cache / f"names-{_compute_stamp(folder)}.table"
    raw = read_optional(path, private=True)
    tables = _parse_tables(raw) if raw is not None else None
    if tables is not None:
        return tables
    lists = (*load_name_lists(), load_common_words())
    if write_cache_file(path, _serialize_tables(*lists)):
        _remove_other_tables(cache, path)
    return NameTables(*lists)


def _remove_other_tables(cache: Path, path: Path) -> None:
    from open_token.sources.origin import find_files

    for other in find_files(cache, "names-*.table"):
        if other != path:
            remove_file(other)


@functools.cache
def _compute_stamp(folder: Path) -> str:
    """Return a hash that changes with the installed lists and with the format of the tables."""
    lines = [repr(_TABLE_FORMAT), sys.byteorder]
    for file, status in _list_source_files(folder):
        lines.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _serialize_tables(*lists: frozenset[str]) -> bytes:
    tables = list(map(_build_table, lists))
    body = b"".join([array("I", map(len, tables)).tobytes(), *tables])
    return _TABLE_FORMAT + zlib.crc32(body).to_bytes(_CHECKSUM_SIZE, "big") + body


def _parse_tables(raw: bytes) -> NameTables | None:
    """Return stored tables; None if they are damaged or of another format."""
    begin = len(_TABLE_FORMAT) + _CHECKSUM_SIZE
    body = memoryview(raw)[begin:]
    if not raw.startswith(_TABLE_FORMAT):
        return None
    checksum = zlib.crc32(body).to_bytes(_CHECKSUM_SIZE, "big")
    if raw[len(_TABLE_FORMAT) : begin] != checksum:
        return None
    count = len(NameTables._fields)
    ends = list(accumulate(body[: 4 * count].cast("I"), initial=4 * count))
    return NameTables(*(Table(body[start:end]) for start, end in pairwise(ends)))
