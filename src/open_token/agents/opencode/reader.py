"""Opens OpenCode's storage in whichever form it comes, and says which conversations are in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from open_token.agents.opencode.database import Rows, session_of
from open_token.agents.opencode.parts import time_of
from open_token.agents.opencode.session import Teller
from open_token.agents.opencode.shapes import is_bundle, is_export, is_session
from open_token.agents.opencode.storage import Folder, Skip, Store, Values
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject, get_text
from open_token.formats.shared.session_tree import SessionTree
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_SESSIONS = "session/*/*.json"
_NOBODY = "(nobody)"
"""Whose a secret is: no conversation has this id."""


class _Notes:
    """What was left out while a source was opened, told to every draft that reads from it."""

    def __init__(self) -> None:
        self._held: list[tuple[str, str, str]] = []
        self._skip: Skip | None = None

    def __call__(self, code: str, place: str, detail: str) -> None:
        if self._skip is None:
            self._held.append((code, place, detail))
        else:
            self._skip(code, place, detail)

    def tell(self, skip: Skip) -> None:
        """From now on notes go there; those from before go there, too."""
        self._skip = skip
        for note in self._held:
            skip(*note)


@dataclass
class _Opened:
    """A store, who started whom in it, and the one session that a file is of."""

    store: Store
    lineage: SessionTree
    notes: _Notes
    own: str | None = None


_known: WeakKeyDictionary[Source, _Opened] = WeakKeyDictionary()


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen session, or the only one."""
    opened = _opened(source)
    opened.notes.tell(draft.note_omission)
    chosen = source.conversation or opened.own or next(iter(opened.lineage.roots), None)
    if chosen is not None:
        client = "Kilo Code" if "kilo_board" in source.tables else "OpenCode"
        Teller(draft, opened.store, opened.lineage, client).tell(chosen)


def list_conversations(source: Source) -> list[Found]:
    """The sessions that a person started; those that they started in turn belong to them."""
    opened = _opened(source)
    names = [opened.own] if opened.own else opened.lineage.roots
    return [_found(name, opened.store.sessions[name]) for name in names]


def _found(name: str, info: JsonObject) -> Found:
    return Found(
        name,
        title=get_text(info, "title"),
        started_at=time_of(info, "created"),
        updated_at=time_of(info, "updated"),
        cwd=get_text(info, "directory"),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a value, a row or a file belongs to; a secret or a credential belongs
    to none of them."""
    opened = _opened(source)
    session: str | None
    if source.shape == "sqlite":
        session = session_of(at, value) or _NOBODY
    elif source.shape == "folder":
        session = _session_of_file(at, opened.store)
    else:
        session = _session_of_value(value)
    return opened.lineage.find_root(session) if session else None


def _session_of_file(at: str, store: Store) -> str | None:
    kind, _, rest = at.removeprefix("storage/").partition("/")
    if kind == "share":
        return _NOBODY
    name = (
        rest.rpartition("/")[2].removesuffix(".json")
        if kind == "session"
        else rest.partition("/")[0]
    )
    return store.home.get(name) if kind == "part" else name or None


def _session_of_value(value: Any) -> str | None:
    if type(value) is dict and "secret" in value:
        return _NOBODY
    if is_bundle(value):
        return get_text(value["info"], "sessionID")
    if is_export(value):
        return get_text(value["info"], "id")
    return get_text(value, "sessionID") or (value["id"] if is_session(value) else None)


def _opened(source: Source) -> _Opened:
    if source not in _known:
        _known[source] = _open(source)
    return _known[source]


def _open(source: Source) -> _Opened:
    notes = _Notes()
    own: Any = source.sample[0] if len(source.sample) == 1 else None
    store: Store
    if source.shape == "sqlite":
        store, own = Rows(source, notes), None
    elif source.shape == "folder":
        prefix = next(
            (prefix for prefix in ("", "storage/") if source.find_files(prefix + _SESSIONS)), ""
        )
        store = _folder(
            lambda pattern: source.find_files(prefix + pattern),
            source.find_files(prefix + _SESSIONS),
            {},
            notes,
        )
    elif is_session(own):
        near = source.find_siblings("*.json")
        store = _folder(
            lambda pattern: source.find_siblings(f"../../{pattern}"), near, {own["id"]: own}, notes
        )
    else:
        store, own = Values(source, notes), None
    return _Opened(store, SessionTree(store.sessions), notes, own["id"] if own else None)


def _folder(
    find: Callable[[str], list[Source]],
    files: list[Source],
    known: dict[str, JsonObject],
    notes: Skip,
) -> Folder:
    sessions = dict(known)
    places: dict[str, Source] = {}
    for file in files:
        info = _glance(file)
        if is_session(info):
            sessions.setdefault(info["id"], info)
            places.setdefault(info["id"], file)
        elif info is None:
            notes("broken-file", "a session", "the file of a session that is not JSON")
    return Folder(find, sessions, notes, places)


def _glance(file: Source) -> Any:
    """What a file holds, without counting it as read: most sessions beside one do not belong to
    it."""
    try:
        return _decode(file.whole)
    except (InputError, ValueError, RecursionError):
        return None
