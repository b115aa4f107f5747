"""Qwen Code: Gemini messages in a tree of records with the envelope of Claude Code."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Replay, Skill

AGENT = Agent(
    name="qwen_code",
    title="Qwen Code",
    checked=(
        "versions 0.21 (with trimmed values) and 0.24, subagents, compressions; from "
        "descriptions only: commands"
    ),
    includes=(
        "prompts as typed and as sent, answers, reasoning, tool calls and results with status, "
        "token counts, notifications, commands, compressions, titles, rewound branches, subagents "
        "from their own files"
    ),
    omits=(
        "displayed form of results (resultDisplay), telemetry, file snapshots, artifacts, "
        "attributions"
    ),
    signatures=(b'"parts"', b'"systemPayload"'),
    places=(
        "$QWEN_HOME/projects/*/chats/*.jsonl",
        "$QWEN_RUNTIME_DIR/projects/*/chats/*.jsonl",
        ".qwen/projects/*/chats/*.jsonl",
    ),
    part_files=("subagents/*/agent-*.jsonl",),
    technical_fields=("resultDisplay",),
    session_id_variables=("QWEN_CODE_SESSION_ID",),
    hooks=Hooks(
        home="{qwen}",
        user="{qwen}/settings.json",
        project=".qwen/settings.json",
        is_grouped=True,
        events=("SessionEnd", "PreCompact", "Stop"),
        handler={"name": "open-token", "type": "command", "command": "{command}", "timeout": 10000},
        next_step="it starts with your next session",
    ),
    mcp=McpConfig(files=("{qwen}/settings.json",)),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{home}/.qwen",),
        commands=("qwen",),
        frontmatter=("disable-model-invocation: true",),
    ),
    replay=Replay(
        env={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "replay", "OPENAI_MODEL": "replay"},
        command='qwen --auth-type openai -p "..."',
    ),
    accepts_handoff=True,
    resume="qwen --resume {id}",
)
