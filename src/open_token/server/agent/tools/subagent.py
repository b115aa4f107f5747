"""Agent: give a task to a subagent, which works in a separate loop of the same session."""

from typing import Any

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError

NAME = "Agent"
MAX_DEPTH = 3
"""An agent at this depth cannot start another."""


class Agent:
    """A tool for the model that the loop itself executes."""

    spec = ToolSpec(
        name=NAME,
        description="Give a task to another agent, which has the same tools and sees nothing but "
        "the prompt. Its answer is the result. Good for a search or a piece of work whose steps "
        "you need not see.",
        parameters={
            "type": "object",
            "properties": {
                "description": {
                    "type": "string",
                    "description": "The task in a few words, for the person.",
                },
                "prompt": {
                    "type": "string",
                    "description": "The task, with all that the agent has to know.",
                },
            },
            "required": ["prompt"],
        },
        display_name="Subagent",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Never called: a subagent is a loop."""
        raise ToolError("subagents cannot be started here")


def parse_prompt(arguments: Json, depth: int) -> str:
    """Parse the task of a call; raise ToolError when it is missing or nested too deeply."""
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ToolError("prompt must be a text that describes the task")
    if depth >= MAX_DEPTH:
        raise ToolError(f"agents can be nested down to depth {MAX_DEPTH}; do this yourself")
    return prompt


def get_loop_id(tool_call_id: str) -> str:
    """Return the loop of a call: always the same, so that it is found again after a restart."""
    return f"loop_{tool_call_id}"
