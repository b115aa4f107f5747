"""Write: a file put into the workspace, whole."""

from typing import Annotated, Any

from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, in_thread, parameters, take
from open_token.server.agent.tools.interface import Json, Place
from open_token.server.workspace import tell_changed


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
        description="Write a text file into the workspace. A file of that name is replaced as a whole; "
        "to change a part of one, use Edit.",
        parameters=parameters(WriteArguments),
        display_name="Write file",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """Where it was written and how much."""
        asked = take(WriteArguments, arguments, {"path": "file_path"})
        data = asked.content.encode()
        await in_thread(place.workspace.write, asked.file_path, data)
        await tell_changed(
            place.services, place.owner, place.session_id, "written", asked.file_path
        )
        return {"file_path": asked.file_path, "bytes": len(data)}
