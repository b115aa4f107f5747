"""Continue: one JSON file a session, of the extensions and the command line."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="continue_dev",
    title="Continue",
    checked="13 public sessions of 2025 and 2026, in chat and agent mode; from descriptions only: reasoning, summaries",
    includes=(
        "prompts with attached context, answers, reasoning, tool calls with results and states, "
        "summaries, model, folder, title, token counts"
    ),
    omits=(
        "the state of the editor, logs of prompts (they repeat the conversation and hold the system "
        "prompt), definitions of tools, files before and after an edit"
    ),
    signatures=(b'"history"',),
    places=(
        "$CONTINUE_GLOBAL_DIR/sessions/*.json",
        ".continue/sessions/*.json",
    ),
    part_files=("sessions.json",),
    technical_fields=(
        "editorState",
        "promptLogs",
        "modifiers",
        "appliedRules",
        "icon",
        "tool",
        "processedArgs",
    ),
)
