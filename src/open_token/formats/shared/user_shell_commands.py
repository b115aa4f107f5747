"""Commands that the person ran in the shell of the runtime, which are no calls of the model."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import drop_nulls


def add_user_command(
    draft: Draft,
    command: str,
    person: str,
    facts: dict[str, Any],
    *,
    ts: str | None = None,
    span: str | None = None,
) -> None:
    """Add what the person typed, with facts about the run."""
    event = draft.add_message("user", command, person, ts=ts, visibility="public", span=span)
    draft.add_annotation({"kind": "user_command", **drop_nulls(facts)}, parent=event, ts=ts)


def add_command_output(
    draft: Draft,
    output: str | list[Any],
    client: str,
    *,
    ts: str | None = None,
    span: str | None = None,
) -> None:
    """Add the output of the command, which the runtime put into the conversation."""
    if output:
        draft.add_message("user", output, client, ts=ts, visibility="internal", span=span)
