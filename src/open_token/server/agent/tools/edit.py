"""Edit: a passage of a file replaced by another, where it stands exactly once or everywhere."""

import os
from typing import Annotated, Any

from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, in_thread, parameters, take
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.server.workspace import Workspace, tell_changed

MOST_BYTES = 10 << 20


class EditArguments(Arguments, frozen=True, kw_only=True):
    """What stands there, and what is to stand there."""

    file_path: Annotated[str, Meta(description="The file, relative to the workspace.")]
    old_string: Annotated[
        str, Meta(min_length=1, description="What stands there now, to the letter.")
    ]
    new_string: Annotated[str, Meta(description="What is to stand there instead.")]
    replace_all: Annotated[bool, Meta(description="Replace it wherever it stands.")] = False


class Edit:
    """Changes a file."""

    spec = ToolSpec(
        name="Edit",
        description="Replace a passage of a text file in the workspace. old_string must match exactly, spaces and "
        "line ends too, and stand in the file once unless replace_all is set.",
        parameters=parameters(EditArguments),
        display_name="Edit file",
    )
    is_idempotent = False

    async def run(self, arguments: Json, place: Place) -> Any:
        """How often it was replaced."""
        asked = take(EditArguments, arguments, {"path": "file_path"})
        count = await in_thread(_edited, place.workspace, asked)
        await tell_changed(
            place.services, place.owner, place.session_id, "written", asked.file_path
        )
        return {"file_path": asked.file_path, "replaced": count}


def _edited(workspace: Workspace, asked: EditArguments) -> int:
    text, is_executable = _text(workspace, asked.file_path)
    old, new = asked.old_string, asked.new_string
    if old == new:
        raise ToolFault("old_string and new_string are the same")
    count = text.count(old)
    if not count:
        raise ToolFault("old_string is not in the file; read it and copy the passage exactly")
    if not asked.replace_all and text.find(old, text.find(old) + 1) >= 0:
        raise ToolFault(
            "old_string stands in the file more than once; give more of what is around it, or replace_all"
        )
    if len(text) + count * (len(new) - len(old)) > MOST_BYTES:
        raise ToolFault("the file would become too big")
    workspace.write(asked.file_path, text.replace(old, new).encode(), executable=is_executable)
    return count


def _text(workspace: Workspace, path: str) -> tuple[str, bool]:
    with workspace.opened(path) as (file, size):
        if size > MOST_BYTES:
            raise ToolFault(f"this file has {size} bytes; at most {MOST_BYTES} can be edited")
        try:
            return file.read().decode(), bool(os.fstat(file.fileno()).st_mode & 0o100)
        except UnicodeDecodeError:
            raise ToolFault("this is no UTF-8 text") from None
