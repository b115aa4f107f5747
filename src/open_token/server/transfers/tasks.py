"""What exports, previews and imports do with files, without a server.

A task is plain data and its results come one by one, so that it runs in a thread of the server or,
when it is large, in a process of its own."""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from open_token.api import load_context
from open_token.context import Context
from open_token.errors import OpenTokenError, SigningError
from open_token.integrity.signing import load_signer
from open_token.model.log_events import Json, LogEntry, LogError
from open_token.model.session_types import ImportPreview
from open_token.model.titles import choose_title, iter_prompts
from open_token.options import OPTION_NAMES
from open_token.pipeline import export
from open_token.server.config import Limits
from open_token.server.core.journal import build_write
from open_token.server.errors import ApiError, bad_request
from open_token.server.store.rows import SessionWrite
from open_token.server.transfers import bundle
from open_token.server.transfers.document_import import ParsedUpload, parse_upload
from open_token.server.transfers.jobs import Checkpoint
from open_token.session import SessionState
from open_token.session.document_import import import_document
from open_token.sources.source import Source

READER = "session_server"
_BATCH_ENTRIES = 512
_BATCH_BYTES = 1 << 20
_PREVIEW_LENGTH = 2000
_MAX_TITLE_LENGTH = 200
_MAX_SHOWN_NAME = 40
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("open_token.server")


class ExportSettings(Struct, frozen=True, kw_only=True):
    """What decides about an export, besides its session."""

    options: Mapping[str, str]
    env: Mapping[str, str]
    data: str
    """The data folder, whose project settings apply."""
    sign_key: str | None = None


class ExportTask(Struct, frozen=True, kw_only=True, tag="export"):
    """Export the log of a session, as a bundle or as a plain document."""

    settings: ExportSettings
    session_id: str
    log: str
    is_bundle: bool
    files: str | None
    """The folder of the workspace that goes into a bundle."""
    target: int
    """The descriptor of the file that is written."""


class PreviewTask(Struct, frozen=True, kw_only=True, tag="preview"):
    """Parse an upload and count what it would become."""

    path: str
    limits: Limits
    now: str
    conversation: str | None
    reader: str | None


class ImportTask(PreviewTask, frozen=True, kw_only=True, tag="import"):
    """Parse an upload and build the session that it becomes."""

    owner: str
    session_id: str
    name: str | None
    """The title that the person chose."""


class Exported(Struct, frozen=True, tag="exported"):
    """The export is complete."""


class Previewed(Struct, frozen=True, tag="previewed"):
    """What an import would result in."""

    preview: ImportPreview


class Blob(Struct, frozen=True):
    """A tool result that is too large for the log."""

    data: bytes
    media_type: str
    sha256: str


class ImportBatch(Struct, frozen=True, tag="batch"):
    """A part of a session: one write, and the blobs that have to be there before."""

    write: SessionWrite
    blobs: list[Blob]


class ImportedFiles(Struct, frozen=True, tag="files"):
    """The files of a bundle, which belong into the workspace; the last result of an import."""

    files: list[bundle.BundleFile]


Task = ExportTask | PreviewTask | ImportTask
Result = Exported | Previewed | ImportBatch | ImportedFiles


def run_task(task: Task, now: Callable[[], str], check: Checkpoint) -> Iterator[Result]:
    """Yield the results of a task; failures are ApiErrors with a message for the client."""
    if isinstance(task, ExportTask):
        _export(task, check)
        yield Exported()
    elif isinstance(task, ImportTask):
        parsed = _parse(task, check)
        try:
            yield from _DocumentBatches(task, parsed, now, check).build()
        except LogError:
            raise bad_request("the events of this file are inconsistent", "input.export") from None
        yield ImportedFiles(parsed.files)
    else:
        parsed = _parse(task, check)
        yield Previewed(_build_preview(parsed, check))


def build_export_context(settings: ExportSettings) -> Context:
    """Return the context of an export; raises an ApiError for wrong options."""
    for name in settings.options:
        if name not in OPTION_NAMES:
            raise bad_request(
                f"unknown option {name[:_MAX_SHOWN_NAME]}; "
                f"options are format, {', '.join(OPTION_NAMES)}",
                "usage",
            )
    try:
        context = load_context(settings.options, settings.env, Path(settings.data))
        if settings.sign_key is None or context.options.integrity == "none":
            return context
        return replace(context, sign=load_signer(Path(settings.sign_key), is_alone=True))
    except OpenTokenError as problem:
        raise to_client_error(problem) from None


def to_client_error(problem: OpenTokenError) -> ApiError:
    """Map an error of an export to what the client sees: no paths of this machine."""
    if isinstance(problem, SigningError):
        _log.error("cannot sign export: %s (%s)", problem.what, problem.code)
        return ApiError(
            503, "the server cannot sign with its key; see the server log", problem.code
        )
    advice = f"; {problem.help}" if problem.help else ""
    return bad_request(f"{problem.what}{advice}", problem.code)


def _export(task: ExportTask, check: Checkpoint) -> None:
    context = replace(build_export_context(task.settings), checkpoint=check)
    source = Source(task.session_id, path=Path(task.log))
    source.conversation = task.session_id
    files = Path(task.files) if task.files else None
    with open(task.target, "wb", closefd=False) as out:
        try:
            if task.is_bundle:
                bundle.write_bundle(source, files, out, context)
            else:
                export(source, out, context, READER)
        except OpenTokenError as problem:
            if problem.code == "input.no-events":
                raise bad_request("the session is empty", problem.code) from None
            raise to_client_error(problem) from None


