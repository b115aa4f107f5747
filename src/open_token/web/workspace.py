"""The sessions of this machine as the application shows them, kept up to date while it runs."""

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from open_token.api import build_index_context, find_indexed_sessions
from open_token.context import Context
from open_token.errors import InputError, OpenTokenError
from open_token.library.archive.index import COPY, CURRENT, INDEX_NAME, Index
from open_token.library.discovery import Session
from open_token.library.index import SearchIndex, SessionCost, SessionFacts
from open_token.library.places import path_to_text, read_file_facts
from open_token.library.prices import PriceList
from open_token.library.session_filter import SessionFilter
from open_token.registry import load_reader
from open_token.settings import Settings, load_settings

LIVE_SECONDS = 120
"""A session whose file changed within this time is live."""
_HOT_SESSIONS = 60
"""So many of the newest sessions are looked at in every round."""
_MAX_FOLDERS = 2000
# A larger backlog is indexed by another process, so that this one can answer meanwhile.
_LARGE_BACKLOG = 16 << 20


@dataclass
class Entry:
    """A session of the list."""

    key: str
    """Identifies it in addresses."""
    session: Session
    facts: SessionFacts | None = None
    """What the index knows; None until it has been read."""
    cost: SessionCost = field(default_factory=SessionCost)
    is_archived: bool = False
    is_gone: bool = False
    """Whether only the archive still has it."""

    @property
    def title(self) -> str:
        """The title of an indexed session; it is redacted."""
        return self.facts.title if self.facts else ""

    @property
    def cwd(self) -> str:
        """The working directory; empty if it is not known."""
        return (self.facts.cwd if self.facts else "") or self.session.cwd or ""

    @property
    def branch(self) -> str:
        """The branch of the repository; empty if it is not known."""
        return self.facts.branch if self.facts else ""

    @property
    def agent(self) -> str:
        """The name of its agent, as people write it."""
        return self.session.reader.replace("_", "-")

    def get_number(self, name: str) -> float | None:
        """Return a number that a filter may test; None if it is not known."""
        if self.facts is None:
            return None
        if name == "tokens":
            return self.cost.tokens
        if name == "cost":
            return self.cost.cost
        names = {"failed": "failures", "secrets": "masked"}
        return float(getattr(self.facts, names.get(name, name)))

    def is_live(self, now: float) -> bool:
        """Return whether its agent is writing to it."""
        return not self.is_gone and now - self.session.mtime_ns / 1e9 < LIVE_SECONDS


@dataclass
class IndexState:
    """How far the index is."""

    is_running: bool = False
    total: int = 0
    done: int = 0
    problem: str = ""


