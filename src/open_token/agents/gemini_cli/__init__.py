"""Gemini CLI, Google's coding agent: sessions as a document or as lines, and `stream-json`."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Replay, Skill

AGENT = Agent(
    name="gemini_cli",
    title="Gemini CLI",
    checked=(
        "documents of October 2025, lines of April 2026 and of version 0.61, resumed sessions, "
        "subagents; from descriptions only: rewinds, and the `stream-json` output as the source "
        "code of August 2026 writes it"
    ),
    includes=(
        "prompts as typed and as sent, answers, reasoning summaries, tool calls and results with "
        "status, notices, token counts, rewound branches, subagents from their own files"
    ),
    omits=(
        "displayed form of results (resultDisplay), labels and descriptions of tools, the memory "
        "scratchpad"
    ),
    signatures=(b'"projectHash"', b'"session_id"', b'"tool_id"'),
    places=(
        "$GEMINI_CLI_HOME/.gemini/tmp/*/chats/session-*.json",
        "$GEMINI_CLI_HOME/.gemini/tmp/*/chats/session-*.jsonl",
        ".gemini/tmp/*/chats/session-*.json",
        ".gemini/tmp/*/chats/session-*.jsonl",
        ".qwen/tmp/*/chats/session-*.json",
    ),
    part_files=("chats/*/*.jsonl",),
    technical_fields=("resultDisplay",),
    session_id_variables=("GEMINI_SESSION_ID",),
    hooks=Hooks(
        home="{gemini}",
        user="{gemini}/settings.json",
        project=".gemini/settings.json",
        is_grouped=True,
        events=("SessionEnd", "PreCompress", "AfterAgent"),
        handler={"name": "open-token", "type": "command", "command": "{command}", "timeout": 10000},
        next_step="it starts with your next session",
    ),
    mcp=McpConfig(files=("{gemini}/settings.json",)),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{home}/.gemini",),
        commands=("gemini",),
    ),
    replay=Replay(
        env={"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "replay"},
        command='gemini -m gemini-2.5-pro -p "..."',
    ),
    accepts_handoff=True,
    resume="gemini --resume {id}",
)
