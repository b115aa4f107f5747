"""Glob: files of the workspace by pattern."""

from typing import Annotated, Any

from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, in_thread, parameters, take
from open_token.server.agent.tools._patterns import compiled, path_pattern, wants_hidden
from open_token.server.agent.tools.interface import Json, Place
from open_token.server.workspace import Workspace

MOST_FILES = 1000


class GlobArguments(Arguments, frozen=True, kw_only=True):
    """Which files."""

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
        description="List the files of the workspace whose path matches a pattern, by name. Hidden folders are looked "
        "into when the pattern names them.",
        parameters=parameters(GlobArguments),
        display_name="Find files",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """The paths, and how many there are in all."""
        asked = take(GlobArguments, arguments)
        pattern = compiled(path_pattern(asked.pattern))
        return await in_thread(_found, place.workspace, asked, pattern)


def _found(workspace: Workspace, asked: GlobArguments, pattern: Any) -> Json:
    start = len("/".join(part for part in asked.path.split("/") if part not in ("", ".")))
    hidden = wants_hidden(asked.pattern)
    found = []
    for entry in workspace.files(asked.path):
        name = entry.path[start + 1 if start else 0 :]
        if entry.type == "file" and (hidden or not wants_hidden(name)) and pattern.fullmatch(name):
            found.append(entry.path)
    found.sort()
    answer: Json = {"files": found[:MOST_FILES], "count": len(found)}
    if len(found) > MOST_FILES:
        answer["truncated"] = True
    return answer
