"""What is known of words: given names and family names of many languages, and the words that name
nobody."""

import functools
import os
import re
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.passes._extra import names_folder
from open_token.storage.files import read_optional

_FOLDER = Path(__file__).resolve().parent.parent / "rules"
# The first is counted by scripts/make_words.py, the second is written by hand.
_WORDS = ("words.txt", "nobody.txt")
# Countries that add hardly a name to the others of their language are not read.
_LANGUAGES = """ar ar-dz ar-om az cs da de de-at de-ch el en en-au en-ca es es-mx et fa fi fr hr hu is it ja kk ko nl
    nl-be no pl pt pt-br ru sk sv tr uk zh""".split()
_REMARKS = re.compile("^#.*", re.MULTILINE)
_ACCENTS = re.compile("[\u0300-\u036f]+")


class Lists(NamedTuple):
    """Words in small letters, with and without their accents."""

    given: frozenset[str] = frozenset()
    family: frozenset[str] = frozenset()


@functools.cache
def words() -> frozenset[str]:
    """Ordinary words, products, months and places: capitalised or not, they name no person by
    themselves."""
    text = "\n".join((read_optional(_FOLDER / name) or b"").decode() for name in _WORDS)
    return frozenset(_REMARKS.sub("", text).split())


@functools.cache
def lists() -> Lists:
    """The names of all languages that the extra knows; empty without it."""
    folder = names_folder()
    if folder is None:
        return Lists()
    people = [_parsed(file) for file in _files(folder)]
    return Lists(
        _spellings(" ".join(_joined(person.names) for person in people)),
        _spellings(" ".join(_joined(person.surnames) for person in people)),
    )


def list_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """The files that all of this is made of, as far as they are there."""
    files = [*_files(folder), *(_FOLDER / name for name in _WORDS)]
    return [(file, file.stat()) for file in files if file.is_file()]


def _files(folder: Path) -> list[Path]:
    return [folder / language / "person.json" for language in _LANGUAGES]


def plain(word: str) -> str:
    """A word in small letters and without accents."""
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    return _ACCENTS.sub("", unicodedata.normalize("NFD", lowered))


class _Person(msgspec.Struct):
    names: Any = None
    surnames: Any = None


def _parsed(file: Path) -> _Person:
    try:
        return msgspec.json.decode(read_optional(file) or b"{}", type=_Person)
    except msgspec.DecodeError:
        return _Person()


def _spellings(text: str) -> frozenset[str]:
    text = text.casefold()
    return frozenset(text.split()) | frozenset(plain(text).split())


def _joined(value: Any) -> str:
    """The strings of a list, or of lists by sex."""
    if isinstance(value, dict):
        return " ".join(map(_joined, value.values()))
    return (
        " ".join(item for item in value if isinstance(item, str)) if isinstance(value, list) else ""
    )
