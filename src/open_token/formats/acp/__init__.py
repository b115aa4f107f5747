"""Agent Client Protocol: the messages between an editor and an agent, one a line."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="acp",
    title="Agent Client Protocol logs",
    checked="from descriptions only: the schema of protocol version 1",
    includes=(
        "prompts, answers, reasoning, tool calls and results, plans, permissions, terminals, "
        "files that the client read or wrote for the agent, modes, errors"
    ),
    omits="capabilities, lists of commands, fill levels of the context",
    signatures=(b"session/update", b"session/prompt", b"session/new", b"session/load"),
    holds_several=True,
    is_experimental=True,
)
