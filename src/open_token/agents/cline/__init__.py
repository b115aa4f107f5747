"""Cline and its forks (Roo Code, Kilo Code): a task, with what the API got and the panel showed, or
a session."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="cline",
    title="Cline, Roo Code, Kilo Code",
    checked="sessions of the command line 3.0.65; tasks described, not seen in full: Cline up to 3.51, with tool calls as blocks and as text",
    includes="Talk, thoughts, tool calls with the results that stand as text behind them, what the client put in, errors of the panel, model and mode, usage and cost, times; of sessions also the system prompt, subagents and teammates.",
    omits="Files in context, checkpoints and the panel's own view of what the API got, all only with native=full.",
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
