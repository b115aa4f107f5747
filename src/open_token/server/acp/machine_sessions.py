"""The sessions that agents have stored on this machine: listed, and read as documents."""

import hashlib
import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from open_token.api import build_index_context
from open_token.context import Context
from open_token.jsontools.timestamps import from_epoch
from open_token.library.discovery import Discovery, Session, drop_cut_word, open_session
from open_token.library.places import path_to_text
from open_token.pipeline import export
from open_token.redaction.text_stream import redact_text
from open_token.settings import load_settings

ID_PREFIX = "disk_"


@dataclass(frozen=True)
class ListedSession:
    """A session as an editor lists it."""

    id: str
    cwd: str
    title: str
    updated_at: str


class MachineSessions:
    """What discovery finds, redacted as in the search index. Methods block: call them in a thread."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._home = Path(env.get("HOME") or env.get("USERPROFILE") or os.path.expanduser("~"))
        self._lock = threading.Lock()

    def find_all(self, folder: Path | None) -> list[Session]:
        """Return the sessions of this machine, newest first; of one working directory if given."""
        with self._lock:
            discovery = self._discover(folder)
            found = discovery.sessions()
            if folder is not None:
                found = list(discovery.filter_by_folder(found, folder))
            discovery.remember()
        return found

    def describe(self, sessions: list[Session]) -> list[ListedSession]:
        """Return what an editor shows of sessions."""
        context = self._build_context()
        with self._lock:
            discovery = self._discover()
            inspected = [discovery.inspect(session) for session in sessions]
            discovery.remember()
        return [self._describe(session, context) for session in inspected]

    def find(self, session_id: str, folder: Path) -> Session | None:
        """Return a session by the id under which it was listed."""
        with self._lock:
            found = self._discover(folder).sessions()
        return next((session for session in found if build_id(session) == session_id), None)

    def open_document(self, session: Session) -> BinaryIO:
        """Return a session as a document; whoever calls closes it."""
        out = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - closed by the caller
        try:
            export(open_session(session), out, self._build_context(), session.reader)
        except BaseException:
            out.close()
            raise
        out.seek(0)
        return cast(BinaryIO, out)

    def _discover(self, folder: Path | None = None) -> Discovery:
        # Some agents keep their sessions in the folder in which they work.
        return Discovery.of(self._env, self._home, folder or self._home)

    def _build_context(self) -> Context:
        return build_index_context(load_settings(self._env, self._home), self._env)

    def _describe(self, session: Session, context: Context) -> ListedSession:
        cwd = session.cwd or ""
        if not Path(cwd).is_absolute():
            cwd = str(self._home)
        title = drop_cut_word(session.title or session.words or "")
        chunks = redact_text([title.encode("utf-8", "replace")], context, "")
        masked = b"".join(chunks).decode("utf-8", "replace")
        updated_at = from_epoch(session.modified) or ""
        return ListedSession(build_id(session), cwd, masked, updated_at)


def build_id(session: Session) -> str:
    """Return the id of a session: that of its place, which the id does not reveal."""
    place = f"{path_to_text(session.path)}\0{session.conversation or ''}"
    digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{ID_PREFIX}{digest[:24]}"
