"""Glob: find files of the workspace by pattern."""

from typing import Annotated, Any

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

MAX_FILES = 1000


class GlobArguments(Arguments, frozen=True, kw_only=True):
    """Which files to find."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1000,
            description="Such as **/*.py or docs/*.{md,txt}; ** is any folders.",
        ),
    ]
    path: Annotated[str, Meta(description="The folder to look in; the workspace by default.")] = ""


class Glob:
    """Finds files by name."""

    spec = ToolSpec(
        name="Glob",
        description="List the files of the workspace whose path matches a pattern, by name. "
        "Hidden folders are looked into when the pattern names them.",
        parameters=build_parameters(GlobArguments),
        display_name="Find files",
    )
    is_idempotent = True
    is_read_only = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return the paths, and the total number of matches."""
        parsed = parse_arguments(GlobArguments, arguments)
        pattern = compile_pattern(translate_glob(parsed.pattern))
        return await run_in_thread(_find_files, context.workspace, parsed, pattern)


def _find_files(workspace: Workspace, parsed: GlobArguments, pattern: Any) -> Json:
    folder = "/".join(part for part in parsed.path.split("/") if part not in ("", "."))
    start = len(folder) + 1 if folder else 0
    with_hidden = includes_hidden(parsed.pattern)
    paths = []
    for entry in workspace.files(parsed.path):
        if entry.type != "file":
            continue
        name = entry.path[start:]
        if (with_hidden or not includes_hidden(name)) and pattern.fullmatch(name):
            paths.append(entry.path)
    paths.sort()
    answer: Json = {"files": paths[:MAX_FILES], "count": len(paths)}
    if len(paths) > MAX_FILES:
        answer["truncated"] = True
    return answer
