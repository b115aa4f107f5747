"""The conversations in an export of a chat product, wherever they lie: in a file, in lines, in a
zip or in a folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]
_LOOKED_AT = 64


@dataclass(frozen=True)
class Part:
    """One conversation of an export: its id in the list, where it stands, and its value."""

    id: str
    at: str
    value: Body


@dataclass(frozen=True)
class Layout:
    """What tells the export of one product: the names of its files in a container, and the shape of
    a conversation."""

    globs: tuple[str, ...]
    sign: bytes
    """Stands near the start of such a file."""
    is_one: Callable[[Body], bool]
    id_of: Callable[[Body], Any]
    key: str = ""
    """The top-level list of an object that holds the conversations."""

    def files(self, source: Source) -> list[Source]:
        """The files that hold conversations: the source itself, or those in it."""
        if source.shape == "zip":
            names = [
                name for name in source.members if any(_matches(name, glob) for glob in self.globs)
            ]
            found = [member(source, name) for name in sorted(names)]
            return [file for file in found if file is not None and self.sign in file.head]
        if source.shape == "folder":
            return [
                file for glob in self.globs for file in source.below(glob) if self.sign in file.head
            ]
        return [source]

    def sniff(self, source: Source) -> bool:
        """Whether the source is such an export."""
        if source.shape in ("zip", "folder"):
            return bool(self.files(source))
        if source.shape == "document":
            values = [value for _, value in self._listed(source.sample[0])]
        else:
            values = [value for record in source.sample for _, value in self._held(record)]
        return any(isinstance(value, dict) and self.is_one(value) for value in values[:_LOOKED_AT])

    def _listed(self, document: Any) -> list[tuple[str, Any]]:
        """What a document holds, each with its place."""
        if isinstance(document, list):
            return [(f"/{number}", value) for number, value in enumerate(document)]
        return self._held(document)

    def _held(self, value: Any) -> list[tuple[str, Any]]:
        """What an object holds under the key, or the object itself."""
        held = value.get(self.key) if isinstance(value, dict) and self.key else None
        if isinstance(held, list):
            return [(f"/{self.key}/{number}", item) for number, item in enumerate(held)]
        return [("", value)]

    def _values(self, source: Source) -> Iterator[tuple[str, Any]]:
        for file in self.files(source):
            if file.shape == "document":
                yield from self._listed(file.document)
            else:
                first = 1 if file.shape == "glued" else 0
                for number, record in file.records():
                    yield from (
                        (f"/{number - first}{at}", value) for at, value in self._held(record)
                    )

    def _others(self, source: Source) -> list[bool]:
        """The JSON files of a zip or a folder without conversations, such as the account: is one
        named like some?"""
        held = {file.name for file in self.files(source)}
        names = [f"{source.name}!{name}" for name in source.members]
        if source.shape == "folder":
            before = len(source.family)
            names = [file.name for file in source.below("*.json")]
            del source.family[before:]
        others = [name for name in names if name.endswith(".json") and name not in held]
        return [
            any(_matches(name.rpartition("!")[2], glob) for glob in self.globs) for name in others
        ]

    def parts(self, source: Source) -> "Parts":
        """Its conversations, found once."""
        kept = _PARTS.setdefault(source, {})
        if self.sign not in kept:
            kept[self.sign] = Parts(self, list(self._values(source)), self._others(source))
            kept[self.sign].unit = "line " if source.shape == "lines" else "/"
        return kept[self.sign]


class Parts:
    """The conversations of one source, by id, in source order."""

    def __init__(self, layout: Layout, values: list[tuple[str, Any]], others: list[bool]) -> None:
        self._layout = layout
        self._odd = [
            at for at, value in values if not (isinstance(value, dict) and layout.is_one(value))
        ]
        self._others = others
        self.unit = "/"
        """What a place begins with: the records of a document count from 0, as pointers do, lines
        from 1."""
        self.all: dict[str, Part] = {}
        self._by_place: dict[str, str] = {}
        repeated: dict[str, int] = {}
        for number, (at, value) in enumerate(values, 1):
            if not isinstance(value, dict) or not layout.is_one(value):
                continue
            given = layout.id_of(value)
            name = given if isinstance(given, str) and given else str(number)
            while name in self.all:
                repeated[name] = count = repeated.get(name, 1) + 1
                name = f"{name}#{count}"
            self.all[name] = Part(name, at, value)
            self._by_place.setdefault(at, name)

    def note(self, draft: Draft) -> None:
        """Note what is in the export and is no conversation."""
        for at in self._odd:
            place = f"{self.unit}{at[1:]}" if at else "the file"
            draft.note_omission("unknown-record", place, "something that is no conversation")
        for is_strange in self._others:
            what = (
                "a file of conversations that holds none"
                if is_strange
                else "a file beside the conversations"
            )
            draft.note_omission("other-file", "the export", what)

    def listed(self, tell: Callable[[Part], Found]) -> list[Found]:
        """What a list shows of them."""
        return [tell(part) for part in self.all.values()]

    def owner(self, at: str, value: Any) -> str | None:
        """The id of the conversation that stands at a place, or is this value."""
        given = (
            self._layout.id_of(value)
            if isinstance(value, dict) and self._layout.is_one(value)
            else None
        )
        if isinstance(given, str) and given in self.all and f"{given}#2" not in self.all:
            return given
        return self._by_place.get(at)

    def chosen(self, source: Source) -> Part:
        """The one that is asked for; the first where there is only one."""
        if source.conversation is not None and source.conversation in self.all:
            return self.all[source.conversation]
        for part in self.all.values():
            return part
        raise InputError(
            "there is no conversation in this input",
            where=source.name,
            help="0 events were read; is it the right file, and the right --from?",
            code="input.no-events",
        )


_PARTS: "WeakKeyDictionary[Source, dict[bytes, Parts]]" = WeakKeyDictionary()


def member(source: Source, name: str) -> Source | None:
    """A member of a zip, unpacked once for all who ask."""
    known = next((file for file in source.family if file.name == f"{source.name}!{name}"), None)
    return known or source.member(name)


def _matches(name: str, glob: str) -> bool:
    """Whether a member of a zip is such a file; a zip may have a folder on top that its unpacked
    form lacks."""
    return fnmatchcase(name.rpartition("/")[2], glob.rpartition("/")[2]) and not name.startswith(
        "__MACOSX/"
    )


def fill(source: Source, draft: Draft) -> None:
    """An empty conversation among others is told as such: it must not keep the others from being
    exported."""
    if not draft.count and source.conversation is not None:
        draft.add_annotation({"kind": "notice", "detail": "this conversation holds no messages"})
