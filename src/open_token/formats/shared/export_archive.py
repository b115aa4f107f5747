"""Exports of chat products: the conversations in a file, in lines, in a zip archive or a folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject
from open_token.jsontools.objects import escape_pointer
from open_token.model.document import Found
from open_token.sources.source import Source

_MAX_INSPECTED = 64


@dataclass(frozen=True)
class ExportedConversation:
    """One conversation of an export: its id in the list, its JSON pointer, and its value."""

    id: str
    at: str
    value: JsonObject


@dataclass(frozen=True)
class ExportLayout:
    """How to recognize the export of one product: names of files, and a conversation's shape."""

    globs: tuple[str, ...]
    sign: bytes
    """A string near the start of such a file."""
    is_one: Callable[[JsonObject], bool]
    id_of: Callable[[JsonObject], Any]
    foreign_sign: bytes | None = None
    """A string near the start of files of another product that have the same name."""
    key: str = ""
    """The top-level list of an object that holds the conversations."""
    key_prefix: str = ""
    """How the top-level fields begin that hold one conversation each."""

    def files(self, source: Source) -> list[Source]:
        """Return the files that hold conversations: the source itself, or those in it."""
        if source.shape == "zip":
            names = [name for name in source.members if self._is_conversation_file(name)]
            members = [open_member(source, name) for name in sorted(names)]
            files = [file for file in members if file is not None]
        elif source.shape == "folder":
            files = [file for glob in self.globs for file in source.find_files(glob)]
        else:
            return [source]
        return [file for file in files if self._has_sign(file)]

    def _has_sign(self, file: Source) -> bool:
        if self.foreign_sign is not None and self.foreign_sign in file.head:
            return False
        return self.sign in file.head

    def _is_conversation_file(self, name: str) -> bool:
        return any(_matches(name, glob) for glob in self.globs)

    def sniff(self, source: Source) -> bool:
        """Return whether the source is such an export."""
        if source.shape in ("zip", "folder"):
            return bool(self.files(source))
        if source.shape == "document":
            items = self._list_document_items(source.sample[0])
        else:
            items = [item for record in source.sample for item in self._list_items(record)]
        return any(self._is_conversation(value) for _, value in items[:_MAX_INSPECTED])

    def _is_conversation(self, value: Any) -> bool:
        return isinstance(value, dict) and self.is_one(value)

    def _list_document_items(self, document: Any) -> list[tuple[str, Any]]:
        """Return what a document holds, each item with its pointer."""
        if isinstance(document, list):
            return [(f"/{number}", value) for number, value in enumerate(document)]
        return self._list_items(document)

    def _list_items(self, value: Any) -> list[tuple[str, Any]]:
        """Return what an object holds under the key, or the object itself."""
        items = value.get(self.key) if isinstance(value, dict) and self.key else None
        if isinstance(items, list):
            return [(f"/{self.key}/{number}", item) for number, item in enumerate(items)]
        if isinstance(value, dict) and self.key_prefix:
            names = [name for name in value if name.startswith(self.key_prefix)]
            if names:
                return [(f"/{escape_pointer(name)}", value[name]) for name in names]
        return [("", value)]

    def _iterate_items(self, source: Source) -> Iterator[tuple[str, Any]]:
        for file in self.files(source):
            if file.shape == "document":
                yield from self._list_document_items(file.document)
                continue
            # Values without line breaks count from 0, as in a document; lines count from 1.
            offset = 1 if file.shape == "glued" else 0
            for number, record in file.records():
                for at, value in self._list_items(record):
                    yield f"/{number - offset}{at}", value

    def _inspect_other_files(self, source: Source) -> list[bool]:
        """Return, for each JSON file without conversations, whether its name promises some."""
        known = {file.name for file in self.files(source)}
        names = [f"{source.name}!{name}" for name in source.members]
        if source.shape == "folder":
            count = len(source.family)
            names = [file.name for file in source.find_files("*.json")]
            del source.family[count:]
        others = [name for name in names if name.endswith(".json") and name not in known]
        return [self._is_conversation_file(name.rpartition("!")[2]) for name in others]

    def find_conversations(self, source: Source) -> "ExportedConversations":
        """Return the conversations of a source, which are found once."""
        cache = _CACHE.setdefault(source, {})
        if self.sign not in cache:
            items = list(self._iterate_items(source))
            conversations = ExportedConversations(self, items, self._inspect_other_files(source))
            conversations.unit = "line " if source.shape == "lines" else "/"
            cache[self.sign] = conversations
        return cache[self.sign]


