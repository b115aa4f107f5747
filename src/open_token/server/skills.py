"""The skills that a session has: the one we ship, the operator's folders, and what clients uploaded
to it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from open_token.locallib import skills as shipped
from open_token.server._paths import parts_of
from open_token.server._tree import fresh_name
from open_token.server.config import ServerConfig
from open_token.server.refusals import Refused, bad
from open_token.server.workspace import Workspace

UPLOADED = ".skills"
"""The folder of the workspace in which uploaded skills lie, so that commands can run what comes
with them."""
MAIN = "SKILL.md"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}(/[a-z0-9][a-z0-9-]{0,63})?")
_MOST_FILES = 200
_MOST_SKILLS = 100
_MOST_TEXT = 200_000
_MOST_DESCRIPTION = 1024


class Skill(Struct, frozen=True, kw_only=True):
    """A folder with instructions that are read when they are needed."""

    name: str
    description: str
    source: str
    files: Workspace
    folder: str = ""
    """Where it lies in `files`."""

    def read(self, path: str = MAIN) -> str:
        """A text of the skill's."""
        with self.files.opened(f"{self.folder}/{path}" if self.folder else path) as (file, _):
            data = file.read(_MOST_TEXT + 1)
        if len(data) > _MOST_TEXT:
            raise bad(f"a text of a skill has at most {_MOST_TEXT} bytes", "too_big")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise bad("this is no text", "no_text") from None

    def paths(self) -> list[str]:
        """The files that come with it."""
        start = len(self.folder) + 1 if self.folder else 0
        listed = (
            entry.path[start:] for entry in self.files.files(self.folder) if entry.type == "file"
        )
        return [path for path, _ in zip(listed, range(_MOST_FILES), strict=False)]


def skills_of(config: ServerConfig, workspace: Workspace) -> dict[str, Skill]:
    """All skills of a session by name; an uploaded one takes the place of the operator's, nothing
    that of ours."""
    found = {skill.name: skill for skill in [*_configured(config.skills), *_uploaded(workspace)]}
    found = dict(sorted(found.items())[:_MOST_SKILLS])
    ours = _found(Workspace(shipped.folder()), "", shipped.NAME, "built-in")
    return {**found, ours.name: ours} if ours else found


def store_skill(workspace: Workspace, name: str, files: Mapping[str, tuple[bytes, bool]]) -> bool:
    """Put a skill into a workspace, whole or not at all; tells whether one of that name was
    replaced."""
    if not _NAME.fullmatch(name):
        raise bad(
            "name is lower-case letters, digits and hyphens, or two such words with a slash between"
        )
    if name == shipped.NAME:
        raise bad("this name belongs to the skill that the server brings along")
    if MAIN not in files:
        raise bad(f"a skill has a file {MAIN}")
    if len(files) > _MOST_FILES:
        raise bad(f"a skill has at most {_MOST_FILES} files")
    folder, _, last = f"{UPLOADED}/{name}".rpartition("/")
    part = f"{folder}/{fresh_name()}"
    try:
        for path, (data, is_executable) in files.items():
            workspace.write("/".join((part, *parts_of(path))), data, executable=is_executable)
        is_replaced = _took_away(workspace, f"{UPLOADED}/{name}")
        workspace.rename(part, last)
    except BaseException:
        _took_away(workspace, part)
        raise
    return is_replaced


def split_front(text: str) -> tuple[dict[str, str], str]:
    """The plain values at the head of a SKILL.md, and what stands below; a head that is none is
    text."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        return {}, text
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    return dict(_values(lines[1:end])), "\n".join(lines[end + 1 :]).strip("\n") + "\n"


def _values(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Keys of the first level: a plain or quoted text, or one that goes on in lines that stand
    further in."""
    key, words = "", [""]
    for line in [*lines, "end:"]:
        found = re.match(r"([A-Za-z_][\w-]*):(?:\s+(.*)|$)", line)
        if not found:
            words.append(line.strip())
            continue
        if key:
            yield key, _unquoted(" ".join(word for word in words if word))
        key, first = found[1], (found[2] or "").strip()
        words = ["" if re.fullmatch(r"[|>][+-]?", first) else first]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _configured(folders: tuple[Path, ...]) -> Iterator[Skill]:
    """The operator's: a folder is a skill, or holds some."""
    for place in folders:
        files = Workspace(place)
        if skill := _found(files, "", place.name, "server"):
            yield skill
            continue
        yield from _below(files, "", "server")


def _uploaded(workspace: Workspace) -> Iterator[Skill]:
    for name in _folders(workspace, UPLOADED):
        path = f"{UPLOADED}/{name}"
        if skill := _found(workspace, path, name, "session"):
            yield skill
        else:
            yield from _below(workspace, path, "session", f"{name}/")


def _below(files: Workspace, folder: str, source: str, prefix: str = "") -> Iterator[Skill]:
    for name in _folders(files, folder):
        if skill := _found(
            files, f"{folder}/{name}" if folder else name, f"{prefix}{name}", source
        ):
            yield skill


def _folders(files: Workspace, folder: str) -> list[str]:
    try:
        return [entry.name for entry in files.list(folder) if entry.is_dir]
    except Refused:
        return []


def _found(files: Workspace, folder: str, name: str, source: str) -> Skill | None:
    skill = Skill(name=name, description="", source=source, files=files, folder=folder)
    try:
        front, body = split_front(skill.read())
    except Refused:
        return None
    first = next((line.strip("# ") for line in body.splitlines() if line.strip()), "")
    known = front.get("name", "") if source == "server" else ""
    description = (front.get("description") or first)[:_MOST_DESCRIPTION]
    name = known if _NAME.fullmatch(known) else name
    return Skill(name=name, description=description, source=source, files=files, folder=folder)


def _took_away(workspace: Workspace, path: str) -> bool:
    try:
        workspace.delete(path)
    except Refused as refused:
        if refused.status != 404:
            raise
        return False
    return True
