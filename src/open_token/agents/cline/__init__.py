"""Cline and its forks Roo Code and Kilo Code: tasks of the extensions, sessions of the CLI."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="cline",
    title="Cline, Roo Code, Kilo Code",
    checked=(
        "sessions of the command line 3.0.65; from descriptions only: tasks of Cline up to 3.51, "
        "with tool calls as blocks and as text"
    ),
    includes=(
        "prompts, responses, reasoning, tool calls with results as blocks or as text, injected "
        "context, errors of the panel, model and mode, tokens, costs, times; from sessions also "
        "system prompts, subagents, teammates"
    ),
    omits="files in context, checkpoints, the panel's copy of API messages",
    signatures=(
        b"<task>",
        b"<environment_details>",
        b"<user_message>",
        b'"modelInfo"',
        b'"say"',
        b'"files_in_context"',
    ),
    containers=("folder",),
    places=(
        "$CLINE_DIR/data/tasks/*/api_conversation_history.json",
        ".cline/data/tasks/*/api_conversation_history.json",
        "$CLINE_DIR/data/sessions/*/*.messages.json",
        ".cline/data/sessions/*/*.messages.json",
        ".config/*/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        ".config/*/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json",
        ".config/*/User/globalStorage/kilocode.kilo-code/tasks/*/api_conversation_history.json",
        "Library/Application Support/*/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        "Library/Application Support/*/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json",
        "Library/Application Support/*/User/globalStorage/kilocode.kilo-code/tasks/*/api_conversation_history.json",
        "AppData/Roaming/*/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        "AppData/Roaming/*/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json",
        "AppData/Roaming/*/User/globalStorage/kilocode.kilo-code/tasks/*/api_conversation_history.json",
        ".*-server*/data/User/globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json",
        ".*-server*/data/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json",
        ".*-server*/data/User/globalStorage/kilocode.kilo-code/tasks/*/api_conversation_history.json",
    ),
    part_files=(
        "ui_messages.json",
        "task_metadata.json",
        "history_item.json",
        "context_history.json",
        "agent_*.messages.json",
        "*__*.messages.json",
    ),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{home}/.cline",),
        commands=("cline",),
    ),
)
