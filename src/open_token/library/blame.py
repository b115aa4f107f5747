"""Which prompt of which session wrote each line of a file.

The edits of every session that touched the file are compared with the file as it is now: a line
belongs to the last edit that added exactly this text, and that was made before the commit that git
names for the line. Nothing has to be installed before. A line that no edit explains stays without
an origin: a person may have written it, a shell command, or a session that is not on this machine.
"""

import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.context import Context
from open_token.errors import InputError, OpenTokenError
from open_token.jsontools.objects import get_data, get_link
from open_token.library.discovery import Session, open_session
from open_token.library.index import SearchIndex, SessionFacts
from open_token.library.places import path_to_text
from open_token.model.document import Event, Record
from open_token.pipeline import BoundedBuffer, export
from open_token.storage.files import read_existing
from open_token.writers.overview import get_prompt_title
from open_token.writers.rows import classify_tool, parse_changes, parse_time, split_content
from open_token.writers.timeline import classify_message

MAX_FILE_BYTES = 16 << 20
_MAX_PROMPT = 400
_MIN_SIGNS = 4
"""A line with fewer letters and digits is found everywhere: it belongs to the line before it."""
_CLOCK_TOLERANCE = 60.0
_GIT_SECONDS = 60


class Origin(msgspec.Struct, frozen=True):
    """The edit that wrote a line."""

    session_id: str
    agent: str
    model: str
    prompt: str
    """The beginning of the prompt that led to it; redacted."""
    prompt_event: int
    """The number of the event of that prompt; 0 if there is none."""
    event: int
    """The number of the event of the edit, as `show --at` takes it."""
    event_id: str
    """The id of that event."""
    ts: str


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of the file."""

    number: int
    text: str
    origin: Origin | None
    commit: str = ""
    """The commit that git names for the line; empty if it is not committed."""


class _Edit(NamedTuple):
    time: float
    order: int
    path: str
    lines: list[str]
    origin: Origin


class _GitLine(NamedTuple):
    commit: str
    time: float


def blame_file(
    path: Path, sessions: Iterable[Session], index: SearchIndex, context: Context
) -> list[BlamedLine]:
    """Return the lines of a file with the edits that wrote them.

    Raises InputError if the file cannot be read or is no text.
    """
    path = path.resolve()
    lines = _read_lines(path)
    root = _find_repository(path)
    edits = _collect_edits(path, root, sessions, index, context)
    history = _read_git_lines(path, len(lines)) if root is not None else []
    return list(_attribute(lines, history, edits))


def _read_lines(path: Path) -> list[str]:
    raw = read_existing(path)
    if raw is None or path.is_dir():
        raise InputError(
            "there is no such file",
            where=str(path),
            help="give a file in the working directory, for example src/parser.py:120",
            code="input.missing",
        )
    if len(raw) > MAX_FILE_BYTES or b"\0" in raw:
        raise InputError(
            "this is no text file of at most 16 MB",
            where=str(path),
            help="give a source file, for example src/parser.py:120",
            code="blame.file",
        )
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _find_repository(path: Path) -> Path | None:
    for folder in path.parents:
        if (folder / ".git").exists():
            return folder
    return None


def _read_git_lines(path: Path, count: int) -> list[_GitLine]:
    """Return commit and time of each line; nothing where git cannot tell."""
    # A repository may be somebody else's: no filter of its configuration is run.
    command = ["git", "-c", "core.fsmonitor=false", "blame", "--no-textconv", "--line-porcelain"]
    try:
        result = subprocess.run(
            [*command, "--", path.name],
            cwd=path.parent,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    found: list[_GitLine] = []
    commit = ""
    time = 0.0
    is_header = True
    for line in result.stdout.split(b"\n"):
        if line.startswith(b"\t"):
            is_new = not commit.strip("0")
            found.append(_GitLine("" if is_new else commit, float("inf") if is_new else time))
            is_header = True
        elif is_header:
            commit = line.split(b" ", 1)[0].decode("ascii", "replace")
            is_header = False
        elif line.startswith(b"committer-time "):
            time = float(line.split(b" ", 1)[1])
    return found if len(found) == count else []


def _collect_edits(
    path: Path,
    root: Path | None,
    sessions: Iterable[Session],
    index: SearchIndex,
    context: Context,
) -> list[_Edit]:
    """Return the edits of this file by all sessions, in the order of their time."""
    facts = {(item.path, item.conversation): item for item in index.list_facts()}
    touching = index.list_touching(path.name)
    edits: list[_Edit] = []
    for session in sessions:
        known = facts.get((path_to_text(session.path), session.conversation or ""))
        if known is None or not _may_edit(known, touching, path, root):
            continue
        collector = _EditCollector(session, known.cwd)
        try:
            discard = BoundedBuffer(None, InputError("unlimited"), keep=False)
            export(open_session(session), discard, context, session.reader, collector)
        except OpenTokenError:
            continue  # it cannot be read now; the index says so
        names = _list_names(path, root)
        edits += [edit for edit in collector.finish() if _is_same_file(edit.path, path, names)]
    edits.sort(key=lambda edit: (edit.time, edit.order))
    return edits


def _may_edit(facts: SessionFacts, touching: set[int], path: Path, root: Path | None) -> bool:
    if not facts.added:
        return False
    if facts.number in touching:
        return True
    # Patches name their files inside their text, so that the index has no path of them.
    folder = Path(facts.cwd) if facts.cwd else None
    return folder is not None and (folder in path.parents or folder == root)


def _list_names(path: Path, root: Path | None) -> tuple[str, ...]:
    """Return how a path may end in another copy of the repository."""
    if root is None:
        return ()
    return (f"/{root.name}/{path.relative_to(root).as_posix()}",)


def _is_same_file(edited: str, path: Path, names: tuple[str, ...]) -> bool:
    return edited == path.as_posix() or edited.endswith(names or ("\0",))


@dataclass
class _Prompt:
    text: str = ""
    event: int = 0


@dataclass
class _PendingEdit:
    edits: list[_Edit] = field(default_factory=list)
    is_done: bool = False


class _EditCollector:
    """An observer of an export that keeps what its calls add to files."""

    def __init__(self, session: Session, cwd: str) -> None:
        self._session = session
        self._cwd = cwd
        self._count = 0
        self._prompt = _Prompt()
        self._models: dict[str, str] = {}
        self._session_id = session.id
        self._by_call: dict[str, _PendingEdit] = {}
        self._by_result: dict[str, _PendingEdit] = {}

    def meet(self, record: Record) -> None:
        """Take the models of the conversation."""
        self._session_id = record.conversation["id"]
        for participant in record.participants:
            self._models[participant["actor_id"]] = participant.get("model", "")

    def take(self, event: Event) -> None:
        """Take one event."""
        self._count += 1
        kind = event.get("type")
        data = get_data(event)
        if kind == "message":
            self._take_message(event)
        elif kind == "tool_use":
            self._take_call(event, data)
        elif kind == "tool_result":
            pending = self._by_call.get(get_link(event, "call_id"))
            if pending is not None and data.get("missing_result") is not True:
                pending.is_done = True
                self._by_result[str(event.get("id"))] = pending
        elif kind == "annotation":
            self._take_annotation(event, data)

    def finish(self) -> list[_Edit]:
        """Return the edits that were made."""
        done = [pending.edits for pending in self._by_call.values() if pending.is_done]
        return [edit for edits in done for edit in edits]

    def _take_message(self, event: Event) -> None:
        if classify_message(event) == "prompt" and not get_link(event, "span_id"):
            title = get_prompt_title(split_content(event)[0], _MAX_PROMPT)
            self._prompt = _Prompt(title, self._count)

    def _take_call(self, event: Event, data: dict[str, Any]) -> None:
        arguments = data.get("arguments")
        kind = classify_tool(str(data.get("tool_name") or "tool"), arguments)
        if kind not in ("edit", "write"):
            return
        ts = str(event.get("ts") or "")
        origin = Origin(
            session_id=self._session_id,
            agent=self._session.reader.replace("_", "-"),
            model=self._models.get(event.get("actor_id", ""), ""),
            prompt=self._prompt.text,
            prompt_event=self._prompt.event,
            event=self._count,
            event_id=str(event.get("id") or ""),
            ts=ts,
        )
        time = parse_time(event)
        if time is None:
            time = self._session.modified
        pending = _PendingEdit()
        for change in parse_changes(kind, arguments):
            lines = [line.text for line in change.lines if line.op == "+"]
            path = self._resolve(change.path)
            pending.edits.append(_Edit(time, self._count, path, lines, origin))
        self._by_call[get_link(event, "call_id")] = pending

    def _take_annotation(self, event: Event, data: dict[str, Any]) -> None:
        if data.get("kind") == "context" and isinstance(data.get("cwd"), str):
            self._cwd = data["cwd"]
        pending = self._by_result.get(get_link(event, "parent_id"))
        if pending is not None and data.get("kind") == "result_facts":
            exit_code = data.get("exit_code")
            has_failed = data.get("is_error") is True or data.get("rejected") is True
            has_failed |= type(exit_code) is int and exit_code != 0
            pending.is_done &= not has_failed

    def _resolve(self, path: str) -> str:
        path = path.replace("\\", "/")
        if path.startswith("/") or not self._cwd:
            return path
        return f"{self._cwd.rstrip('/')}/{path.removeprefix('./')}"


def _attribute(
    lines: list[str], history: list[_GitLine], edits: list[_Edit]
) -> Iterable[BlamedLine]:
    """Yield each line with the last edit before its commit that added this text."""
    by_text: dict[str, list[_Edit]] = {}
    for edit in edits:
        for text in dict.fromkeys(line.rstrip() for line in edit.lines):
            by_text.setdefault(text, []).append(edit)
    previous: _Edit | None = None
    for number, line in enumerate(lines, 1):
        git_line = history[number - 1] if history else _GitLine("", float("inf"))
        candidates = by_text.get(line.rstrip(), [])
        latest = git_line.time + _CLOCK_TOLERANCE
        end = bisect_right(candidates, latest, key=lambda edit: edit.time)
        chosen = candidates[end - 1] if end else None
        if sum(sign.isalnum() for sign in line) < _MIN_SIGNS:
            # The same edit must have written the line before: else it is anybody's.
            is_continued = previous is not None and previous in candidates[:end]
            chosen = previous if is_continued else None
        previous = chosen
        origin = chosen.origin if chosen is not None else None
        yield BlamedLine(number, line, origin, git_line.commit)
