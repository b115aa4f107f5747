"""The zip of a session: its document in both forms, and the files of its workspace; read with every
suspicion."""

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
from open_token.server.refusals import Refused, bad
from open_token.sources.origin import ZIP
from open_token.sources.source import Source

DOCUMENT = "session.open-token.json"
EVENTS = "events.ndjson"
FILES = "workspace/"
_MOMENT = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 18
_MOST_MEMBERS = 20_000
_TIMES = 8
"""Of what may be uploaded, so much may be unpacked."""
_DEEPEST = 32
_ODD = re.compile(r"[\x00-\x1f\x7f\\]|^[A-Za-z]:")
_DAMAGED = (
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


def pack(source: Source, files: Path, out: BinaryIO, context: Context) -> None:
    """Write the zip of a session; the same log and files give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, mode in ((DOCUMENT, "json"), (EVENTS, "ndjson")):
            options = context.options.changed(
                mode=mode, pretty=context.options.pretty and mode == "json"
            )
            with made.open(_member(name), "w", force_zip64=True) as member:
                export(source, member, replace(context, options=options), "session_server")  # type: ignore[arg-type]
        for path in _files(files):
            _add(
                made,
                path,
                os.fsencode(path.relative_to(files).as_posix()).decode("utf-8", "replace"),
            )


def _member(name: str, mode: int = 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _MOMENT)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | mode) << 16
    return info


def _files(folder: Path) -> Iterator[Path]:
    """The files of a workspace in order of name; no link is followed and none is taken along."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place) / name
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _add(made: zipfile.ZipFile, path: Path, name: str) -> None:
    """Put one file in; one that was taken away meanwhile is left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as stream:
        mode = 0o755 if os.fstat(descriptor).st_mode & 0o100 else 0o644
        with made.open(_member(FILES + name, mode), "w", force_zip64=True) as member:
            while piece := stream.read(_PIECE):
                member.write(piece)


class File(Struct, frozen=True):
    """A file of the workspace that a zip holds."""

    path: str
    member: str


@dataclass
class Bundle:
    """A zip of ours that was looked through: the document lies on the disk, the files are still
    inside."""

    document: Path
    files: list[File]
    warnings: list[str]


def opened(path: Path, limits: Limits) -> Bundle | None:
    """Look through an upload; None when it is no zip, or another's. No zip may hold more than the
    bounds allow."""
    with path.open("rb") as stream:
        if stream.read(4) != ZIP:
            return None
    try:
        with zipfile.ZipFile(path) as held:
            infos = held.infolist()
            _bounded(infos, limits)
            names = [info.filename for info in infos]
            document = next((name for name in (EVENTS, DOCUMENT) if name in names), None)
            if DOCUMENT not in names or document is None:
                return None
            inside = [
                info for info in infos if info.filename.startswith(FILES) and not info.is_dir()
            ]
            files = list(_workspace(inside, limits))
            target = path.with_name(f"{path.name}.{'ndjson' if document == EVENTS else 'json'}")
            _extract(held, document, target)
    except _DAMAGED:
        raise bad("the zip is damaged or cut off", "input.zip") from None
    others = len(
        [name for name in names if name not in (DOCUMENT, EVENTS) and not name.startswith(FILES)]
    )
    left = {
        "are not ours": others,
        "have names that not every system allows": len(inside) - len(files),
    }
    return Bundle(
        target,
        files,
        [f"members of the zip that {why}: {count}" for why, count in left.items() if count],
    )


def unpack(held: zipfile.ZipFile, file: File, write: Callable[[str, IO[bytes]], None]) -> None:
    """Hand one file of the workspace on as a stream: unpacked it may be a thousand times as large
    as it is packed."""
    try:
        with held.open(file.member) as stream:
            write(file.path, stream)
    except Refused:
        raise
    except _DAMAGED:
        raise bad("the zip is damaged or cut off", "input.zip") from None


def _bounded(infos: list[zipfile.ZipInfo], limits: Limits) -> None:
    """Refuse what would fill memory or disk; no member gives more than it declares."""
    if len(infos) > _MOST_MEMBERS:
        raise bad(f"the zip has more than {_MOST_MEMBERS:,} members", "input.zip")
    if any(info.flag_bits & 1 for info in infos):
        raise bad("the zip is encrypted; unpack it with its password", "input.zip")
    most = limits.upload_bytes
    if (
        any(info.file_size > most for info in infos)
        or sum(info.file_size for info in infos) > _TIMES * most
    ):
        raise Refused(
            413,
            f"unpacked, a member may be {most >> 20} MiB and the zip {_TIMES * most >> 20} MiB",
            "too_large",
        )


def _workspace(infos: list[zipfile.ZipInfo], limits: Limits) -> Iterator[File]:
    """The files of the workspace; a path that could lead out of it, or a link, refuses the
    whole."""
    seen: set[str] = set()
    total = 0
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise bad(
                "the zip holds a link or a device; a workspace has only files and folders",
                "input.zip",
            )
        path = info.filename.removeprefix(FILES)
        if not _is_inside(path):
            raise bad(
                "the zip holds a path that leads out of the workspace, or too deep into it",
                "input.zip",
            )
        if path in seen:
            raise bad("the zip holds a path twice", "input.zip")
        if _ODD.search(path):
            continue
        seen.add(path)
        total += info.file_size
        if total > limits.workspace_bytes:
            raise Refused(
                413, f"a workspace may have {limits.workspace_bytes >> 20} MiB", "too_large"
            )
        yield File(path, info.filename)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    odd = any(
        part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > 255 for part in parts
    )
    return not odd and len(parts) <= _DEEPEST and len(path) <= 1024


def _extract(held: zipfile.ZipFile, name: str, target: Path) -> None:
    with held.open(name) as member, target.open("wb") as out:
        shutil.copyfileobj(member, out, _PIECE)
