"""The tools: what an agent may ask of the conversations of this machine, and how little of them it
is told."""

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from open_token.api import build_context, load_trust
from open_token.context import Context
from open_token.errors import InputError, OutputError, UsageError
from open_token.integrity.verify import VERIFIED, verify_source
from open_token.jsontools.timestamps import from_epoch
from open_token.jsontools.walk import replace_lone_surrogates
from open_token.locallib.discovery import (
    Discovery,
    Session,
    drop_cut_word,
    filter_by_words,
    find_by_id,
    open_session,
)
from open_token.mcp_server.shapes import (
    Brief,
    Briefed,
    Events,
    ExportConversation,
    Exported,
    Fault,
    GetEvents,
    ListSessions,
    OfFile,
    SessionRow,
    Sessions,
    Validated,
    Verified,
    schema_of,
)
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.redaction.text_stream import redact_text
from open_token.settings import load_settings
from open_token.sources.source import Source
from open_token.storage.files import make_folder, whole_file
from open_token.validation.validate import Problem, validate_bytes, validate_lines

_FAULTS = 50
_LOOKS, _WRITES = (
    {"readOnlyHint": True, "openWorldHint": False},
    {"readOnlyHint": False, "openWorldHint": False},
)


@dataclass(frozen=True)
class Tool:
    """One tool: what it is for, what it takes and gives, what it does to the world."""

    name: str
    title: str
    description: str
    takes: Any
    gives: type[msgspec.Struct]
    hints: dict[str, bool]
    run: Callable[..., msgspec.Struct]


