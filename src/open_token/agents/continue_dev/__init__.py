"""Continue: one JSON file a session, of the extensions and the command line."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="continue_dev",
    title="Continue",
    checked="from descriptions only: its source code, for sessions of 2025 and 2026",
    includes=(
        "prompts with attached context, answers, reasoning, tool calls with results and states, "
        "summaries, model, folder, title, token counts"
    ),
    omits="the state of the editor, logs of prompts (they repeat the conversation)",
    signatures=(b'"history"',),
    places=(
        "$CONTINUE_GLOBAL_DIR/sessions/*.json",
        ".continue/sessions/*.json",
    ),
    part_files=("sessions.json",),
    technical_fields=("editorState", "promptLogs", "modifiers", "appliedRules", "icon"),
    is_experimental=True,
)
