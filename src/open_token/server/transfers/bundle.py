"""Session bundles: a zip with the document in both forms and the files of the workspace.

Uploaded bundles are untrusted: sizes, paths and member types are checked before anything is
extracted."""

import lzma
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO

from msgspec import Struct

from open_token.context import Context
from open_token.pipeline import export
from open_token.server.config import Limits
from open_token.server.errors import ApiError, bad_request
from open_token.sources.origin import ZIP
from open_token.sources.source import Source

DOCUMENT = "session.open-token.json"
EVENTS = "events.ndjson"
FILES = "workspace/"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_CHUNK_SIZE = 1 << 18
_MAX_MEMBERS = 20_000
_MAX_EXPANSION = 8
"""The unpacked size of a zip, as a multiple of the upload limit."""
_MAX_DEPTH = 32
_MAX_PATH_LENGTH = 1024
_MAX_NAME_BYTES = 255
_UNPORTABLE = re.compile(r"[\x00-\x1f\x7f\\]|^[A-Za-z]:")
_DAMAGE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
    lzma.LZMAError,
)


def write_bundle(source: Source, files: Path | None, out: BinaryIO, context: Context) -> None:
    """Write the bundle of a session, with the files of its workspace if it has one of its own; the
    same log and files give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, mode in ((DOCUMENT, "json"), (EVENTS, "ndjson")):
            is_pretty = context.options.pretty and mode == "json"
            options = context.options.changed(mode=mode, pretty=is_pretty)
            with archive.open(_build_member(name), "w", force_zip64=True) as member:
                export(source, member, replace(context, options=options), "session_server")  # type: ignore[arg-type]
        if files is None:
            return
        for path in _list_files(files):
            # Names on disk may be any bytes; names in a zip are UTF-8.
            relative = os.fsencode(path.relative_to(files).as_posix())
            _add_file(archive, path, relative.decode("utf-8", "replace"))


def _build_member(name: str, mode: int = 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIXED_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | mode) << 16
    return info


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files of a workspace, sorted; links are neither followed nor included."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _add_file(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    """Add a file; one that was deleted meanwhile is left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        is_executable = os.fstat(descriptor).st_mode & 0o100
        info = _build_member(FILES + name, 0o755 if is_executable else 0o644)
        with archive.open(info, "w", force_zip64=True) as member:
            shutil.copyfileobj(stream, member, _CHUNK_SIZE)


class BundleFile(Struct, frozen=True):
    """A workspace file inside a bundle."""

    path: str
    member: str


@dataclass
class Bundle:
    """A checked bundle: its document is extracted, its files are still in the zip."""

    document: Path
    files: list[BundleFile]
    warnings: list[str]


def open_bundle(path: Path, limits: Limits) -> Bundle | None:
    """Check an upload and extract its document; None when it is not one of our bundles.

    Any zip that exceeds the limits is rejected."""
    with path.open("rb") as stream:
        if stream.read(4) != ZIP:
            return None
    try:
        with zipfile.ZipFile(path) as archive:
            return _open_archive(archive, path, limits)
    except _DAMAGE_ERRORS:
        raise _damaged() from None


def _open_archive(archive: zipfile.ZipFile, path: Path, limits: Limits) -> Bundle | None:
    members = archive.infolist()
    _check_sizes(members, limits)
    names = [member.filename for member in members]
    if DOCUMENT not in names:
        return None
    # NDJSON is preferred: it is read as a stream.
    document = EVENTS if EVENTS in names else DOCUMENT
    workspace = [
        member for member in members if member.filename.startswith(FILES) and not member.is_dir()
    ]
    files = list(_check_workspace(workspace, limits))
    suffix = "ndjson" if document == EVENTS else "json"
    target = path.with_name(f"{path.name}.{suffix}")
    _extract(archive, document, target)

    warnings = []
    unknown = [
        name for name in names if name not in (DOCUMENT, EVENTS) and not name.startswith(FILES)
    ]
    if unknown:
        warnings.append(f"unknown zip members ignored: {len(unknown)}")
    unportable = len(workspace) - len(files)
    if unportable:
        warnings.append(f"zip members with unportable names ignored: {unportable}")
    return Bundle(target, files, warnings)


def extract_file(
    archive: zipfile.ZipFile, file: BundleFile, write: Callable[[str, IO[bytes]], None]
) -> None:
    """Pass a workspace file to `write` as a stream: unpacked it may be huge."""
    try:
        with archive.open(file.member) as stream:
            write(file.path, stream)
    except ApiError:
        raise
    except _DAMAGE_ERRORS:
        raise _damaged() from None


def _damaged() -> ApiError:
    return bad_request("the zip is damaged or truncated", "input.zip")


def _check_sizes(members: list[zipfile.ZipInfo], limits: Limits) -> None:
    """Reject what would fill memory or disk; zipfile never reads more than a member declares."""
    if len(members) > _MAX_MEMBERS:
        raise bad_request(f"the zip has more than {_MAX_MEMBERS:,} members", "input.zip")
    if any(member.flag_bits & 1 for member in members):
        raise bad_request("the zip is encrypted; decrypt it first", "input.zip")
    max_member = limits.upload_bytes
    max_total = _MAX_EXPANSION * max_member
    largest = max((member.file_size for member in members), default=0)
    total = sum(member.file_size for member in members)
    if largest > max_member or total > max_total:
        raise ApiError(
            413,
            f"unpacked size exceeds {max_member >> 20} MiB for a member "
            f"or {max_total >> 20} MiB for the zip",
            "too_large",
        )


def _check_workspace(members: list[zipfile.ZipInfo], limits: Limits) -> Iterator[BundleFile]:
    """Yield the workspace files; a link or a path that leaves the workspace rejects the zip."""
    seen: set[str] = set()
    total = 0
    for member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise bad_request("the zip contains a link or a device", "input.zip")
        path = member.filename.removeprefix(FILES)
        if not _is_inside(path):
            raise bad_request(
                "the zip contains a path outside the workspace, or nested too deeply", "input.zip"
            )
        if path in seen:
            raise bad_request("the zip contains a duplicate path", "input.zip")
        if _UNPORTABLE.search(path):
            continue
        seen.add(path)
        total += member.file_size
        if total > limits.workspace_bytes:
            raise ApiError(
                413, f"the workspace exceeds {limits.workspace_bytes >> 20} MiB", "too_large"
            )
        yield BundleFile(path, member.filename)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    if len(parts) > _MAX_DEPTH or len(path) > _MAX_PATH_LENGTH:
        return False
    for part in parts:
        if part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES:
            return False
    return True


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    with archive.open(name) as member, target.open("wb") as out:
        shutil.copyfileobj(member, out, _CHUNK_SIZE)
