"""Export of sessions as Open-Token documents, and import of anything that a reader recognizes."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from open_token.context import Context
from open_token.model.session_types import ImportPreview, Session, from_builtins
from open_token.server.core.pending import PendingSessions
from open_token.server.core.services import Services
from open_token.server.core.session_log import write_log
from open_token.server.errors import ApiError, bad_request, not_found
from open_token.server.transfers import bundle, tasks
from open_token.server.transfers.document_import import sanitize_filename
from open_token.server.transfers.jobs import Checkpoint
from open_token.server.transfers.process import IS_SUPPORTED, TransferProcess
from open_token.server.transfers.tasks import (
    ExportSettings,
    ExportTask,
    ImportBatch,
    ImportedFiles,
    ImportTask,
    Previewed,
    PreviewTask,
    Result,
    Task,
    run_task,
)
from open_token.sources.decompress import find_compression
from open_token.sources.origin import ZIP

MEDIA_TYPES = {
    "zip": "application/zip",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
}
PENDING_KEY = "imports"
_CHUNK_SIZE = 1 << 18
_MAX_SHOWN_NAME = 40
_ABANDONED_SECONDS = 600
"""The time without a write after which an import of another node counts as dead."""
_LARGE_BYTES = 1 << 20
"""From this size on a process is worth its start."""
_HEAD_BYTES = 16


class ExportFile(Struct, frozen=True):
    """An export that is ready to be sent."""

    stream: BinaryIO
    size: int
    media_type: str
    name: str

    def pieces(self) -> Iterator[bytes]:
        """Yield the content in chunks."""
        with self.stream:
            while chunk := self.stream.read(_CHUNK_SIZE):
                yield chunk


async def export_session(
    services: Services, owner: str, session_id: str, query: Iterable[tuple[str, str]]
) -> ExportFile:
    """Export the current state of a session with the options of a query string."""
    options = _collect_options(query)
    form = _pop_format(options)
    settings = _collect_settings(services, options)
    tasks.build_export_context(settings)  # refuses wrong options at once
    stored = await services.store.session(owner, session_id)
    if stored is None:
        raise not_found()
    with _temporary_folder() as folder:
        log = folder / "log.ndjson"
        with log.open("wb") as log_stream:
            await write_log(services, owner, session_id, stored.stream_sequence, log_stream)
        out = tempfile.TemporaryFile(prefix="open-token-")  # noqa: SIM115 - closed when it was sent
        workspace = services.workspaces.get(session_id)
        task = ExportTask(
            settings=settings,
            session_id=session_id,
            log=str(log),
            is_bundle=form == "zip",
            files=str(workspace.folder) if workspace.is_own else None,
            target=out.fileno(),
        )
        try:
            async with _run_task(services, owner, task, log) as results:
                async for _ in results:
                    pass
        except BaseException:
            out.close()
            raise
    size = out.seek(0, os.SEEK_END)
    out.seek(0)
    extension = "zip" if form == "zip" else f"open-token.{form}"
    return ExportFile(out, size, MEDIA_TYPES[form], f"{session_id}.{extension}")


def _collect_settings(services: Services, options: Mapping[str, str]) -> ExportSettings:
    key = services.config.sign_key
    return ExportSettings(
        options=options,
        env=dict(services.env),
        data=str(services.config.data),
        sign_key=str(key) if key is not None else None,
    )


def build_export_context(services: Services, options: Mapping[str, str]) -> Context:
    """Return the context of an export with these options; raises an ApiError for wrong ones."""
    return tasks.build_export_context(_collect_settings(services, options))


@contextlib.asynccontextmanager
async def _run_task(
    services: Services, owner: str, task: Task, source: Path
) -> AsyncIterator[AsyncIterator[Result]]:
    """Yield the results of a task: in a thread, or in a process if its source is large."""
    if IS_SUPPORTED and await asyncio.to_thread(_is_large, source):
        opening = TransferProcess.open(task, services.config.limits.transfer_bytes)
        results: AsyncGenerator[Result, None] = services.jobs.run_process(owner, opening)
    else:
        results = _run_in_thread(services, owner, task)
    try:
        yield results
    finally:
        await results.aclose()


def _is_large(source: Path) -> bool:
    """Return whether a file is large, or may be when it is unpacked."""
    with source.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    is_packed = head.startswith(ZIP) or find_compression(head) is not None
    return is_packed or source.stat().st_size >= _LARGE_BYTES


async def _run_in_thread(
    services: Services, owner: str, task: Task
) -> AsyncGenerator[Result, None]:
    """Yield the results of a task, each of which is one job."""
    current: list[Checkpoint] = []
    results = run_task(task, services.clock.now, lambda: current[-1]())

    def find_next(check: Checkpoint) -> Result | None:
        current.append(check)
        return next(results, None)

    result = await services.jobs.run(owner, find_next)
    while result is not None:
        yield result
        result = await services.jobs.run(owner, find_next)


def _collect_options(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in query:
        if options.setdefault(name.replace("-", "_"), value) != value:
            raise bad_request(f"{name[:_MAX_SHOWN_NAME]} is given twice", "usage")
    return options


def _pop_format(options: dict[str, str]) -> str:
    """Remove and return the format; `mode` is the same for a plain document."""
    mode = options.get("mode")
    form = options.pop("format", None)
    if form is None:
        form = mode or "zip"
    if form not in MEDIA_TYPES:
        raise bad_request(f"format must be one of {', '.join(MEDIA_TYPES)}", "usage")
    if mode is not None and form not in (mode, "zip"):
        raise bad_request("format and mode contradict each other; keep one", "usage")
    options["mode"] = "json" if form == "zip" else form
    return form


class Upload(Struct, frozen=True):
    """An uploaded file, and the other fields of its form."""

    stream: BinaryIO
    filename: str | None = None
    name: str | None = None
    """The title of the new session."""
    conversation: str | None = None
    """Which of several conversations in the file to import."""
    reader: str | None = None
    """The format, if it cannot be detected."""


async def preview_import(services: Services, owner: str, upload: Upload) -> ImportPreview:
    """Return what a file would become as a session; nothing is stored."""
    async with _saved_upload(upload) as path:
        task = PreviewTask(
            path=str(path),
            limits=services.config.limits,
            now=services.clock.now(),
            conversation=upload.conversation,
            reader=upload.reader,
        )
        async with _run_task(services, owner, task, path) as results:
            async for result in results:
                assert isinstance(result, Previewed)
                return result.preview
    raise ApiError(500, "internal server error", "internal")


async def import_session(
    services: Services, owner: str, upload: Upload, session_id: str | None = None
) -> Session:
    """Import a file as a new session; a failed import leaves nothing behind."""
    async with _saved_upload(upload) as path:
        await services.storage.require_space(owner, path.stat().st_size)
        session_id = session_id or services.clock.name("sess")
        task = ImportTask(
            path=str(path),
            limits=services.config.limits,
            now=services.clock.now(),
            conversation=upload.conversation,
            reader=upload.reader,
            owner=owner,
            session_id=session_id,
            name=upload.name,
        )
        pending = PendingSessions(services.store, PENDING_KEY)
        is_begun = False
        try:
            async with _run_task(services, owner, task, path) as results:
                async for result in results:
                    if isinstance(result, ImportBatch):
                        if not is_begun:
                            is_begun = True
                            await pending.add(session_id, owner)
                        await _write_batch(services, result)
                    elif isinstance(result, ImportedFiles):
                        await _restore_files(services, session_id, path, result.files)
            stored = await services.store.session(owner, session_id)
        except BaseException:
            if is_begun:
                await _undo_import(services, owner, session_id)
            raise
        finally:
            await pending.remove(session_id)
    if stored is None:
        raise not_found()  # deleted meanwhile
    return from_builtins(msgspec.json.decode(stored.body), Session)


async def _write_batch(services: Services, batch: ImportBatch) -> None:
    """Store one batch of a session that nobody else writes to, and announce it."""
    # Blobs come before the entries that refer to them. Those of an entry that is never written are
    # swept later.
    for blob in batch.blobs:
        await services.store.put_blob(blob.data, blob.media_type)
    await services.journal.append_foreign(batch.write)


async def remove_interrupted_imports(services: Services) -> int:
    """Remove sessions whose import was interrupted by a crash; returns their number."""
    pending = PendingSessions(services.store, PENDING_KEY)
    is_shared_store = services.config.database is not None
    count = 0
    for session_id, owner in (await pending.take_over()).items():
        if is_shared_store and await _is_recently_updated(services, owner, session_id):
            continue  # another node may be importing it
        await _undo_import(services, owner, session_id)
        await pending.remove(session_id)
        count += 1
    return count


async def _is_recently_updated(services: Services, owner: str, session_id: str) -> bool:
    stored = await services.store.session(owner, session_id)
    if stored is None:
        return False
    return stored.updated_at > services.clock.now(plus=-_ABANDONED_SECONDS)


@contextlib.asynccontextmanager
async def _saved_upload(upload: Upload) -> AsyncIterator[Path]:
    """Save an upload in an empty folder, so that readers find no related files next to it."""
    with _temporary_folder() as folder:
        path = folder / sanitize_filename(upload.filename)
        await asyncio.to_thread(_save_stream, upload.stream, path)
        yield path


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="open-token-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _save_stream(stream: BinaryIO, path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, _CHUNK_SIZE)


async def _restore_files(
    services: Services, session_id: str, path: Path, files: list[bundle.BundleFile]
) -> None:
    """Extract the files of a bundle; the workspace checks every path once more."""
    if not files:
        return
    workspace = services.workspaces.get(session_id)
    with zipfile.ZipFile(path) as archive:
        for file in files:
            await asyncio.to_thread(bundle.extract_file, archive, file, workspace.write)


async def _undo_import(services: Services, owner: str, session_id: str) -> None:
    await services.store.delete_session(owner, session_id)
    services.journal.evict(session_id)
    with contextlib.suppress(ApiError):
        await asyncio.to_thread(services.workspaces.remove, session_id)