class Workspace:
    """All sessions, with what the index and the archive know about them.

    Its methods may be called from any thread. `refresh` and `update_index` do the slow work.
    """

    def __init__(
        self, env: Mapping[str, str], home: Path, cwd: Path, command: tuple[str, ...]
    ) -> None:
        self.env = env
        self.home = home
        self.cwd = cwd
        self.command = command
        """What starts open-token in another process."""
        self.settings: Settings = load_settings(env, cwd)
        self.index_state = IndexState()
        self.version = 0
        """Grows with every change of the list."""
        self._lock = threading.RLock()
        self._sessions: list[Session] = []
        self._entries: dict[str, Entry] = {}
        self._costs: dict[int, tuple[int, SessionCost]] = {}
        """By number in the index: the change of the file, and the cost at that time."""
        self._folders: dict[str, int] = {}
        """Folders with sessions, and their last change."""

    @property
    def index_folder(self) -> Path:
        """The folder of the search index."""
        return self.settings.folders.cache

    @property
    def archive_folder(self) -> Path:
        """The folder of the user's archive."""
        return self.settings.folders.data / "archive"

    def build_context(self) -> Context:
        """Return the context in which sessions are read: redacted as in the index."""
        return build_index_context(self.settings, self.env)

    def load_prices(self) -> PriceList:
        """Return the prices, with the user's own."""
        folders = self.settings.folders
        return PriceList(folders.cache, folders.settings)

    def list_entries(self) -> list[Entry]:
        """Return all sessions, newest first."""
        with self._lock:
            return list(self._entries.values())

    def find(self, key: str) -> Entry:
        """Return a session by its key; raises InputError if there is none."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            raise InputError(
                "there is no such session",
                help="it may have been deleted; the list shows what there is",
                code="web.session",
            )
        return entry

    def find_entries(self, wanted: SessionFilter, now: float) -> list[Entry]:
        """Return the sessions that a filter asks for, newest first."""
        touching: set[int] | None = None
        if wanted.touched:
            with SearchIndex(self.index_folder) as index:
                touching = index.list_touching(wanted.touched)
        return [entry for entry in self.list_entries() if _is_wanted(entry, wanted, touching, now)]

    def refresh(self) -> bool:
        """Look for sessions; return whether the list has changed."""
        sessions = find_indexed_sessions(self.settings, self.env, self.home, self.cwd)
        with self._lock:
            self._sessions = sessions
            self._remember_folders(sessions)
        return self.rebuild()

    def rebuild(self) -> bool:
        """Combine the sessions with what the index and the archive know of them."""
        with self._lock:
            sessions = list(self._sessions)
        archived = self._read_archive()
        with SearchIndex(self.index_folder) as index:
            facts = {(item.path, item.conversation): item for item in index.list_facts()}
            self._update_costs(index, facts)
        entries: dict[str, Entry] = {}
        for session in sorted(sessions, key=lambda session: -session.modified):
            path = path_to_text(session.path)
            place = (path, session.conversation or "")
            known = facts.get(place)
            entry = Entry(compute_key(*place), session, known)
            if known is not None:
                entry.cost = self._costs.get(known.number, (0, SessionCost()))[1]
            entry.is_archived = place in archived
            entry.is_gone = session.reader == "open_token" and self.archive_folder in (
                session.path.parents
            )
            entries.setdefault(entry.key, entry)
        with self._lock:
            has_changed = entries != self._entries
            self._entries = entries
            self.version += has_changed
        return has_changed

    def _update_costs(
        self, index: SearchIndex, facts: Mapping[tuple[str, str], SessionFacts]
    ) -> None:
        changed = {
            item.number: item.mtime_ns
            for item in facts.values()
            if self._costs.get(item.number, (0,))[0] != item.mtime_ns
        }
        if not changed:
            return
        numbers = None if len(changed) > 200 else changed
        costs = index.count_costs(self.load_prices(), numbers)
        for number, mtime_ns in changed.items():
            self._costs[number] = mtime_ns, costs.get(number, SessionCost())

    def _read_archive(self) -> set[tuple[str, str]]:
        """Return source and conversation of everything in the archive."""
        if not (self.archive_folder / INDEX_NAME).exists():
            return set()
        try:
            entries = Index(self.archive_folder).entries.values()
        except OpenTokenError:
            return set()
        return {
            (entry.source, entry.conversation or "")
            for entry in entries
            if entry.source and entry.state in (CURRENT, COPY)
        }

    def _remember_folders(self, sessions: list[Session]) -> None:
        """Remember the folders in which new sessions appear: those of sessions, and above them."""
        folders: dict[str, int] = {}
        for session in sessions:
            folder = session.path.parent
            for _ in range(3):
                name = str(folder)
                if name in folders or len(folders) >= _MAX_FOLDERS or folder == self.home:
                    break
                folders[name] = _read_change(name)
                folder = folder.parent
        self._folders = folders

    def poll(self) -> tuple[bool, bool]:
        """Look at the newest sessions and at the folders.

        Return whether a session has changed, and whether there may be new ones. This takes a
        fraction of a millisecond per hundred files.
        """
        has_changed = False
        with self._lock:
            hot = sorted(self._sessions, key=lambda session: -session.modified)[:_HOT_SESSIONS]
            folders = list(self._folders.items())
        for session in hot:
            has_changed |= self.check(session)
        has_new = False
        for folder, known in folders:
            change = _read_change(folder)
            if change != known:
                has_new = True
                self._folders[folder] = change
        return has_changed, has_new

    def check(self, session: Session) -> bool:
        """Return whether the file of a session has changed; the list then knows it."""
        if session.is_one_of > 1:
            return False  # its file holds others, too: only discovery tells which one changed
        facts = read_file_facts(session.path, session.is_folder)
        if facts is None or (facts.size, facts.mtime_ns) == (session.bytes, session.mtime_ns):
            return False
        changed = _replace_facts(session, facts.size, facts.mtime_ns)
        with self._lock:
            self._sessions = [changed if item is session else item for item in self._sessions]
            key = compute_key(path_to_text(session.path), session.conversation or "")
            entry = self._entries.pop(key, None)
            if entry is not None:
                entry.session = changed
                # It is the newest now.
                self._entries = {key: entry, **self._entries}
            self.version += 1
        return True

    def update_index(self) -> bool:
        """Index what is new or has changed; return whether anything was."""
        with self._lock:
            sessions = list(self._sessions)
        context = self.build_context()
        with SearchIndex(self.index_folder) as index:
            due = index.find_due(sessions, context)
            if not due:
                self.index_state = IndexState()
                return False
            self.index_state = IndexState(True, len(due))
            if sum(session.bytes for session in due) > _LARGE_BACKLOG:
                self._index_in_other_process(index)
            else:
                index.update(sessions, context, self._count_indexed)
        self.index_state = IndexState(problem=self.index_state.problem)
        return True

    def _count_indexed(self, session: Session) -> None:
        self.index_state.done += 1

    def _index_in_other_process(self, index: SearchIndex) -> None:
        """Let another process do the work, and count how far it is."""
        before = index.read_status().sessions
        process = subprocess.Popen(
            [*self.command, "--quiet", "index"],
            env=dict(self.env),
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._process: subprocess.Popen[bytes] | None = process
        while process.poll() is None:
            time.sleep(0.5)
            self.index_state.done = max(0, index.read_status().sessions - before)
            self.rebuild()
        self._process = None
        if process.returncode:
            self.index_state.problem = "indexing stopped; `open-token index` says why"

    def close(self) -> None:
        """Stop what still runs."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.terminate()


