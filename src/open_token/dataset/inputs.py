"""What a dataset is made of: files, folders, patterns, archives and URLs, in a fixed order.

A URL is anything that fsspec opens (`s3://`, `gs://`, `hf://`, ...). Files are found when a dataset
is planned, and opened by the process that works on their shard.
"""

import contextlib
import glob
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import msgspec

from open_token.errors import InputError, UsageError
from open_token.registry import detect_format, load_reader
from open_token.sources.source import Source

_IGNORED_FOLDERS = frozenset((".git", "node_modules", ".venv", "__pycache__"))
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_ZIP_SUFFIX = ".zip"
_PATTERN_CHARACTERS = "*?["
_MAX_MEMBERS = 1_000_000
_MAX_MEMBER_BYTES = 1 << 32
_COPY_BYTES = 1 << 20


class Input(msgspec.Struct, frozen=True):
    """One file, archive, folder or URL that holds conversations."""

    location: str
    """A path or a URL."""
    name: str
    """How the dataset and its messages name it: below what the user named."""
    bytes: int = 0
    stamp: str = ""
    """Changes when the file changes."""
    is_folder: bool = False


def is_url(text: str) -> bool:
    """Return whether a source or an output is a URL and not a path."""
    return "://" in text or "::" in text


def find_inputs(sources: list[str], cwd: Path) -> list[Input]:
    """Return every input that the sources name, each once, sorted by name within its source."""
    found: dict[str, Input] = {}
    for text in sources:
        for item in _expand(text, cwd):
            found.setdefault(item.location, item)
    return list(found.values())


def _expand(text: str, cwd: Path) -> Iterator[Input]:
    if is_url(text):
        yield from _expand_url(text)
        return
    path = cwd / os.path.expanduser(text)
    if path.is_dir():
        yield from _expand_folder(path)
    elif path.exists():
        yield _create_input(path, path.name)
    elif any(character in text for character in _PATTERN_CHARACTERS):
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise InputError("no file matches this pattern", where=text, help="check the pattern")
        root = _find_fixed_root(path)
        for match in files:
            yield _create_input(match, match.relative_to(root).as_posix())
    else:
        raise InputError("there is no such file or folder", where=text, help="check the path")


def _find_fixed_root(pattern: Path) -> Path:
    """Return the part of a pattern before the first component with a special character."""
    root = Path(pattern.anchor)
    for part in pattern.parts[1:-1]:
        if any(character in part for character in _PATTERN_CHARACTERS):
            break
        root /= part
    return root


def _expand_folder(folder: Path) -> Iterator[Input]:
    """Yield the folder itself if it is one conversation for a reader, else the files in it."""
    with contextlib.suppress(InputError):
        detect_format(Source.of_folder(folder))
        yield Input(str(folder), folder.name, is_folder=True)
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _IGNORED_FOLDERS)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file():
                yield _create_input(path, path.relative_to(folder).as_posix())


def _create_input(path: Path, name: str) -> Input:
    status = path.stat()
    # Names that are not Unicode cannot be stored in a dataset.
    readable = os.fsencode(name).decode("utf-8", "replace")
    stamp = f"{status.st_size}-{status.st_mtime_ns}"
    return Input(str(path), readable, status.st_size, stamp)


def _expand_url(url: str) -> Iterator[Input]:
    filesystem, path = open_filesystem(url)
    if any(character in path for character in _PATTERN_CHARACTERS):
        paths = filesystem.glob(path)
    elif filesystem.isdir(path):
        paths = filesystem.find(path)
    elif filesystem.exists(path):
        paths = [path]
    else:
        raise InputError("there is no such file or folder", where=url, help="check the URL")
    for name in sorted(paths):
        facts = filesystem.info(name)
        if facts.get("type") == "directory":
            continue
        stamp = str(facts.get("ETag") or facts.get("mtime") or facts.get("LastModified") or "")
        location = filesystem.unstrip_protocol(name)
        yield Input(location, str(name), int(facts.get("size") or 0), stamp)


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path within it."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            "URLs need the package fsspec", help='pip install "open-token-cli[dataset]"'
        ) from None
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as problem:
        raise UsageError(
            "this URL cannot be opened",
            where=url,
            help=f"{type(problem).__name__}: is the fsspec package of this protocol installed?",
        ) from None