def _parse(task: PreviewTask, check: Checkpoint) -> ParsedUpload:
    path = Path(task.path)
    return parse_upload(path, task.limits, task.now, task.conversation, task.reader, check)


def _build_preview(parsed: ParsedUpload, check: Checkpoint) -> ImportPreview:
    loss = [
        {"code": note.code, "place": note.place, "detail": note.detail, "count": note.count}
        for note in parsed.record.notes
    ]
    return ImportPreview(
        reader=parsed.reader,
        title=parsed.title,
        events=parsed.count,
        turns=_count_turns(parsed, check),
        participants=[dict(person) for person in parsed.record.participants],
        models=parsed.models,
        started_at=parsed.record.conversation.get("started_at"),
        warnings=parsed.warnings,
        loss=loss,
    )


def _count_turns(parsed: ParsedUpload, check: Checkpoint) -> int:
    state = SessionState("sess_preview")
    state.add("session.created", {"session": {}}, "")
    for _ in import_document(state, parsed.events(), lambda: "", **parsed.envelope()):
        check()
    return len(state.turns)


def _clean_title(title: str | None) -> str:
    """Return a title on one line, without control characters."""
    line = " ".join(title.split()) if isinstance(title, str) else ""
    printable = "".join(character for character in line if character.isprintable())
    return printable[:_MAX_TITLE_LENGTH]


class _Batch(Struct):
    """Entries that are written in one transaction."""

    entries: list[LogEntry] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= _BATCH_ENTRIES or self.size >= _BATCH_BYTES


class _DocumentBatches:
    """Builds the writes of a new session from a parsed document, in batches of bounded size."""

    def __init__(
        self, task: ImportTask, parsed: ParsedUpload, now: Callable[[], str], check: Checkpoint
    ) -> None:
        self._task = task
        self._parsed = parsed
        self._now = now
        self._check = check
        self._state = SessionState(task.session_id)
        self._stale_turns: set[str] = set()
        self._count = 0
        self._batch = _Batch()

    def build(self) -> Iterator[ImportBatch]:
        """Yield the writes: the session is created, its entries are appended, and it is completed.

        The session is marked as completed last: a crash in between leaves one that shows it is
        not."""
        for entry in self._iterate_entries():
            self._check()
            self._batch.entries.append(entry)
            if self._batch.is_full:
                yield self._finish_batch()
        yield self._finish_batch()

    def _finish_batch(self) -> ImportBatch:
        batch = self._batch
        self._batch = _Batch()
        hashes = [blob.sha256 for blob in batch.blobs]
        write = build_write(
            self._task.owner,
            self._state,
            batch.entries,
            self._count,
            self._stale_turns,
            blobs=hashes,
        )
        self._stale_turns.clear()
        self._count += len(batch.entries)
        return ImportBatch(write, batch.blobs)

    def _iterate_entries(self) -> Iterator[LogEntry]:
        chosen_title = _clean_title(self._task.name)
        session: Json = {
            "id": self._task.session_id,
            "intent": chosen_title or self._choose_title(),
            "imported_from": self._parsed.reader,
            "user_id": self._task.owner,
        }
        yield self._state.add("session.created", {"session": session}, self._now())
        yield from import_document(
            self._state, self._iterate_events(), self._now, **self._parsed.envelope()
        )
        # A title that the person chose is logged as a change, because the document has its own.
        changes: Json = {"status": "completed"}
        if chosen_title:
            changes["intent"] = chosen_title
        yield self._state.add("session.changed", {"changes": changes}, self._now())

    def _choose_title(self) -> str:
        fallback = str(self._parsed.record.conversation.get("id") or "Imported session")
        title = choose_title(self._parsed.title, iter_prompts(self._parsed.events()), fallback)
        return _clean_title(title) or "Imported session"

    def _iterate_events(self) -> Iterator[Json]:
        for event in self._parsed.events():
            if event["type"] == "tool_result":
                event = self._move_result_to_blob(event)
            self._batch.size += len(_encode(event))
            yield event

    def _move_result_to_blob(self, event: Json) -> Json:
        """Replace a result that is too large for a frame by a reference to a blob."""
        content = event.get("content")
        if not isinstance(content, dict) or len(content) != 2:
            return event
        mime = content.get("mime")
        if mime == "text/plain" and "text" in content:
            data = content["text"].encode("utf-8", "replace")
        elif mime == "application/json" and "data" in content:
            data = _encode(content["data"])
        else:
            return event
        if len(data) <= self._task.limits.frame_bytes:
            return event
        reference = self._add_blob(data, mime)
        return {**event, "content": {"mime": mime, "data": reference}}

    def _add_blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        sha256 = hashlib.sha256(data).hexdigest()
        self._batch.blobs.append(Blob(data, media_type, sha256))
        # A character takes up to four bytes; the last one may be cut, and is then ignored.
        preview = data[: 4 * _PREVIEW_LENGTH].decode("utf-8", "ignore")
        return {
            "blob": sha256,
            "size": len(data),
            "media_type": media_type,
            "preview": preview[:_PREVIEW_LENGTH],
        }
