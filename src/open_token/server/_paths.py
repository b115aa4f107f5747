"""What a path inside a workspace may look like, and what the system's refusals mean to the one who
asked."""

import contextlib
import errno
import re
from collections.abc import Iterator

from open_token.server.refusals import Refused

MOST_DEPTH = 64
_MOST_NAME = 240
"""Bytes of one name: what file systems take, less what a file that is being written has in
addition."""
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MEANINGS = {
    errno.ENOENT: (404, "there is no such file", "not_found"),
    errno.ENOTDIR: (400, "a part of that path is no folder", "bad_path"),
    errno.ELOOP: (400, "links are not followed", "bad_path"),
    errno.EISDIR: (400, "that is a folder", "is_folder"),
    errno.ENXIO: (400, "that is no plain file", "bad_path"),
    errno.EEXIST: (409, "there is something of that name already", "exists"),
    errno.ENOTEMPTY: (409, "there is something of that name already", "exists"),
    errno.EACCES: (403, "the workspace does not permit that", "not_permitted"),
    errno.EPERM: (403, "the workspace does not permit that", "not_permitted"),
    errno.ENAMETOOLONG: (400, "that path is too long", "bad_path"),
    errno.ENOSPC: (507, "the disk is full", "disk_full"),
    errno.EDQUOT: (507, "the disk is full", "disk_full"),
    errno.EFBIG: (413, "that file is too big", "too_big"),
}


def bad_path(why: str) -> Refused:
    """A path that cannot be one of a workspace; it is not repeated, it may be anything."""
    return Refused(400, f"this path is not one of the workspace: {why}", "bad_path")


def parts_of(path: str) -> tuple[str, ...]:
    """The names along a path from the workspace's root; none for the root itself."""
    if path.startswith(("/", "\\")):
        raise bad_path("it must be relative")
    parts = tuple(name_of(part) for part in path.split("/") if part not in ("", "."))
    if len(parts) > MOST_DEPTH:
        raise bad_path(f"it is deeper than {MOST_DEPTH} folders")
    return parts


def name_of(name: str) -> str:
    """A name that a file or folder may have; also one that other systems can unpack without
    harm."""
    if name in ("", ".", ".."):
        raise bad_path("it may not step out")
    if "/" in name or "\\" in name or _CONTROL.search(name) or _DRIVE.match(name):
        raise bad_path("a name has characters that names do not have")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise bad_path("a name is not text") from None
    if length > _MOST_NAME:
        raise bad_path(f"a name is longer than {_MOST_NAME} bytes")
    return name


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what the system refuses into what the client is told; nobody learns where the folder
    lies."""
    try:
        yield
    except OSError as problem:
        status, detail, code = _MEANINGS.get(problem.errno or 0, (503, "the disk refused", "disk"))
        raise Refused(status, detail, code) from None
