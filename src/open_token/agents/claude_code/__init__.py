"""Claude Code, Anthropic's coding agent: session files and the subagents that belong to them."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Replay, Retention, Skill

# Cowork, the agent of the desktop app, runs Claude Code with a configuration folder for each session.
_COWORK_SESSION = "Claude*/local-agent-mode-sessions/*/*/{}local_*/.claude/projects/*/*.jsonl"

AGENT = Agent(
    name="claude_code",
    title="Claude Code",
    checked="versions 0.2 to 2.1.326, every subagent layout, 299 public sessions item by item",
    includes=(
        "prompts as typed, also those typed while the model worked, commands of the person, injected "
        "text apart from them, answers, thinking, tool calls and results with status, images, "
        "subagents, accepted plans, compactions, interruptions, abandoned branches, titles, "
        "usage once per message"
    ),
    omits=(
        "structured result data (toolUseResult), file snapshots, progress of hooks, hook "
        "bookkeeping, thinking signatures"
    ),
    places=(
        "$CLAUDE_CONFIG_DIR/projects/*/*.jsonl",
        ".claude/projects/*/*.jsonl",
        ".config/claude/projects/*/*.jsonl",
        # A fork that writes the same.
        "$OPENCLAUDE_CONFIG_DIR/projects/*/*.jsonl",
        ".openclaude/projects/*/*.jsonl",
        *(
            f"{folder}/{_COWORK_SESSION.format(variant)}"
            for folder in ("Library/Application Support", ".config", "AppData/Roaming")
            for variant in ("", "agent/")
        ),
    ),
    part_files=("agent-*.jsonl",),
    session_id_variables=("CLAUDE_CODE_SESSION_ID",),
    hooks=Hooks(
        home="{claude}",
        user="{claude}/settings.json",
        project=".claude/settings.local.json",
        is_grouped=True,
        events=("SessionEnd", "PreCompact", "Stop"),
        handler={"type": "command", "command": "{command}", "timeout": 10},
        next_step="it starts with your next session; /hooks shows it",
    ),
    mcp=McpConfig(files=("{claude}/.claude.json", "{home}/.claude.json")),
    retention=Retention(
        file="{claude}/settings.json",
        shown="~/.claude/settings.json",
        key="cleanupPeriodDays",
        days=30,
    ),
    skill=Skill(
        call="/stream-of-consciousness",
        user="{claude}/skills",
        project=".claude/skills",
        folders=("{claude}",),
        commands=("claude",),
        # The grant covers the bare default export alone; with any option Claude Code still asks.
        frontmatter=(
            "disable-model-invocation: true",
            'argument-hint: "[mode=json|ndjson] [redact=secrets|pii|strict] [key=value ...]"',
            'allowed-tools: ["Bash(open-token export --current)"]',
        ),
    ),
    replay=Replay(
        env={
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "replay",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        command='claude -p "..."',
    ),
    accepts_handoff=True,
    resume="claude --resume {id}",
)
