"""The tools of the MCP server. Results are redacted; exports stay inside one folder."""

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

from open_token.api import (
    build_context,
    build_index_context,
    find_indexed_sessions,
    load_trust,
)
from open_token.context import Context
from open_token.errors import InputError, OutputError, UsageError
from open_token.integrity.verify import VERIFIED, verify_source
from open_token.jsontools.timestamps import from_epoch
from open_token.jsontools.walk import replace_lone_surrogates
from open_token.library.discovery import (
    Discovery,
    Session,
    drop_cut_word,
    filter_by_words,
    find_by_id,
    open_session,
)
from open_token.library.index import Filters, FoundSession, SearchIndex
from open_token.mcp.pages import (
    APP_URI,
    MAX_PAGE_BYTES,
    build_page_uri,
    describe_app,
    describe_page_template,
    parse_page_uri,
    read_app,
)
from open_token.mcp.schemas import (
    NOTICE,
    BriefRequest,
    BriefResult,
    EventsRequest,
    EventsResult,
    ExportRequest,
    ExportResult,
    Fault,
    FileRequest,
    ListRequest,
    ListResult,
    SearchHit,
    SearchRequest,
    SearchResult,
    SearchSession,
    SessionRow,
    ShowRequest,
    ShowResult,
    ValidationResult,
    VerificationResult,
    build_schema,
)
from open_token.model.document import Event, Record
from open_token.model.titles import shorten
from open_token.options import ExportOptions
from open_token.pipeline import Receipt, export
from open_token.redaction.text_stream import redact_text
from open_token.settings import load_settings
from open_token.sources.source import Source
from open_token.storage.files import atomic_file, make_folder
from open_token.validation.validate import Problem, validate_bytes, validate_lines

_MAX_PROBLEMS = 50
_READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
_WRITES = {
    "readOnlyHint": False,
    "openWorldHint": False,
    "destructiveHint": False,
    "idempotentHint": True,
}


@dataclass(frozen=True)
class Tool:
    """A tool: its description, the types of its arguments and result, and its hints."""

    name: str
    title: str
    description: str
    arguments: Any
    result: type[msgspec.Struct]
    hints: dict[str, bool]
    run: Callable[..., msgspec.Struct]
    page: str = ""
    """The resource that shows the result to the person, in clients that can."""


