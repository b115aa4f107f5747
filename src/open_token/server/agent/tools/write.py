"""Write: write a whole file into the workspace."""

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
from open_token.server.core.workspace import publish_files_changed


class WriteArguments(Arguments, frozen=True, kw_only=True):
    """What to write, and where."""

    file_path: Annotated[
        str, Meta(description="The file, relative to the workspace; folders are made.")
    ]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


class Write:
    """Writes a file."""

    spec = ToolSpec(
        name="Write",
        description="Write a text file into the workspace. A file of that name is replaced as a "
        "whole; to change a part of one, use Edit.",
        parameters=build_parameters(WriteArguments),
        display_name="Write file",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Write the file; return its path and size."""
        parsed = parse_arguments(WriteArguments, arguments, {"path": "file_path"})
        data = parsed.content.encode()
        await run_in_thread(context.workspace.write, parsed.file_path, data)
        await publish_files_changed(
            context.services, context.owner, context.session_id, "written", parsed.file_path
        )
        return {"file_path": parsed.file_path, "bytes": len(data)}
