"""Remember: store something that is useful in other sessions too."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from open_token.errors import StoreError
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    refusals_as_errors,
)
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError
from open_token.server.core import memories


class RememberArguments(Arguments, frozen=True, kw_only=True):
    """What to remember, and why."""

    content: Annotated[
        str,
        Meta(min_length=1, max_length=500, description="What to remember, as one plain sentence."),
    ]
    reason: Annotated[
        str, Meta(max_length=500, description="Why it will be of use in other sessions.")
    ] = ""
    type: Annotated[
        Literal["feedback", "experience"],
        Meta(description="feedback: what the person wants; experience: what you learned."),
    ] = "experience"
    supersedes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=2**53)], ...],
        Meta(
            max_length=20,
            description="Ids of memories that are no longer true because of this one.",
        ),
    ] = ()


class Remember:
    """Stores a memory."""

    spec = ToolSpec(
        name="Remember",
        description="Remember something about the person or the work for later sessions. "
        "Only what will be of use there; never passwords, keys or other secrets.",
        parameters=build_parameters(RememberArguments),
        display_name="Remember",
    )
    is_idempotent = False

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Store the memory and return its id, by which a later one can supersede it."""
        parsed = parse_arguments(RememberArguments, arguments)
        if not parsed.content.strip():
            raise ToolError("content is empty")
        for memory_id in parsed.supersedes:
            if await context.services.store.memory(context.owner, memory_id) is None:
                raise ToolError(f"there is no memory {memory_id} to supersede")
        try:
            with refusals_as_errors():
                row = await memories.remember(
                    context.services,
                    context.owner,
                    parsed.content.strip(),
                    type=parsed.type,
                    reason=parsed.reason or None,
                    session_id=context.session_id,
                    supersedes=parsed.supersedes,
                )
        except StoreError as problem:
            raise ToolError(problem.what) from None
        return {"memory_id": row.id, "content": row.content, "superseded": list(parsed.supersedes)}