class Toolbox:
    """The tools of one server; exports are written and read below its folder."""

    instructions = (
        "Conversations of coding agents on this machine, with secrets redacted. search finds what "
        "was said in all of them; get_events with the session and event number reads around a hit. "
        "brief summarizes one. export_conversation writes one to a file and returns its path; read "
        "parts of that file with get_events."
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
        self._folder = folder
        self._env = env
        self._home = home
        self._cwd = cwd
        self._may_unmask = may_unmask
        self._tools = {tool.name: tool for tool in self._build_tools()}

    def _build_tools(self) -> list[Tool]:
        return [
            Tool(
                "list_sessions",
                "List conversations",
                "List the conversations of coding agents on this machine, newest first: id, "
                "runtime, title, folder, time.",
                ListRequest,
                ListResult,
                _READ_ONLY,
                self.list_sessions,
            ),
            Tool(
                "search",
                "Search conversations",
                "Search what was said and done in all conversations on this machine. Returns "
                "sessions with event numbers and snippets; read around a hit with get_events.",
                SearchRequest,
                SearchResult,
                _READ_ONLY,
                self.search,
            ),
            Tool(
                "brief",
                "Summarize a conversation",
                "Summarize a conversation: prompts, last answer, changed files, failures, last "
                "steps.",
                BriefRequest,
                BriefResult,
                _READ_ONLY,
                self.brief,
            ),
            Tool(
                "show_conversation",
                "Show a conversation to the person",
                "Show a conversation to the person as a page inside this client, with secrets "
                "redacted. The result has counts only; to read it yourself, use brief or "
                "get_events.",
                ShowRequest,
                ShowResult,
                _READ_ONLY,
                self.show_conversation,
                APP_URI,
            ),
            Tool(
                "export_conversation",
                "Export a conversation",
                "Write a conversation as an Open-Token document into the folder of this server, "
                "with secrets redacted. Returns the path, counts and the hash, not the "
                "conversation.",
                ExportRequest,
                ExportResult,
                _WRITES,
                self.export_conversation,
            ),
            Tool(
                "validate",
                "Check an export",
                "Check an export against every rule of the format.",
                FileRequest,
                ValidationResult,
                _READ_ONLY,
                self.validate,
            ),
            Tool(
                "verify",
                "Verify an export",
                "Check whether an export is unchanged since it was written, and its signatures.",
                FileRequest,
                VerificationResult,
                _READ_ONLY,
                self.verify,
            ),
            Tool(
                "get_events",
                "Read events",
                "Read events of a session or an export in order, with secrets redacted; continue "
                "with `next`.",
                EventsRequest,
                EventsResult,
                _READ_ONLY,
                self.get_events,
            ),
        ]

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools as the protocol describes them."""
        return [_describe_tool(tool) for tool in self._tools.values()]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a call; None for an unknown tool."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        try:
            request = msgspec.convert(arguments, tool.arguments)
        except msgspec.ValidationError as problem:
            raise UsageError(str(problem), help=f"see the schema of {name}") from None
        result: dict[str, Any] = replace_lone_surrogates(msgspec.to_builtins(tool.run(request)))
        return result

    def list_resources(self) -> list[dict[str, Any]]:
        """Return the page that shows conversations, an MCP App."""
        return [describe_app()]

    def list_resource_templates(self) -> list[dict[str, Any]]:
        """Return the template of the pages that the app shows."""
        return [describe_page_template()]

    def read_resource(self, uri: str) -> dict[str, Any] | None:
        """Return the app, or the page of one conversation; None for anything else."""
        if uri == APP_URI:
            return read_app()
        wanted = parse_page_uri(uri)
        if wanted is None:
            return None
        session_id, level = wanted
        request = msgspec.convert({"session": session_id, "redact": level}, ShowRequest)
        page, _, _ = self._render_page(request)
        return {"uri": uri, "mimeType": "text/html", "text": page}

    def show_conversation(self, request: ShowRequest) -> ShowResult:
        """Return where the client finds the page of one conversation."""
        _, session, receipt = self._render_page(request)
        masked = _redact_session(session, self._build_context({"redact": request.redact}))
        return ShowResult(
            notice=NOTICE,
            page=build_page_uri(session.id, request.redact),
            title=masked.title or "",
            conversation_id=receipt.conversation_id,
            reader=receipt.reader,
            events=receipt.events,
        )

    def _render_page(self, request: ShowRequest) -> tuple[str, Session, Receipt]:
        context = self._build_context({"redact": request.redact, "max_bytes": MAX_PAGE_BYTES})
        session = self._find_session(request.session)
        out = io.BytesIO()
        receipt = export(open_session(session), out, context, session.reader, to="html")
        return out.getvalue().decode(), session, receipt

    def list_sessions(self, request: ListRequest) -> ListResult:
        """Return the newest conversations."""
        discovery = self._discovery()
        found = [
            session for session in discovery.sessions() if request.reader in ("", session.reader)
        ]
        matching: Iterable[Session] = found
        if request.folder:
            matching = discovery.filter_by_folder(matching, Path(request.folder))
        context = self._build_context({})
        if request.text:
            # The redacted text must match, too: else a secret could be guessed character by
            # character.
            candidates = filter_by_words(map(discovery.inspect, matching), request.text)
            matching = (
                session
                for session in candidates
                if any(filter_by_words([_redact_session(session, context)], request.text))
            )
        shown = [discovery.inspect(session) for session in islice(matching, request.limit)]
        discovery.remember()
        rows = [self._build_row(session, context) for session in shown]
        return ListResult(NOTICE, rows, len(found))

    def _build_row(self, session: Session, context: Context) -> SessionRow:
        masked = _redact_session(session, context)
        return SessionRow(
            id=session.id,
            reader=session.reader,
            title=masked.title or "",
            folder=masked.cwd or "",
            modified=from_epoch(session.modified) or "",
            bytes=session.bytes,
        )

    def search(self, request: SearchRequest) -> SearchResult:
        """Search all conversations; the index is updated before."""
        settings = load_settings(self._env, self._cwd)
        filters = Filters(
            agent=request.reader.replace("-", "_"),
            folder=request.folder,
            role=request.role,
            tool=request.tool,
            path=request.path,
        )
        with SearchIndex(settings.folders.cache) as index:
            sessions = find_indexed_sessions(settings, self._env, self._home, self._cwd)
            index.update(sessions, build_index_context(settings, self._env))
            found = index.search(request.text, filters, max_sessions=request.limit)
        shown = [_build_search_session(session) for session in found.sessions]
        return SearchResult(NOTICE, shown, found.is_complete)

    def brief(self, request: BriefRequest) -> BriefResult:
        """Summarize one conversation."""
        context = self._build_context({"redact": request.redact, "max_bytes": request.max_bytes})
        session = self._find_session(request.session)
        out = io.BytesIO()
        receipt = export(open_session(session), out, context, session.reader, to="brief")
        return BriefResult(
            notice=NOTICE,
            brief=out.getvalue().decode(),
            conversation_id=receipt.conversation_id,
            reader=receipt.reader,
            events=receipt.events,
            events_hash=(receipt.integrity or {}).get("events_hash", ""),
        )

    def export_conversation(self, request: ExportRequest) -> ExportResult:
        """Write one conversation into the folder."""
        context = self._build_context(
            {
                "mode": request.mode,
                "include": request.include,
                "internal": request.internal,
                "redact": request.redact,
                "max_bytes": request.max_bytes or None,
            }
        )
        session = self._find_session(request.session)
        target = self._prepare_target(session, request.mode)
        with atomic_file(target, 0o600) as out:
            receipt = export(open_session(session), out, context, session.reader)
        omitted: dict[str, int] = {}
        for note in receipt.notes:
            omitted[note.code] = omitted.get(note.code, 0) + note.count
        return ExportResult(
            notice=NOTICE,
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

    def validate(self, request: FileRequest) -> ValidationResult:
        """Check one file against the format."""
        source = self._open_export(request.file)
        with source.opened() as stream:
            is_stream = source.shape == "lines" and b'"header"' in source.head[:200]
            if is_stream:
                problems = validate_lines(stream)
            else:
                problems = validate_bytes(stream.read())
        errors = sum(problem.severity == "error" for problem in problems)
        context = self._build_context({})
        shown = [_redact_problem(problem, context) for problem in problems[:_MAX_PROBLEMS]]
        return ValidationResult(NOTICE, not errors, errors, len(problems) - errors, shown)

    def verify(self, request: FileRequest) -> VerificationResult:
        """Recompute all hashes of one file."""
        verdict = verify_source(self._open_export(request.file), load_trust(None, self._env))
        context = self._build_context({})
        reasons = [
            _redact(reason, context)
            for reason in (*verdict.reasons, *verdict.warnings)[:_MAX_PROBLEMS]
        ]
        states = [judged.state for judged in verdict.signatures]
        return VerificationResult(
            NOTICE, verdict.status == VERIFIED, verdict.status, verdict.events, reasons, states
        )

    def get_events(self, request: EventsRequest) -> EventsResult:
        """Return some events of one file, redacted again: it may come from elsewhere."""
        options = {
            "mode": "ndjson",
            "include": "include-internal",
            "internal": "full",
            "integrity": "none",
        }
        if request.file and request.session:
            raise UsageError(
                "get_events takes a file or a session, not both", help="leave one of them out"
            )
        collector = _EventCollector(request)
        if request.session:
            session = self._find_session(request.session)
            source = open_session(session)
            reader = session.reader
        else:
            source = self._open_export(request.file)
            reader = "open_token"
        export(source, _NullWriter(), self._build_context(options), reader, collector)
        return EventsResult(NOTICE, collector.events, collector.total, collector.next)

    def _discovery(self) -> Discovery:
        return Discovery.of(self._env, self._home, self._cwd)

    def _build_context(self, arguments: Mapping[str, Any]) -> Context:
        """Merge the settings with the arguments of a call; redaction is on unless allowed off."""
        settings = load_settings(self._env, self._cwd)
        chosen = {name: value for name, value in arguments.items() if value not in (None, "")}
        options = ExportOptions.of({**settings.defaults, **chosen})
        if options.redact == "none" and not self._may_unmask:
            if chosen.get("redact") == "none":
                raise UsageError(
                    "this server does not allow redact=none",
                    help="start it with --allow-unmasked to allow it",
                )
            options = ExportOptions.of({**settings.defaults, **chosen, "redact": "secrets"})
        return build_context(options, settings, self._env)

    def _find_session(self, session_id: str) -> Session:
        discovery = self._discovery()
        sessions = discovery.sessions()
        if session_id == "last":
            matching = sessions[:1]
        else:
            matching = find_by_id(sessions, session_id)
            if not matching:
                # The id inside a file may differ from its name.
                matching = find_by_id(
                    [discovery.inspect(session) for session in sessions], session_id
                )
        if not matching:
            raise InputError("no conversation has this id", help="use list_sessions to find it")
        if len(matching) > 1:
            raise InputError(
                "several conversations match this id", help="use list_sessions to find it"
            )
        return discovery.inspect(matching[0])

    def _prepare_target(self, session: Session, mode: str) -> Path:
        """Return the path of an export: below the folder, whatever the id contains."""
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", session.id).strip("-")[:80]
        if name != session.id:
            digest = hashlib.sha256(session.id.encode("utf-8", "surrogatepass")).hexdigest()
            name = f"{name}-{digest[:8]}"
        target = self._folder / session.reader / f"{name}.{mode}"
        make_folder(target.parent)
        if os.path.islink(target) or not _is_below(target, self._folder):
            raise OutputError(
                "a symbolic link leads out of the folder of this server", help="remove the link"
            )
        return target

    def _open_export(self, name: str) -> Source:
        """Open an export below the folder."""
        path = self._folder / name
        if "\0" in name or not os.path.isfile(path) or not _is_below(path, self._folder):
            raise InputError(
                "no such export in the folder of this server", help="use export_conversation first"
            )
        return Source.of(Path(os.path.realpath(path)))


def _describe_tool(tool: Tool) -> dict[str, Any]:
    described = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": build_schema(tool.arguments),
        "outputSchema": build_schema(tool.result),
        "annotations": {"title": tool.title, **tool.hints},
    }
    if tool.page:
        described["_meta"] = {"ui": {"resourceUri": tool.page}}
    return described


def _build_search_session(session: FoundSession) -> SearchSession:
    hits = [
        SearchHit(hit.seq, hit.event_id, hit.role, hit.tool, from_epoch(hit.ts) or "", hit.snippet)
        for hit in session.hits
    ]
    modified = from_epoch(session.modified) or ""
    return SearchSession(
        session.id, session.reader, session.title, session.cwd, modified, hits, session.more
    )


class _NullWriter(io.BytesIO):
    """Discards what is written."""

    def write(self, data: Any) -> int:
        return len(data)


class _EventCollector:
    """Collects the requested events of an export, within a byte limit."""

    def __init__(self, request: EventsRequest) -> None:
        self._request = request
        self._bytes_left = request.max_bytes
        self.events: list[dict[str, Any]] = []
        self.total = 0
        self.next = 0

    def meet(self, record: Record) -> None:
        """Ignore the record: only events are needed."""

    def take(self, event: Event) -> None:
        """Add an event if it is requested and fits; one that can never fit becomes its size."""
        self.total += 1
        if self.next or self.total < self._request.first:
            return
        entry: dict[str, Any] = dict(event)
        size = len(msgspec.json.encode(entry))
        if size > self._request.max_bytes // 2:
            entry = {
                "seq": self.total,
                "id": event.get("id"),
                "type": event.get("type"),
                "omitted_bytes": size,
            }
            size = len(msgspec.json.encode(entry))
        if len(self.events) == self._request.count or size > self._bytes_left:
            self.next = self.total
            return
        self._bytes_left -= size
        self.events.append(entry)


def _redact(text: str, context: Context) -> str:
    chunks = redact_text([text.encode("utf-8", "replace")], context, "")
    return b"".join(chunks).decode("utf-8", "replace")


def _redact_session(session: Session, context: Context) -> Session:
    """Return a session with the redacted texts that a list may show or match."""
    title = _redact(drop_cut_word(session.title or ""), context)
    words = _redact(drop_cut_word(session.words or ""), context)
    cwd = _redact(session.cwd or "", context)
    return replace(session, title=shorten(title), words=words, cwd=cwd)


def _redact_problem(problem: Problem, context: Context) -> Fault:
    return Fault(
        problem.id,
        problem.severity,
        _redact(problem.place or "", context),
        _redact(problem.message, context),
    )


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
