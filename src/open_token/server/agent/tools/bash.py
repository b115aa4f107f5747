"""Bash: a command in the workspace, inside a sandbox, waited for or left to run."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, faults, parameters, take
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.server.background import MOST_SECONDS
from open_token.server.processes import Kept, follow
from open_token.server.sandbox import INSIDE, Sandbox
from open_token.server.workspace import tell_changed

MOST_OUTPUT = 30_000


class BashArguments(Arguments, frozen=True, kw_only=True):
    """What to run, and how long."""

    command: Annotated[str, Meta(min_length=1, description="The command, as for bash -c.")]
    timeout: Annotated[
        float, Meta(ge=0, le=3600, description="Seconds until it is stopped; 0: as usual.")
    ] = 0
    run_in_background: Annotated[
        bool, Meta(description="Do not wait for it; the answer is the id of a task.")
    ] = False
    description: Annotated[
        str, Meta(description="What it is for, in a few words for the person.")
    ] = ""


class Bash:
    """Runs a command."""

    is_idempotent = False

    def __init__(self, sandbox: Sandbox, seconds: float) -> None:
        self._sandbox = sandbox
        self._seconds = seconds
        self.timeout = seconds + 10  # ours comes first: it tells what the command wrote until then
        where = (
            f"the workspace is {INSIDE}; there is no network"
            if sandbox.bwrap
            else "it is not in a sandbox"
        )
        self.spec = ToolSpec(
            name="Bash",
            description=f"Run a bash command in the workspace ({where}). Output of more than {MOST_OUTPUT} bytes is "
            f"cut in the middle. It is stopped after {seconds:g} seconds; what takes longer goes into the background.",
            parameters=parameters(BashArguments),
            display_name="Run command",
        )

    async def run(self, arguments: Json, place: Place) -> Any:
        """What it wrote and how it ended; or the task that goes on."""
        asked = take(BashArguments, arguments)
        seconds = (
            MOST_SECONDS
            if asked.run_in_background
            else min(asked.timeout or self._seconds, self._seconds)
        )
        with faults():
            folder = await asyncio.to_thread(place.workspace.make)
            command = self._sandbox.command(
                folder, asked.command, place.env, seconds, place.workspace.most_bytes
            )
            if asked.run_in_background:
                tasks = place.services.tasks
                task = await tasks.begin(
                    place.owner, place.session_id, place.tool_call_id, asked.command, command
                )
                return {"task_id": task.id, "status": task.status}
        output = Kept(MOST_OUTPUT)
        try:
            code = await follow(command, output.add, seconds)
        except OSError:
            raise ToolFault("the command could not be started") from None
        finally:
            place.workspace.recount()
        await tell_changed(place.services, place.owner, place.session_id, "command")
        if code is None:
            raise ToolFault(
                f"stopped after {seconds:g} seconds; what it wrote until then:\n{output.text()}"
            )
        return _answer(output, code)


def _answer(output: Kept, code: int) -> Json:
    """The output; when it is one JSON object with `_meta`, that is for the page and not for the
    model."""
    text = output.text()
    answer: Json = {"output": text, "exit_code": code}
    if output.is_cut:
        answer["truncated"] = True
    elif text.startswith("{") and '"_meta"' in text:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return answer
        if isinstance(value, dict) and isinstance(meta := value.pop("_meta", None), dict):
            return {**answer, "output": msgspec.json.encode(value).decode(), "_meta": meta}
    return answer
