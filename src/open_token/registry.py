"""Every agent and format that can be read, and which of them an input is.

A reader is a package in `agents/` or `formats/`. There is no list of them: a new package registers
itself by being there. Its definition is data, and its modules are imported when they are needed.
"""

import os
from functools import cache, cached_property
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError, MultipleConversationsError, UsageError
from open_token.formats.definition import Agent, Format
from open_token.model.document import Found
from open_token.sources.source import SAMPLE_RECORDS, Source

_PACKAGES = ("agents", "formats")
# An export names itself; its events may hold the keys of any other format.
_EXPORT = "open_token"
# Shorter signatures occur in files of any kind.
_SPECIFIC_SIGNATURE = 12
_MAX_NEAR_MISSES = 3
_SHORT_HEAD = 1 << 13


class Head:
    """The first bytes of an input, in which signatures are looked for."""

    def __init__(self, head: bytes) -> None:
        self._signatures = _find_signatures(head)

    def contains(self, signature: bytes) -> bool:
        """Return whether a signature of one of the readers is in the head of an input."""
        return signature in self._signatures


def _find_signatures(head: bytes) -> set[bytes]:
    signatures = _list_signatures()
    # To load RE2 takes longer than to look for every signature in a small file.
    if len(head) < _SHORT_HEAD:
        return {signature for signature in signatures if signature in head}
    return {signatures[position] for position in _compile_signatures().Match(head) or ()}


@cache
def _list_signatures() -> list[bytes]:
    return sorted({text for reader in READERS.values() for text in reader.definition.signatures})


@cache
def _compile_signatures() -> Any:
    """Return a set of patterns that finds all signatures in one pass."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    patterns = re2.Set.SearchSet(options)
    for signature in _list_signatures():
        patterns.Add(re2.escape(signature))
    patterns.Compile()
    return patterns


class Reader:
    """A format with its modules, each imported when it is first used."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def definition(self) -> Format:
        """What the format declares about itself."""
        module = import_module(self._package)
        definition: Format = module.AGENT if hasattr(module, "AGENT") else module.FORMAT
        return definition

    @cached_property
    def _detect(self) -> ModuleType:
        return import_module(f"{self._package}.detect")

    @cached_property
    def _reader(self) -> ModuleType:
        return import_module(f"{self._package}.reader")

    def sniff(self, source: Source) -> bool:
        """Return whether the input is of this format."""
        return bool(self._detect.sniff(source))

    def resembles(self, source: Source, head: "Head") -> bool:
        """Return whether an input that is not of this format looks like an unknown version of it.

        `detect.py` may decide; else signatures do that are too specific to be found by chance.
        """
        if hasattr(self._detect, "resembles"):
            return bool(self._detect.resembles(source))
        found = [s for s in self.definition.signatures if head.contains(s)]
        specific = [s for s in found if not s.strip(b'"').islower() or not s.strip(b'"').isalpha()]
        return len(specific) > 1 or any(len(s) >= _SPECIFIC_SIGNATURE for s in specific)

    def read(self, source: Source, draft: Draft) -> None:
        """Read the conversation into the draft, in source order."""
        self._reader.read(source, draft)
        if self.definition.is_experimental:
            draft.note_omission(
                "experimental-reader",
                "whole source",
                "this reader was never checked on a real file; compare the export with its source",
            )

    def list_conversations(self, source: Source) -> list[Found]:
        """Return what the input holds, if the format can hold several conversations; else nothing."""
        if not self.definition.holds_several:
            return []
        found: list[Found] = self._reader.list_conversations(source)
        return found

    def find_owner(self, source: Source, position: str, value: Any) -> str | None:
        """Return the id of the conversation that a part of the input belongs to."""
        owner: str | None = self._reader.find_owner(source, position, value)
        return owner

    def parse_documents(self, source: Source) -> list[Any] | None:
        """Parse a text input into values; None if the format is not text with a syntax."""
        if not hasattr(self._reader, "parse_documents"):
            return None
        documents: list[Any] = self._reader.parse_documents(source)
        return documents

    @property
    def can_peek(self) -> bool:
        """Whether the first records of a file say something about its session."""
        return hasattr(self._detect, "peek")

    def peek(self, records: list[Any]) -> dict[str, Any]:
        """Return id, cwd, title and first words of a session, as far as its first records say."""
        facts: dict[str, Any] = self._detect.peek(records)
        return facts

    @property
    def can_peek_tail(self) -> bool:
        """Whether the last records of a file say something about its session."""
        return hasattr(self._detect, "peek_tail")

    def peek_tail(self, records: list[Any]) -> dict[str, Any]:
        """Return what the last records say about a session, such as a title given later."""
        facts: dict[str, Any] = self._detect.peek_tail(records)
        return facts

    def companion_file(self, name: str) -> str | None:
        """Return the name of a small file next to a session's file that `peek` also understands."""
        if not hasattr(self._detect, "companion_file"):
            return None
        companion: str | None = self._detect.companion_file(name)
        return companion


def _find_packages() -> dict[str, str]:
    """Return every package that has a reader, by name."""
    # os.path and not pathlib: this runs at every start.
    root = os.path.dirname(__file__)
    found = {}
    for group in _PACKAGES:
        for name in os.listdir(os.path.join(root, group)):
            if os.path.exists(os.path.join(root, group, name, "detect.py")):
                found[name] = f"open_token.{group}.{name}"
    return dict(sorted(found.items()))


