"""A folder as one string of bytes, so that a conversation of several files is one input like any
other."""

import re
import shutil
from pathlib import Path

START = b"\x1e"
WHOLE = "."
"""The name that comes first when it is the folder itself that is opened."""
_NAME = re.compile(rb"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*(?:/[A-Za-z0-9][\w-]*(?:\.[\w-]+)*){0,8}")


def pack(files: dict[str, bytes]) -> bytes:
    """The first file is the one that is opened; the others are its neighbours."""
    return b"".join(START + name.encode() + b"\n" + data for name, data in files.items())


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of such a string; none when it is an ordinary input."""
    files: dict[str, bytes] = {}
    for part in data.split(START)[1:] if data.startswith(START) else ():
        name, _, content = part.partition(b"\n")
        if len(name) < 200 and _NAME.fullmatch(name):
            files[name.decode()] = content
    if files and data.startswith(START + WHOLE.encode() + b"\n"):
        return {WHOLE: b"", **files}
    return files


def lay_out(files: dict[str, bytes], root: Path) -> Path:
    """Write the files into an empty folder and give the path of the first one, or that of the
    folder."""
    shutil.rmtree(root, ignore_errors=True)
    laid = []
    for name, content in files.items():
        path = root / name
        if name == WHOLE:
            root.mkdir(parents=True)
            laid.append(root)
            continue
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        laid.append(path)
    return laid[0]
