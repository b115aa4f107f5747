"""Skills of a session: the built-in one, those of the operator, and uploaded ones."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from open_token.library import skills as shipped
from open_token.server.config import ServerConfig
from open_token.server.core.workspace import Workspace
from open_token.server.core.workspace_fs import split_path, temporary_name
from open_token.server.errors import ApiError, bad_request
from open_token.session import SessionState

UPLOAD_FOLDER = ".skills"
"""The workspace folder of uploaded skills; commands can run the files in it."""
MAIN_FILE = "SKILL.md"
SKILL_TOOL = "Skill"
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}(/[a-z0-9][a-z0-9-]{0,63})?")
_FRONT_MATTER_KEY = re.compile(r"([A-Za-z_][\w-]*):(?:\s+(.*)|$)")
_BLOCK_SCALAR = re.compile(r"[|>][+-]?")
_MAX_FILES = 200
_MAX_SKILLS = 100
_MAX_TEXT_BYTES = 200_000
_MAX_DESCRIPTION = 1024


class Skill(Struct, frozen=True, kw_only=True):
    """A folder with instructions that an agent reads on demand."""

    name: str
    description: str
    source: str
    files: Workspace
    folder: str = ""
    """The path of the skill in `files`."""

    def read(self, path: str = MAIN_FILE) -> str:
        """Return a text file of the skill."""
        full_path = f"{self.folder}/{path}" if self.folder else path
        with self.files.opened(full_path) as (file, _):
            data = file.read(_MAX_TEXT_BYTES + 1)
        if len(data) > _MAX_TEXT_BYTES:
            raise bad_request(f"skill file exceeds {_MAX_TEXT_BYTES} bytes", "too_big")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise bad_request("not a text file", "no_text") from None

    def paths(self) -> list[str]:
        """Return the paths of the skill's files."""
        prefix = f"{self.folder}/" if self.folder else ""
        files = (entry for entry in self.files.files(self.folder) if entry.type == "file")
        return [entry.path[len(prefix) :] for entry in itertools.islice(files, _MAX_FILES)]


def find_skills(config: ServerConfig, workspace: Workspace | None = None) -> dict[str, Skill]:
    """Return the skills of a session by name; without a workspace, those of every session.

    An uploaded skill replaces one of the operator; the built-in one cannot be replaced."""
    found: dict[str, Skill] = {}
    for skill in _find_configured(config.skills):
        found[skill.name] = skill
    if workspace is not None:
        for skill in _find_uploaded(workspace):
            found[skill.name] = skill
    skills = dict(sorted(found.items())[:_MAX_SKILLS])
    built_in = _load_skill(
        Workspace(shipped.get_skill_folder()), "", shipped.SKILL_NAME, "built-in"
    )
    if built_in is not None:
        skills[built_in.name] = built_in
    return skills


def search_skills(skills: Mapping[str, Skill], query: str) -> list[Skill]:
    """Return the skills whose name or description has a word of the query, the best first."""
    words = set(_WORD.findall(query.lower()))
    scores: list[tuple[int, str]] = []
    for name, skill in skills.items():
        known = set(_WORD.findall(f"{name} {skill.description}".lower()))
        score = len(words & known)
        if score:
            scores.append((-score, name))
    return [skills[name] for _, name in sorted(scores)]


def install_skill(workspace: Workspace, skill: Skill) -> tuple[int, bool]:
    """Copy a skill of the server into a session; return its files and whether it replaced one."""
    files: dict[str, tuple[bytes, bool]] = {}
    for path in skill.paths():
        full_path = f"{skill.folder}/{path}" if skill.folder else path
        files[path] = (skill.files.read(full_path), False)
    return len(files), store_skill(workspace, skill.name, files)


def count_skill_calls(state: SessionState) -> dict[str, int]:
    """Return how often each skill was loaded on the current branch of a session."""
    counts: Counter[str] = Counter()
    for turn in state.path:
        for calling in turn.calls.values():
            call = calling.snapshot()
            if call.tool_name != SKILL_TOOL or call.status != "done":
                continue
            with contextlib.suppress(msgspec.DecodeError):
                arguments = msgspec.json.decode(call.arguments or "{}")
                if isinstance(arguments, dict):
                    name = arguments.get("name", arguments.get("skill"))
                    counts[str(name)] += 1
    return dict(sorted(counts.items()))