READERS: dict[str, Reader] = {name: Reader(package) for name, package in _find_packages().items()}


def load_reader(name: str) -> Reader:
    """Return the reader of that name; dashes and underscores are the same."""
    reader = READERS.get(name.replace("-", "_"))
    if reader is None:
        raise UsageError(f"unknown format: {name}", help=f"the formats are {', '.join(READERS)}")
    return reader


def list_experimental_readers() -> list[str]:
    """Return the readers that were never checked on a real file, by the names that people use."""
    return [
        name.replace("_", "-")
        for name, reader in READERS.items()
        if reader.definition.is_experimental
    ]


def list_agents() -> list[Agent]:
    """Return the definitions of all agents, also of those whose sessions cannot be read."""
    root = os.path.join(os.path.dirname(__file__), "agents")
    names = sorted(
        name for name in os.listdir(root) if os.path.exists(os.path.join(root, name, "__init__.py"))
    )
    return [import_module(f"open_token.agents.{name}").AGENT for name in names]


def detect_format(source: Source) -> str:
    """Return the name of the one format that the input is; none or several is an error."""
    if source.shape == "empty":
        raise InputError(
            "the input is empty",
            where=source.name,
            help="name a file that holds a conversation",
            code="input.empty",
        )
    if source.shape == "binary":
        raise InputError(
            "the input is binary data, not a conversation this version reads",
            where=source.name,
            help="list what can be read with `open-token formats`",
            code="input.binary",
        )
    claims = [name for name in _candidates(source) if READERS[name].sniff(source)]
    if _EXPORT in claims:
        return _EXPORT
    specific = [name for name in claims if not READERS[name].definition.is_general]
    claims = specific or claims
    if len(claims) == 1:
        return claims[0]
    if claims:
        raise InputError(
            f"ambiguous format: it could be {' or '.join(claims)}",
            where=source.name,
            help=f"say which it is: --from {claims[0]} or --from {claims[1]}",
            code="input.ambiguous",
        )
    if not _is_container(source):
        # An input that does not parse raises an error with a line number here, which helps more
        # than "unrecognized".
        for _ in islice(source.records(), SAMPLE_RECORDS):
            pass
        if source.first_fault is not None:
            raise source.first_fault
    near_misses = _find_near_misses(source)
    if 0 < len(near_misses) <= _MAX_NEAR_MISSES:
        titles = " or ".join(READERS[name].definition.title for name in near_misses)
        raise InputError(
            f"unrecognized format: it looks like {titles}, of a version that is not known",
            where=source.name,
            help=f"update open-token, or try --from {near_misses[0]} and compare the export with "
            "its source",
            code="input.unknown",
        )
    raise InputError(
        f"unrecognized format (tried {len(READERS)} formats)",
        where=source.name,
        help="name the format with --from NAME; list them with `open-token formats`",
        code="input.unknown",
    )


def list_conversations(source: Source, name: str) -> list[Found]:
    """Return what a source holds, if its format can hold several conversations; else nothing."""
    return load_reader(name).list_conversations(source)


def select_conversation(source: Source, name: str, wanted: str) -> Found:
    """Select one of several conversations by its id, its number in the list or a prefix of its id."""
    found = list_conversations(source, name)
    if not found and wanted == "1":
        return Found("1")
    matching = [item for item in found if item.id == wanted]
    if not matching and wanted.isdecimal() and 1 <= int(wanted) <= len(found):
        matching = [found[int(wanted) - 1]]
    if not matching:
        matching = [item for item in found if item.id.startswith(wanted)]
    if len(matching) != 1:
        if matching:
            problem = "several conversations start with that id"
        else:
            problem = "no such conversation in this input"
        if found:
            remedy = f"it holds {len(found):,}; give an id, or a number in the list"
        else:
            remedy = "it holds one; leave --conversation out"
        raise InputError(problem, where=source.name, help=remedy, code="input.conversation")
    source.conversation = matching[0].id if len(found) > 1 else None
    return matching[0]


def require_one_conversation(source: Source, name: str) -> None:
    """Raise an error that lists the conversations if there are several and none was selected."""
    if source.conversation is not None:
        return
    found = list_conversations(source, name)
    if len(found) > 1:
        raise MultipleConversationsError(
            f"this input holds {len(found):,} conversations",
            found=found,
            where=source.name,
            help="choose one with --conversation ID or its number in the list",
        )


def _is_container(source: Source) -> bool:
    return source.shape in ("sqlite", "zip", "folder")


def _candidates(source: Source) -> list[str]:
    """Return the formats that an input could be, by its shape and its first bytes."""
    if _is_container(source):
        return [
            name for name, reader in READERS.items() if source.shape in reader.definition.containers
        ]
    head = Head(source.head)
    candidates = []
    for name, reader in READERS.items():
        signatures = reader.definition.signatures
        if not signatures or any(map(head.contains, signatures)):
            candidates.append(name)
    return candidates


def _find_near_misses(source: Source) -> list[str]:
    """Return the formats that an input looks like though no reader knows it."""
    if _is_container(source):
        return []
    head = Head(source.head)
    return [name for name in _candidates(source) if READERS[name].resembles(source, head)]