def compute_key(path: str, conversation: str) -> str:
    """Return what identifies a session in addresses: it says nothing about the path."""
    digest = hashlib.sha256(f"{path}\0{conversation}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:20]


def find_agent_title(reader: str) -> str:
    """Return the name of an agent or a format for people."""
    try:
        return load_reader(reader).definition.title
    except (LookupError, OpenTokenError):
        return reader


def _replace_facts(session: Session, size: int, mtime_ns: int) -> Session:
    from dataclasses import replace

    return replace(session, bytes=size, mtime_ns=mtime_ns, modified=mtime_ns / 1e9)


def _read_change(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _is_wanted(entry: Entry, wanted: SessionFilter, touching: set[int] | None, now: float) -> bool:
    session = entry.session
    if wanted.agent and wanted.agent not in session.reader:
        return False
    if wanted.project and wanted.project.lower() not in entry.cwd.lower():
        return False
    if wanted.branch and wanted.branch.lower() not in entry.branch.lower():
        return False
    if wanted.since is not None and session.modified < wanted.since:
        return False
    if wanted.until is not None and session.modified >= wanted.until:
        return False
    if touching is not None and (entry.facts is None or entry.facts.number not in touching):
        return False
    if not all(test.passes(entry.get_number(test.name)) for test in wanted.numbers):
        return False
    marks = {
        "live": entry.is_live(now),
        "archived": entry.is_archived,
        "gone": entry.is_gone,
        "copy": bool(entry.facts and entry.facts.origin),
    }
    if not all(marks[name] for name in wanted.marks):
        return False
    text = f"{entry.title}\n{entry.cwd}\n{entry.branch}\n{session.id}".lower()
    return all(word in text for word in wanted.words)
