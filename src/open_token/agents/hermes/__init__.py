"""Hermes Agent: sessions as JSON files, logs of the gateway, and the database of all sessions."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="hermes",
    title="Hermes Agent",
    checked=(
        "public databases of schema 6 to 20 and session files of 2026; from descriptions only: "
        "schema 30, logs, rewound messages"
    ),
    includes=(
        "messages, reasoning, tool calls with results, the system prompt, names of tools, "
        "compactions, rewound messages as branches, model, folder, token counts, cost"
    ),
    omits="definitions of tools, raw items of reasoning and messages, routing of the gateway",
    signatures=(b'"session_start"', b'"session_meta"'),
    containers=("sqlite",),
    holds_several=True,
    places=(
        "$HERMES_HOME/state.db",
        ".hermes/state.db",
        "$HERMES_HOME/sessions/session_*.json",
        ".hermes/sessions/session_*.json",
    ),
    technical_fields=(
        "tools",
        "codex_reasoning_items",
        "codex_message_items",
        "reasoning_details",
        "display_metadata",
        "model_config",
        "origin_json",
    ),
)