class ExportedConversations:
    """The conversations of one source, by id, in source order."""

    def __init__(
        self, layout: ExportLayout, items: list[tuple[str, Any]], other_files: list[bool]
    ) -> None:
        self._layout = layout
        self._other_files = other_files
        self.unit = "/"
        """The prefix of places: records of a document count from 0, as in pointers, lines from 1."""
        self.all: dict[str, ExportedConversation] = {}
        self._by_place: dict[str, str] = {}
        self._unknown_places: list[str] = []
        repeated: dict[str, int] = {}
        for number, (at, value) in enumerate(items, 1):
            if not isinstance(value, dict) or not layout.is_one(value):
                self._unknown_places.append(at)
                continue
            native_id = layout.id_of(value)
            name = native_id if isinstance(native_id, str) and native_id else str(number)
            while name in self.all:
                repeated[name] = count = repeated.get(name, 1) + 1
                name = f"{name}#{count}"
            self.all[name] = ExportedConversation(name, at, value)
            self._by_place.setdefault(at, name)

    def note_other_content(self, draft: Draft) -> None:
        """Note what the export holds besides conversations."""
        for at in self._unknown_places:
            place = f"{self.unit}{at[1:]}" if at else "the file"
            draft.note_omission("unknown-record", place, "a record that is not a conversation")
        for promises_conversations in self._other_files:
            if promises_conversations:
                detail = "a conversations file without conversations"
            else:
                detail = "a file that is not part of a conversation"
            draft.note_omission("other-file", "the export", detail)

    def read_selected(
        self, source: Source, draft: Draft, read: Callable[[ExportedConversation], None]
    ) -> None:
        """Let `read` add the conversation that is asked for, and note what else the export holds."""
        self.note_other_content(draft)
        read(self.get_selected(source))
        note_empty_conversation(source, draft)

    def list_all(self, describe: Callable[[ExportedConversation], Found]) -> list[Found]:
        """List the conversations."""
        return [describe(conversation) for conversation in self.all.values()]

    def find_owner(self, at: str, value: Any) -> str | None:
        """Return the id of the conversation at a pointer, or with this value."""
        if isinstance(value, dict) and self._layout.is_one(value):
            native_id = self._layout.id_of(value)
            is_known = isinstance(native_id, str) and native_id in self.all
            if is_known and f"{native_id}#2" not in self.all:
                return str(native_id)
        return self._by_place.get(at)

    def get_selected(self, source: Source) -> ExportedConversation:
        """Return the conversation that is asked for, else the first."""
        if source.conversation is not None and source.conversation in self.all:
            return self.all[source.conversation]
        for conversation in self.all.values():
            return conversation
        raise InputError(
            "there is no conversation in this input",
            where=source.name,
            help="0 events were read; is it the right file, and the right --from?",
            code="input.no-events",
        )


_CACHE: "WeakKeyDictionary[Source, dict[bytes, ExportedConversations]]" = WeakKeyDictionary()


def open_member(source: Source, name: str) -> Source | None:
    """Return a member of a zip archive, which is unpacked once."""
    full_name = f"{source.name}!{name}"
    for file in source.family:
        if file.name == full_name:
            return file
    return source.member(name)


def _matches(name: str, glob: str) -> bool:
    """Return whether a member of a zip archive is such a file, in whatever folder.

    An archive may have a top-level folder that its unpacked form lacks.
    """
    if name.startswith("__MACOSX/"):
        return False
    return fnmatchcase(name.rpartition("/")[2], glob.rpartition("/")[2])


def add_labels(draft: Draft, columns: JsonObject) -> None:
    """Add the columns of a row besides its conversation: what it is about, how it is rated."""
    labels = {name: value for name, value in columns.items() if value is not None}
    if labels:
        draft.add_annotation({"kind": "labels", "labels": labels})


def note_empty_conversation(source: Source, draft: Draft) -> None:
    """Add a notice to an empty conversation, so that it does not fail the export of the others."""
    if not draft.count and source.conversation is not None:
        draft.add_annotation({"kind": "notice", "detail": "this conversation holds no messages"})
