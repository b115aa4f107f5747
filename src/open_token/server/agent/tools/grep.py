"""Grep: search the files of the workspace with a regular expression."""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    run_in_thread,
)
from open_token.server.agent.tools.interface import Json, ToolContext
from open_token.server.agent.tools.patterns import compile_pattern, includes_hidden, translate_glob
from open_token.server.core.workspace import Workspace
from open_token.server.errors import ApiError

MAX_FILE = 20 << 20
MAX_SECONDS = 20.0
_MAX_LINE = 500


class GrepArguments(Arguments, frozen=True, kw_only=True):
    """What to search for, and where."""

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
    """Searches the content of files."""

    spec = ToolSpec(
        name="Grep",
        description="Search the text files of the workspace line by line with a regular "
        "expression (RE2).",
        parameters=build_parameters(GrepArguments),
        display_name="Search files",
    )
    is_idempotent = True
    is_read_only = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return the matches, and whether they are complete."""
        parsed = parse_arguments(GrepArguments, arguments)
        search = _Search(context.workspace, parsed, MAX_SECONDS)
        return await run_in_thread(search.run)


class _Search:
    """One search, which stops when it has enough results or takes too long."""

    def __init__(self, workspace: Workspace, parsed: GrepArguments, seconds: float) -> None:
        self._workspace = workspace
        self._arguments = parsed
        self._deadline = time.monotonic() + seconds
        self._pattern = compile_pattern(parsed.pattern, ignore_case=parsed.ignore_case)
        if parsed.glob:
            self._path_pattern = compile_pattern(translate_glob(parsed.glob))
        else:
            self._path_pattern = None
        self._matches: list[Json] = []
        self._counts: dict[str, int] = {}
        self._stopped = ""

    def run(self) -> Json:
        """Search the files in the order of their names."""
        for path in self._list_paths():
            if self._stopped:
                break
            self._search_file(path)
        answers: dict[str, Json] = {
            "content": {"matches": self._matches},
            "count": {"counts": self._counts},
        }
        answer = answers.get(self._arguments.output_mode, {"files": list(self._counts)})
        if self._stopped:
            answer |= {"truncated": True, "note": self._stopped}
        return answer

    def _list_paths(self) -> Iterator[str]:
        try:
            entries = list(self._workspace.files(self._arguments.path))
        except ApiError as refused:
            if refused.code not in ("bad_path", "is_folder"):
                raise
            # Not a folder: a file, or refused finally.
            file, _ = self._workspace.open(self._arguments.path)
            file.close()
            yield self._arguments.path
            return
        hidden = includes_hidden(self._arguments.path) or includes_hidden(self._arguments.glob)
        for path in sorted(entry.path for entry in entries if entry.type == "file"):
            if (hidden or not includes_hidden(path)) and self._matches_glob(path):
                yield path

    def _matches_glob(self, path: str) -> bool:
        pattern = self._path_pattern
        if pattern is None:
            return True
        return bool(pattern.fullmatch(path) or pattern.fullmatch(path.rpartition("/")[2]))

    def _search_file(self, path: str) -> None:
        try:
            with self._workspace.opened(path) as (file, size):
                data = file.read(MAX_FILE) if size <= MAX_FILE else b"\0"
        except ApiError:
            return  # deleted meanwhile, or not readable
        if b"\0" in data[:8192]:
            return
        lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        shown = 0
        for number, line in enumerate(lines):
            if number % 1000 == 0 and time.monotonic() > self._deadline:
                self._stopped = "the search took too long; search a smaller folder"
            if self._stopped:
                return
            if self._pattern.search(line):
                shown = self._add_match(path, lines, number, shown)

    def _add_match(self, path: str, lines: list[str], number: int, shown: int) -> int:
        """Record a match and return how many lines of the file have been shown so far."""
        if self._arguments.output_mode != "content":
            self._count_match(path)
            return shown
        limit = self._arguments.limit
        if len(self._matches) >= limit:
            self._stopped = f"there are more than {limit}"
            return shown
        context = self._arguments.context
        first = max(shown, number - context)
        last = min(len(lines), number + context + 1)
        match: Json = {"path": path, "line": number + 1, "text": lines[number][:_MAX_LINE]}
        if context and first < last:
            match["around"] = [
                f"{index + 1}: {lines[index][:_MAX_LINE]}" for index in range(first, last)
            ]
        self._matches.append(match)
        return last

    def _count_match(self, path: str) -> None:
        limit = self._arguments.limit
        if path not in self._counts and len(self._counts) >= limit:
            self._stopped = f"there are more than {limit} files"
            return
        self._counts[path] = self._counts.get(path, 0) + 1
