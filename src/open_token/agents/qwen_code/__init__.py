"""Qwen Code: a tree of records in the envelope of Claude Code around Gemini messages."""

from open_token.formats.definition import Agent, Hooks, Replay, Skill

AGENT = Agent(
    name="qwen_code",
    title="Qwen Code",
    checked="records of 0.21 (with trimmed values) and 0.24, with subagents and compressions; commands described, not seen",
    includes="prompts as typed and as sent, answers, thoughts, calls and results with their status, token counts, notifications, commands, compressions, titles, branches that were rewound, subagents from files of their own",
    omits="what the screen showed of a result (resultDisplay), telemetry, snapshots of files, artifacts and attributions",
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
)