def open_sources(item: Input) -> Iterator[tuple[str, Source]]:
    """Yield every source of an input with its name; the members of an archive one after the other."""
    if item.is_folder:
        yield item.name, Source.of_folder(Path(item.location), item.name)
    elif is_url(item.location):
        with _download(item) as path:
            yield from _open_file(path, item.name)
    else:
        yield from _open_file(Path(item.location), item.name)


@contextlib.contextmanager
def _download(item: Input) -> Iterator[Path]:
    """Copy a remote file to a temporary one, which keeps its suffix."""
    filesystem, path = open_filesystem(item.location)
    suffix = "".join(PurePosixPath(item.name).suffixes[-2:])
    with tempfile.TemporaryDirectory(prefix="open-token-") as folder:
        target = Path(folder, f"source{suffix}")
        with filesystem.open(path, "rb") as stream, target.open("wb") as out:
            shutil.copyfileobj(stream, out, _COPY_BYTES)
        yield target


def _open_file(path: Path, name: str) -> Iterator[tuple[str, Source]]:
    lower = name.lower()
    if lower.endswith(_TAR_SUFFIXES):
        yield from _open_tar(path, name)
    elif lower.endswith(_ZIP_SUFFIX) and not _is_conversation(path):
        yield from _open_zip(path, name)
    else:
        yield name, Source.of(path, name)


def _is_conversation(path: Path) -> bool:
    """Return whether a reader knows an archive as one export, such as that of a chat product."""
    try:
        detect_format(Source.of(path))
    except InputError:
        return False
    return True


def _open_tar(path: Path, name: str) -> Iterator[tuple[str, Source]]:
    try:
        # A stream: members are read once, in order, and none is extracted under its own name.
        with tarfile.open(path, "r|*") as archive:
            for number, member in enumerate(archive):
                _check_member(number, member.size, name)
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield from _open_member(stream, f"{name}/{member.name}")  # type: ignore[arg-type]
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise _cannot_unpack(name, problem) from None


def _open_zip(path: Path, name: str) -> Iterator[tuple[str, Source]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for number, member in enumerate(archive.infolist()):
                _check_member(number, member.file_size, name)
                if not member.is_dir():
                    with archive.open(member) as stream:
                        yield from _open_member(stream, f"{name}/{member.filename}")  # type: ignore[arg-type]
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as problem:
        raise _cannot_unpack(name, problem) from None


def _open_member(stream: BinaryIO, name: str) -> Iterator[tuple[str, Source]]:
    if not _is_ignored(name):
        yield name, Source.of_stream(stream, name)


def _is_ignored(name: str) -> bool:
    return any(part in _IGNORED_FOLDERS for part in PurePosixPath(name).parts)


def _check_member(number: int, size: int, name: str) -> None:
    if number >= _MAX_MEMBERS or size > _MAX_MEMBER_BYTES:
        raise InputError(
            "this archive is larger than what is unpacked",
            where=name,
            help="unpack it and name the folder",
            code="input.archive-large",
        )


def _cannot_unpack(name: str, problem: Exception) -> InputError:
    return InputError(
        f"this archive cannot be read ({type(problem).__name__})",
        where=name,
        help="check that it is complete, or unpack it and name the folder",
        code="input.archive",
    )


def is_part_of_session(reader: str, name: str) -> bool:
    """Return whether a file belongs to a session in another file, such as that of a subagent."""
    patterns = load_reader(reader).definition.part_files
    path = PurePosixPath(name)
    return any(path.match(pattern) or fnmatch(name, pattern) for pattern in patterns)
