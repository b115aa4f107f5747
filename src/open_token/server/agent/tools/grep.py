"""Grep: lines of the workspace's files that match an expression."""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, in_thread, parameters, take
from open_token.server.agent.tools._patterns import compiled, path_pattern, wants_hidden
from open_token.server.agent.tools.interface import Json, Place
from open_token.server.refusals import Refused
from open_token.server.workspace import Workspace

MOST_FILE = 20 << 20
MOST_SECONDS = 20.0
_MOST_LINE = 500


class GrepArguments(Arguments, frozen=True, kw_only=True):
    """What to look for, and where."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=2000, description="A regular expression (RE2).")
    ]
    path: Annotated[
        str, Meta(description="The file or folder to look in; the workspace by default.")
    ] = ""
    glob: Annotated[
        str, Meta(max_length=1000, description="Only files that match, such as *.py.")
    ] = ""
    output_mode: Annotated[
        Literal["content", "files_with_matches", "count"],
        Meta(description="Lines, files, or how many lines each."),
    ] = "content"
    ignore_case: bool = False
    context: Annotated[
        int, Meta(ge=0, le=20, description="Lines around each that are shown too.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many lines or files at most.")] = 200


class Grep:
    """Finds lines by what they say."""

    spec = ToolSpec(
        name="Grep",
        description="Search the text files of the workspace line by line with a regular expression (RE2).",
        parameters=parameters(GrepArguments),
        display_name="Search files",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """What was found, and whether that is all."""
        asked = take(GrepArguments, arguments)
        search = _Search(place.workspace, asked, MOST_SECONDS)
        return await in_thread(search.run)


class _Search:
    """One search, which ends when it has enough or takes too long."""

    def __init__(self, workspace: Workspace, asked: GrepArguments, seconds: float) -> None:
        self._workspace = workspace
        self._asked = asked
        self._until = time.monotonic() + seconds
        self._pattern = compiled(asked.pattern, ignore_case=asked.ignore_case)
        self._names = compiled(path_pattern(asked.glob)) if asked.glob else None
        self._matches: list[Json] = []
        self._counts: dict[str, int] = {}
        self._stopped = ""

    def run(self) -> Json:
        """Look through the files in the order of their names."""
        for path in self._paths():
            if self._stopped:
                break
            self._look_through(path)
        answers: dict[str, Json] = {
            "content": {"matches": self._matches},
            "count": {"counts": self._counts},
        }
        answer = answers.get(self._asked.output_mode, {"files": list(self._counts)})
        return {**answer, "truncated": True, "note": self._stopped} if self._stopped else answer

    def _paths(self) -> Iterator[str]:
        try:
            entries = list(self._workspace.files(self._asked.path))
        except Refused as refused:
            if refused.code not in ("bad_path", "is_folder"):
                raise
            file, _ = self._workspace.open(
                self._asked.path
            )  # not a folder: a file, or refused for good
            file.close()
            yield self._asked.path
            return
        hidden = wants_hidden(self._asked.path) or wants_hidden(self._asked.glob)
        for path in sorted(entry.path for entry in entries if entry.type == "file"):
            if (hidden or not wants_hidden(path)) and self._is_named(path):
                yield path

    def _is_named(self, path: str) -> bool:
        return self._names is None or bool(
            self._names.fullmatch(path) or self._names.fullmatch(path.rpartition("/")[2])
        )

    def _look_through(self, path: str) -> None:
        try:
            with self._workspace.opened(path) as (file, size):
                data = file.read(MOST_FILE) if size <= MOST_FILE else b"\0"
        except Refused:
            return  # gone meanwhile, or closed to us
        if b"\0" in data[:8192]:
            return
        lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        shown = 0
        for number, line in enumerate(lines):
            if number % 1000 == 0 and time.monotonic() > self._until:
                self._stopped = "the search took too long; look in a smaller folder"
            if self._stopped:
                return
            if self._pattern.search(line):
                shown = self._found(path, lines, number, shown)

    def _found(self, path: str, lines: list[str], number: int, shown: int) -> int:
        asked = self._asked
        if asked.output_mode == "content":
            if len(self._matches) >= asked.limit:
                self._stopped = f"there are more than {asked.limit}"
                return shown
            first, last = (
                max(shown, number - asked.context),
                min(len(lines), number + asked.context + 1),
            )
            around = [
                f"{line + 1}: {lines[line][:_MOST_LINE]}"
                for line in range(first, last)
                if asked.context
            ]
            match: Json = {"path": path, "line": number + 1, "text": lines[number][:_MOST_LINE]}
            self._matches.append({**match, "around": around} if around else match)
            return last
        if path not in self._counts and len(self._counts) >= asked.limit:
            self._stopped = f"there are more than {asked.limit} files"
            return shown
        self._counts[path] = self._counts.get(path, 0) + 1
        return shown
