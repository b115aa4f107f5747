"""Edit: replace a passage of a file that occurs exactly once, or every occurrence."""

import os
from typing import Annotated, Any

from msgspec import Meta

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    run_in_thread,
)
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError
from open_token.server.core.workspace import Workspace, publish_files_changed

MAX_BYTES = 10 << 20


class EditArguments(Arguments, frozen=True, kw_only=True):
    """The passage to replace, and its replacement."""

    file_path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    old_string: Annotated[
        str, Meta(min_length=1, description="What stands there now, to the letter.")
    ]
    new_string: Annotated[str, Meta(description="What is to stand there instead.")]
    replace_all: Annotated[bool, Meta(description="Replace it wherever it stands.")] = False


class Edit:
    """Edits a file."""

    spec = ToolSpec(
        name="Edit",
        description="Replace a passage of a text file in the workspace. old_string must match "
        "exactly, spaces and line ends too, and stand in the file once unless replace_all is set.",
        parameters=build_parameters(EditArguments),
        display_name="Edit file",
    )
    is_idempotent = False

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Replace the passage and return how often."""
        parsed = parse_arguments(EditArguments, arguments, {"path": "file_path"})
        count = await run_in_thread(_edit_file, context.workspace, parsed)
        await publish_files_changed(
            context.services, context.owner, context.session_id, "written", parsed.file_path
        )
        return {"file_path": parsed.file_path, "replaced": count}


def _edit_file(workspace: Workspace, parsed: EditArguments) -> int:
    text, is_executable = _read_text(workspace, parsed.file_path)
    old = parsed.old_string
    new = parsed.new_string
    if old == new:
        raise ToolError("old_string and new_string are the same")
    count = text.count(old)
    if not count:
        raise ToolError("old_string not found; read the file and copy the passage exactly")
    if not parsed.replace_all and text.find(old, text.find(old) + 1) >= 0:
        raise ToolError(
            "old_string occurs more than once; include more of the text around it, or use "
            "replace_all"
        )
    if len(text) + count * (len(new) - len(old)) > MAX_BYTES:
        raise ToolError("the file would become too large")
    workspace.write(parsed.file_path, text.replace(old, new).encode(), executable=is_executable)
    return count


def _read_text(workspace: Workspace, path: str) -> tuple[str, bool]:
    with workspace.opened(path) as (file, size):
        if size > MAX_BYTES:
            raise ToolError(
                f"the file has {size} bytes; files of at most {MAX_BYTES} can be edited"
            )
        try:
            return file.read().decode(), bool(os.fstat(file.fileno()).st_mode & 0o100)
        except UnicodeDecodeError:
            raise ToolError("the file is not UTF-8 text") from None
