"""The facts that most formats state about a conversation: its id, its title and when it began."""

from open_token.builder.draft import Draft


def set_conversation_facts(
    draft: Draft,
    *,
    conversation_id: str | None = None,
    title: str | None = None,
    started_at: str | None = None,
) -> None:
    """Set what is known; a fact that is missing or empty leaves the document without it."""
    facts = draft.conversation
    if conversation_id:
        facts["id"] = conversation_id
    if title:
        facts["title"] = title
    if started_at:
        facts["started_at"] = started_at