class Toolbox:
    """The tools of one server; what is written lies below its folder, and what is read as an export
    too."""

    instructions = (
        "Conversations of coding agents on this machine, secrets masked. brief tells one in short. export_conversation "
        "writes all of one to a file and tells its path; read parts of that file with get_events."
    )

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        home: Path,
        cwd: Path,
        *,
        may_unmask: bool = False,
    ) -> None:
        self._folder, self._env, self._home, self._cwd, self._may_unmask = (
            folder,
            env,
            home,
            cwd,
            may_unmask,
        )
        self._tools = {tool.name: tool for tool in self._all()}

    def _all(self) -> list[Tool]:
        writes = _WRITES | {"destructiveHint": False, "idempotentHint": True}
        return [
            Tool(
                "list_sessions", "List conversations",
                "The conversations of coding agents on this machine, newest first: id, runtime, title, folder, time.",
                ListSessions, Sessions, _LOOKS, self.list_sessions,
            ),
            Tool(
                "brief", "Tell a conversation in short",
                "What was asked in a conversation, where it stands, what was changed, what failed, the last steps.",
                Brief, Briefed, _LOOKS, self.brief,
            ),
            Tool(
                "export_conversation", "Export a conversation",
                "Writes a conversation as an Open-Token document into the folder of this server, secrets masked. Gives "
                "the path, counts and the digest, not the conversation.",
                ExportConversation, Exported, writes, self.export_conversation,
            ),
            Tool(
                "validate", "Check an export", "Whether an export keeps every rule of the format.",
                OfFile, Validated, _LOOKS, self.validate,
            ),
            Tool(
                "verify", "Verify an export", "Whether an export is unchanged since it was written, and signed.",
                OfFile, Verified, _LOOKS, self.verify,
            ),
            Tool(
                "get_events", "Read events of an export",
                "Some events of an export, in order, secrets masked; go on with `next`.",
                GetEvents, Events, _LOOKS, self.get_events,
            ),
        ]  # fmt: skip

    def listed(self) -> list[dict[str, Any]]:
        """The tools, as the protocol describes them."""
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": schema_of(tool.takes),
                "outputSchema": schema_of(tool.gives),
                "annotations": {"title": tool.title, **tool.hints},
            }
            for tool in self._tools.values()
        ]

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """What came of a call; None when there is no such tool."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        try:
            asked = msgspec.convert(given, tool.takes)
        except msgspec.ValidationError as problem:
            raise UsageError(str(problem), help=f"see the schema of {name}") from None
        found: dict[str, Any] = replace_lone_surrogates(msgspec.to_builtins(tool.run(asked)))
        return found

    def list_sessions(self, asked: ListSessions) -> Sessions:
        """The newest conversations."""
        discovery = self._discovery()
        found = [
            session for session in discovery.sessions() if asked.reader in ("", session.reader)
        ]
        wanted: Iterable[Session] = found
        if asked.folder:
            wanted = discovery.filter_by_folder(wanted, Path(asked.folder))
        context = self._context({})
        if asked.text:
            # Once more in what is masked: else a secret could be guessed letter by letter.
            fitting = filter_by_words(map(discovery.inspect, wanted), asked.text)
            wanted = (
                session
                for session in fitting
                if any(filter_by_words([_masked_of(session, context)], asked.text))
            )
        shown = [discovery.inspect(session) for session in islice(wanted, asked.limit)]
        discovery.remember()
        return Sessions([self._row(session, context) for session in shown], len(found))

    def _row(self, session: Session, context: Context) -> SessionRow:
        masked = _masked_of(session, context)
        return SessionRow(
            id=session.id,
            reader=session.reader,
            title=masked.title or "",
            folder=masked.cwd or "",
            modified=from_epoch(session.modified) or "",
            bytes=session.bytes,
        )

    def brief(self, asked: Brief) -> Briefed:
        """One conversation in short."""
        context = self._context({"redact": asked.redact, "max_bytes": asked.max_bytes})
        session, out = self._session(asked.session), io.BytesIO()
        receipt = export(open_session(session), out, context, session.reader, to="brief")
        return Briefed(
            brief=out.getvalue().decode(),
            conversation_id=receipt.conversation_id,
            reader=receipt.reader,
            events=receipt.events,
            events_hash=(receipt.integrity or {}).get("events_hash", ""),
        )

    def export_conversation(self, asked: ExportConversation) -> Exported:
        """Write one conversation into the folder."""
        words: dict[str, Any] = {
            "mode": asked.mode,
            "include": asked.include,
            "internal": asked.internal,
        }
        context = self._context(
            words | {"redact": asked.redact, "max_bytes": asked.max_bytes or None}
        )
        session = self._session(asked.session)
        target = self._target(session, asked.mode)
        with whole_file(target, 0o600) as out:
            receipt = export(open_session(session), out, context, session.reader)
        omitted: dict[str, int] = {}
        for note in receipt.notes:
            omitted[note.code] = omitted.get(note.code, 0) + note.count
        return Exported(
            file=str(target),
            conversation_id=receipt.conversation_id,
            reader=receipt.reader,
            events=receipt.events,
            calls=receipt.calls,
            bytes=receipt.bytes,
            events_hash=(receipt.integrity or {}).get("events_hash", ""),
            redact=context.options.redact,
            omitted=omitted,
        )

    def validate(self, asked: OfFile) -> Validated:
        """Check one file against the format."""
        source = self._export(asked.file)
        with source.opened() as stream:
            is_stream = source.shape == "lines" and b'"header"' in source.head[:200]
            found = validate_lines(stream) if is_stream else validate_bytes(stream.read())
        errors = sum(problem.severity == "error" for problem in found)
        context = self._context({})
        faults = [_fault(problem, context) for problem in found[:_FAULTS]]
        return Validated(not errors, errors, len(found) - errors, faults)

    def verify(self, asked: OfFile) -> Verified:
        """Compute every hash of one file again."""
        verdict = verify_source(self._export(asked.file), load_trust(None, self._env))
        context = self._context({})
        reasons = [
            _masked(reason, context) for reason in (*verdict.reasons, *verdict.warnings)[:_FAULTS]
        ]
        states = [judged.state for judged in verdict.signatures]
        return Verified(verdict.status == VERIFIED, verdict.status, verdict.events, reasons, states)

    def get_events(self, asked: GetEvents) -> Events:
        """A slice of one file, masked again: a file may come from elsewhere."""
        words = {
            "mode": "ndjson",
            "include": "include-internal",
            "internal": "full",
            "integrity": "none",
        }
        slice_ = _Slice(asked)
        export(self._export(asked.file), _Nowhere(), self._context(words), "open_token", slice_)
        return Events(slice_.taken, slice_.total, slice_.next)

    def _discovery(self) -> Discovery:
        return Discovery.of(self._env, self._home, self._cwd)

    def _context(self, words: Mapping[str, Any]) -> Context:
        """Options of the settings and of the call; nothing is let out unmasked unless the server
        may do that."""
        settings = load_settings(self._env, self._cwd)
        chosen = {name: value for name, value in words.items() if value not in (None, "")}
        options = ExportOptions.of({**settings.defaults, **chosen})
        if options.redact == "none" and not self._may_unmask:
            if chosen.get("redact") == "none":
                raise UsageError(
                    "this server lets nothing out unmasked",
                    help="whoever starts it can say --allow-unmasked",
                )
            options = ExportOptions.of({**settings.defaults, **chosen, "redact": "secrets"})
        return build_context(options, settings, self._env)

    def _session(self, wanted: str) -> Session:
        discovery = self._discovery()
        found = discovery.sessions()
        if wanted == "last":
            matching = found[:1]
        else:
            matching = find_by_id(found, wanted) or find_by_id(
                [discovery.inspect(session) for session in found], wanted
            )
        if len(matching) != 1:
            what = (
                "several conversations have an id that starts so"
                if matching
                else "no conversation has this id"
            )
            raise InputError(what, help="list_sessions tells the ids")
        return discovery.inspect(matching[0])

    def _target(self, session: Session, mode: str) -> Path:
        """Where an export goes: below the folder, by a name that no id leads astray with."""
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", session.id).strip("-")[:80]
        if name != session.id:
            name = f"{name}-{hashlib.sha256(session.id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        target = self._folder / session.reader / f"{name}.{mode}"
        make_folder(target.parent)
        if os.path.islink(target) or not _is_below(target, self._folder):
            raise OutputError("a link leads out of the folder of this server", help="take it away")
        return target

    def _export(self, named: str) -> Source:
        """A file below the folder."""
        path = self._folder / named
        if "\0" in named or not os.path.isfile(path) or not _is_below(path, self._folder):
            raise InputError(
                "there is no such export below the folder of this server", help="export one first"
            )
        return Source.of(Path(os.path.realpath(path)))


class _Nowhere(io.BytesIO):
    """Takes what is written, and forgets it."""

    def write(self, data: Any) -> int:
        return len(data)


class _Slice:
    """The events of a slice, as they go by; within so many bytes."""

    def __init__(self, asked: GetEvents) -> None:
        self._asked, self._left = asked, asked.max_bytes
        self.taken: list[dict[str, Any]] = []
        self.total, self.next = 0, 0

    def meet(self, record: Record) -> None:
        """Nothing of the whole is needed."""

    def take(self, event: Event) -> None:
        """Keep it, if it is of the slice and there is room; one that no slice has room for is only
        told of."""
        self.total += 1
        if self.next or self.total < self._asked.first:
            return
        told: dict[str, Any] = dict(event)
        size = len(msgspec.json.encode(told))
        if size > self._asked.max_bytes // 2:
            told = {
                "seq": self.total,
                "id": event.get("id"),
                "type": event.get("type"),
                "omitted_bytes": size,
            }
            size = len(msgspec.json.encode(told))
        if len(self.taken) == self._asked.count or size > self._left:
            self.next = self.total
            return
        self._left -= size
        self.taken.append(told)


def _masked(text: str, context: Context) -> str:
    return b"".join(redact_text([text.encode("utf-8", "replace")], context, "")).decode(
        "utf-8", "replace"
    )


def _masked_of(session: Session, context: Context) -> Session:
    """What a list may tell of a conversation, or be asked about."""
    title, words = (
        _masked(drop_cut_word(text or ""), context) for text in (session.title, session.words)
    )
    return replace(session, title=title, words=words, cwd=_masked(session.cwd or "", context))


def _fault(problem: Problem, context: Context) -> Fault:
    return Fault(
        problem.id,
        problem.severity,
        _masked(problem.place or "", context),
        _masked(problem.message, context),
    )


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
