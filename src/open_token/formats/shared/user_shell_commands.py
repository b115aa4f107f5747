"""A command that the person ran in the runtime's own shell: theirs, and not a call of the model."""

from typing import Any

from open_token.builder.draft import Draft


def tell_command(
    draft: Draft,
    command: str,
    person: str,
    facts: dict[str, Any],
    *,
    ts: str | None = None,
    span: str | None = None,
) -> None:
    """What the person typed, with what is known of the run."""
    said = draft.add_message("user", command, person, ts=ts, visibility="public", span=span)
    known = {name: value for name, value in facts.items() if value is not None}
    draft.add_annotation({"kind": "user_command", **known}, parent=said, ts=ts)


def tell_output(
    draft: Draft,
    output: str | list[Any],
    client: str,
    *,
    ts: str | None = None,
    span: str | None = None,
) -> None:
    """What the command printed, which the runtime put into the talk."""
    if output:
        draft.add_message("user", output, client, ts=ts, visibility="internal", span=span)