def store_skill(workspace: Workspace, name: str, files: Mapping[str, tuple[bytes, bool]]) -> bool:
    """Store an uploaded skill atomically; returns whether it replaced one.

    `files` maps paths to content and whether the file is executable."""
    if not _NAME.fullmatch(name):
        raise bad_request(
            "name must consist of lower-case letters, digits and hyphens, "
            "with at most one slash in it"
        )
    if name == shipped.SKILL_NAME:
        raise bad_request("this name is reserved for the built-in skill")
    if MAIN_FILE not in files:
        raise bad_request(f"a skill needs a file {MAIN_FILE}")
    if len(files) > _MAX_FILES:
        raise bad_request(f"a skill may have at most {_MAX_FILES} files")
    # Written next to its place and renamed when it is complete: a crash in between leaves the old
    # skill, or none, but never half of the new one.
    target = f"{UPLOAD_FOLDER}/{name}"
    parent, _, last = target.rpartition("/")
    temporary = f"{parent}/{temporary_name()}"
    try:
        for path, (data, is_executable) in files.items():
            full_path = "/".join((temporary, *split_path(path)))
            workspace.write(full_path, data, executable=is_executable)
        is_replaced = _delete_if_exists(workspace, target)
        workspace.rename(temporary, last)
    except BaseException:
        _delete_if_exists(workspace, temporary)
        raise
    return is_replaced


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split a SKILL.md into the values of its front matter and the body."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}, text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            values = dict(_parse_values(lines[1:number]))
            body = "\n".join(lines[number + 1 :]).strip("\n")
            return values, f"{body}\n"
    return {}, text


def _parse_values(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield top-level keys: a plain or quoted string, possibly continued on indented lines.

    This is the subset of YAML that skills use."""
    key = ""
    parts: list[str] = []
    for line in lines:
        match = _FRONT_MATTER_KEY.match(line)
        if match is None:
            parts.append(line.strip())
            continue
        if key:
            yield key, _join_value(parts)
        key = match[1]
        first = (match[2] or "").strip()
        parts = [] if _BLOCK_SCALAR.fullmatch(first) else [first]
    if key:
        yield key, _join_value(parts)


def _join_value(parts: list[str]) -> str:
    text = " ".join(part for part in parts if part)
    for quote in ('"', "'"):
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            return text[1:-1]
    return text


def _find_configured(folders: tuple[Path, ...]) -> Iterator[Skill]:
    """Yield the skills of the operator: a configured folder is a skill, or contains some."""
    for folder in folders:
        files = Workspace(folder)
        skill = _load_skill(files, "", folder.name, "server")
        if skill is not None:
            yield skill
        else:
            yield from _find_below(files, "", "server")


def _find_uploaded(workspace: Workspace) -> Iterator[Skill]:
    for name in _list_folders(workspace, UPLOAD_FOLDER):
        path = f"{UPLOAD_FOLDER}/{name}"
        skill = _load_skill(workspace, path, name, "session")
        if skill is not None:
            yield skill
        else:
            yield from _find_below(workspace, path, "session", f"{name}/")


def _find_below(files: Workspace, folder: str, source: str, prefix: str = "") -> Iterator[Skill]:
    for name in _list_folders(files, folder):
        path = f"{folder}/{name}" if folder else name
        skill = _load_skill(files, path, f"{prefix}{name}", source)
        if skill is not None:
            yield skill


def _list_folders(files: Workspace, folder: str) -> list[str]:
    try:
        return [entry.name for entry in files.list(folder) if entry.is_dir]
    except ApiError:
        return []


def _load_skill(files: Workspace, folder: str, name: str, source: str) -> Skill | None:
    """Load a skill; None when the folder has no readable SKILL.md."""
    skill = Skill(name=name, description="", source=source, files=files, folder=folder)
    try:
        front_matter, body = split_front_matter(skill.read())
    except ApiError:
        return None
    declared_name = front_matter.get("name", "")
    if source == "server" and _NAME.fullmatch(declared_name):
        name = declared_name
    description = front_matter.get("description") or _first_line(body)
    return Skill(
        name=name,
        description=description[:_MAX_DESCRIPTION],
        source=source,
        files=files,
        folder=folder,
    )


def _first_line(body: str) -> str:
    for line in body.splitlines():
        if line.strip():
            return line.strip("# ")
    return ""


def _delete_if_exists(workspace: Workspace, path: str) -> bool:
    try:
        workspace.delete(path)
    except ApiError as problem:
        if problem.status != 404:
            raise
        return False
    return True
