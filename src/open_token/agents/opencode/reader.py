"""Read OpenCode sessions from any form of storage, and list them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from open_token.agents.opencode.database import DatabaseStore, get_session_of_row
from open_token.agents.opencode.detect import is_bundle, is_export, is_session
from open_token.agents.opencode.parts import parse_time
from open_token.agents.opencode.session import SessionReader
from open_token.agents.opencode.storage import FolderStore, OmissionNoter, RecordStore, Store
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject, get_text
from open_token.formats.shared.session_tree import SessionTree
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_SESSION_FILES = "session/*/*.json"
_NO_OWNER = "(nobody)"
"""The owner of credentials: no conversation has this id."""


class _NoteBuffer:
    """Notes on what was left out while a source was opened, for every draft that reads from it."""

    def __init__(self) -> None:
        self._notes: list[tuple[str, str, str]] = []
        self._forward: OmissionNoter | None = None

    def __call__(self, code: str, position: str, detail: str) -> None:
        if self._forward is None:
            self._notes.append((code, position, detail))
        else:
            self._forward(code, position, detail)

    def forward_to(self, note_omission: OmissionNoter) -> None:
        """Pass on the buffered notes and all later ones."""
        self._forward = note_omission
        for note in self._notes:
            note_omission(*note)


@dataclass
class _OpenStore:
    """An opened source, with the session of the file if it holds exactly one."""

    store: Store
    lineage: SessionTree
    notes: _NoteBuffer
    own_session: str | None = None


_stores: WeakKeyDictionary[Source, _OpenStore] = WeakKeyDictionary()


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session, or the first one, into the draft."""
    opened = _open_store(source)
    opened.notes.forward_to(draft.note_omission)
    session_id = source.conversation or opened.own_session
    if session_id is None:
        session_id = next(iter(opened.lineage.roots), None)
    if session_id is not None:
        # Only the database of the fork has this table.
        client = "Kilo Code" if "kilo_board" in source.tables else "OpenCode"
        SessionReader(draft, opened.store, opened.lineage, client).read(session_id)


def list_conversations(source: Source) -> list[Found]:
    """List the sessions that a person started; subagents belong to them."""
    opened = _open_store(source)
    session_ids = [opened.own_session] if opened.own_session else opened.lineage.roots
    return [_describe(session_id, opened.store.sessions[session_id]) for session_id in session_ids]


def _describe(session_id: str, info: JsonObject) -> Found:
    return Found(
        session_id,
        title=get_text(info, "title"),
        started_at=parse_time(info, "created"),
        updated_at=parse_time(info, "updated"),
        cwd=get_text(info, "directory"),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the conversation that a value, a row or a file belongs to.

    A credential belongs to none of them. The secret of a share belongs to its session: redaction
    masks it.
    """
    opened = _open_store(source)
    session_id: str | None
    if source.shape == "sqlite":
        session_id = get_session_of_row(at, value) or _NO_OWNER
    elif source.shape == "folder":
        session_id = _get_session_of_file(at, opened.store)
    else:
        session_id = _get_session_of_value(value)
    return opened.lineage.find_root(session_id) if session_id else None


def _get_session_of_file(path: str, store: Store) -> str | None:
    """Return the session of `session/<project>/<id>.json`, `message/<session>/...` and so on."""
    kind, _, rest = path.removeprefix("storage/").partition("/")
    if kind in ("session", "share"):
        return rest.rpartition("/")[2].removesuffix(".json") or None
    name = rest.partition("/")[0]
    if kind == "part":
        return store.session_of_message.get(name)
    return name or None


def _get_session_of_value(value: Any) -> str | None:
    if is_bundle(value):
        return get_text(value["info"], "sessionID")
    if is_export(value):
        return get_text(value["info"], "id")
    session_id = get_text(value, "sessionID")
    if session_id is None and is_session(value):
        return str(value["id"])
    return session_id


def _open_store(source: Source) -> _OpenStore:
    if source not in _stores:
        _stores[source] = _create_store(source)
    return _stores[source]


def _create_store(source: Source) -> _OpenStore:
    notes = _NoteBuffer()
    own_session: str | None = None
    store: Store
    first: Any = source.sample[0] if len(source.sample) == 1 else None
    if source.shape == "sqlite":
        store = DatabaseStore(source, notes)
    elif source.shape == "folder":
        store = _open_folder(source, notes)
    elif is_session(first):
        # The file of one session in a storage folder: its messages are in sibling directories.
        own_session = first["id"]
        store = _create_folder_store(
            lambda pattern: source.find_siblings(f"../../{pattern}"),
            source.find_siblings("*.json"),
            {first["id"]: first},
            notes,
        )
    else:
        store = RecordStore(source, notes)
    return _OpenStore(store, SessionTree(store.sessions), notes, own_session)


def _open_folder(source: Source, notes: OmissionNoter) -> FolderStore:
    prefix = ""
    if not source.find_files(_SESSION_FILES) and source.find_files(f"storage/{_SESSION_FILES}"):
        prefix = "storage/"
    files = source.find_files(prefix + _SESSION_FILES)
    return _create_folder_store(
        lambda pattern: source.find_files(prefix + pattern), files, {}, notes
    )


def _create_folder_store(
    find_files: Callable[[str], list[Source]],
    files: list[Source],
    known_sessions: dict[str, JsonObject],
    notes: OmissionNoter,
) -> FolderStore:
    sessions = dict(known_sessions)
    session_files: dict[str, Source] = {}
    for file in files:
        info = _decode_file(file)
        if is_session(info):
            sessions.setdefault(info["id"], info)
            session_files.setdefault(info["id"], file)
        elif info is None:
            notes("broken-file", "a session", "file of a session: not JSON")
    return FolderStore(find_files, sessions, notes, session_files)


def _decode_file(file: Source) -> Any:
    """Decode a file without marking it as read: most neighbours belong to other sessions."""
    try:
        return _decode(file.whole)
    except (InputError, ValueError, RecursionError):
        return None
