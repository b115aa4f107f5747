"""Agent: a task for another agent, which works in a loop of its own in the same session."""

from typing import Any

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools.interface import Json, Place, ToolFault

NAME = "Agent"
DEEPEST = 3
"""An agent at this depth starts no other."""


class Agent:
    """Told to the model as a tool; the loop itself carries it out."""

    spec = ToolSpec(
        name=NAME,
        description="Give a task to another agent, which has the same tools and sees nothing but the prompt. Its "
        "answer is the result. Good for a search or a piece of work whose steps you need not see.",
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

    async def run(self, arguments: Json, place: Place) -> Any:
        """Never called: a subagent is a loop."""
        raise ToolFault("subagents cannot be started here")


def prompt_of(arguments: Json, depth: int) -> str:
    """The task of a call; ToolFault when there is none, or when it goes too deep."""
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ToolFault("prompt is a text that says what is to be done")
    if depth >= DEEPEST:
        raise ToolFault(f"agents start others down to depth {DEEPEST}; do this yourself")
    return prompt


def loop_of(tool_call_id: str) -> str:
    """The loop that serves a call: always the same, so that it is found again after a restart."""
    return f"loop_{tool_call_id}"
