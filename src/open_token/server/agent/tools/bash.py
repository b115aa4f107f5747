"""Bash: run a command in the sandboxed workspace, in the foreground or in the background."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    refusals_as_errors,
)
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError
from open_token.server.core.background_tasks import MAX_SECONDS
from open_token.server.core.processes import BoundedOutput, LimitExceeded, run_to_end
from open_token.server.core.sandbox import WORKSPACE_MOUNT, CommandLimits, Sandbox
from open_token.server.core.workspace import publish_files_changed

MAX_OUTPUT = 30_000


class BashArguments(Arguments, frozen=True, kw_only=True):
    """The command, and its timeout."""

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
        # The timeout of this tool comes first, because it reports the output until then.
        self.timeout = seconds + 10
        where = "it is not in a sandbox"
        if sandbox.bwrap:
            where = f"the workspace is {WORKSPACE_MOUNT}; there is no network"
        self.spec = ToolSpec(
            name="Bash",
            description=f"Run a bash command in the workspace ({where}). "
            f"Output of more than {MAX_OUTPUT} bytes is cut in the middle. "
            f"It is stopped after {seconds:g} seconds; what takes longer goes into the background.",
            parameters=build_parameters(BashArguments),
            display_name="Run command",
        )

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return the output and exit code, or the task of a background command."""
        parsed = parse_arguments(BashArguments, arguments)
        if parsed.run_in_background:
            seconds = MAX_SECONDS
        else:
            seconds = min(parsed.timeout or self._seconds, self._seconds)
        with refusals_as_errors():
            folder = await asyncio.to_thread(context.workspace.make)
            limits = CommandLimits(
                disk_bytes=context.workspace.most_bytes if context.workspace.is_own else 0,
                memory_bytes=context.services.config.limits.command_bytes,
            )
            command = self._sandbox.command(folder, parsed.command, context.env, seconds, limits)
            if parsed.run_in_background:
                tasks = context.services.tasks
                task = await tasks.start(
                    context.owner, context.session_id, context.tool_call_id, parsed.command, command
                )
                return {"task_id": task.id, "status": task.status}
        output = BoundedOutput(MAX_OUTPUT)
        try:
            code = await run_to_end(command, output.add, seconds)
        except OSError:
            raise ToolError("the command could not be started") from None
        except LimitExceeded as problem:
            raise ToolError(f"stopped: {problem}; output until then:\n{output.text()}") from None
        finally:
            # A command writes files without the workspace knowing, even one that is stopped.
            context.workspace.recount()
        await publish_files_changed(context.services, context.owner, context.session_id, "command")
        if code is None:
            raise ToolError(
                f"stopped after {seconds:g} seconds; output until then:\n{output.text()}"
            )
        return _build_answer(output, code)


def _build_answer(output: BoundedOutput, code: int) -> Json:
    """Return the output; `_meta` of a JSON object is for the page, not for the model."""
    text = output.text()
    answer: Json = {"output": text, "exit_code": code}
    if output.is_truncated:
        answer["truncated"] = True
    elif text.startswith("{") and '"_meta"' in text:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return answer
        meta = value.pop("_meta", None) if isinstance(value, dict) else None
        if isinstance(meta, dict):
            return {**answer, "output": msgspec.json.encode(value).decode(), "_meta": meta}
    return answer
