"""Remember: something that is worth knowing in other sessions too, with the reason why."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from open_token.errors import StoreError
from open_token.server import memories
from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, faults, parameters, take
from open_token.server.agent.tools.interface import Json, Place, ToolFault


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
    """Writes a memory."""

    spec = ToolSpec(
        name="Remember",
        description="Remember something about the person or the work for later sessions. Only what will be of use "
        "there; never passwords, keys or other secrets.",
        parameters=parameters(RememberArguments),
        display_name="Remember",
    )
    is_idempotent = False

    async def run(self, arguments: Json, place: Place) -> Any:
        """The id of the memory, by which a later one can supersede it."""
        asked = take(RememberArguments, arguments)
        if not asked.content.strip():
            raise ToolFault("content says nothing")
        for known in asked.supersedes:
            if await place.services.store.memory(place.owner, known) is None:
                raise ToolFault(f"there is no memory {known} to supersede")
        try:
            with faults():
                row = await memories.remember(
                    place.services,
                    place.owner,
                    asked.content.strip(),
                    type=asked.type,
                    reason=asked.reason or None,
                    session_id=place.session_id,
                    supersedes=asked.supersedes,
                )
        except StoreError as problem:
            raise ToolFault(problem.what) from None
        return {"memory_id": row.id, "content": row.content, "superseded": list(asked.supersedes)}
