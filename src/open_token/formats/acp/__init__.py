"""Agent Client Protocol: the messages between an editor and an agent, one a line."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="acp",
    title="Agent Client Protocol logs",
    checked=(
        "logs of Gemini CLI 0.61.0 and Qwen Code 0.24.4 with protocol version 1 and a scripted "
        "model; from descriptions only: terminals and files of the client, sessions that are loaded"
    ),
    includes=(
        "prompts, answers, reasoning, tool calls and results, plans, permissions, terminals, "
        "files that the client read or wrote for the agent, modes, errors"
    ),
    omits="capabilities, lists of commands, fill levels of the context",
    signatures=(b"session/update", b"session/prompt", b"session/new", b"session/load"),
    holds_several=True,
    technical_fields=(
        "_meta",
        "agentCapabilities",
        "authMethods",
        "availableCommands",
        "configOptions",
        "models",
        "modes",
    ),
)
