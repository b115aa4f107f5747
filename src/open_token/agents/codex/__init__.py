"""Codex CLI, OpenAI's coding agent: rollouts, and the output of `codex exec --json`."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Replay, Skill

AGENT = Agent(
    name="codex",
    title="Codex CLI",
    checked=(
        "rollouts of 2025 and 2026 up to version 0.169, with and without envelopes, plain and "
        "compressed, `codex exec --json` streams; TraeX, which writes the same, from descriptions "
        "only"
    ),
    includes=(
        "prompts, instructions, developer messages, reasoning summaries, tool calls and outputs, "
        "also what the model did not see of them, patches, searches, subagents, compactions, "
        "aborts, token counts once per request"
    ),
    omits="encrypted reasoning, duplicate events, world state, ghost snapshots, rate limits",
    # Derived from the command of a call, for display.
    technical_fields=("parsed_cmd",),
    places=(
        "$CODEX_HOME/sessions/*/*/*/rollout-*.jsonl",
        "$CODEX_HOME/archived_sessions/rollout-*.jsonl",
        ".codex/sessions/*/*/*/rollout-*.jsonl",
        ".codex/archived_sessions/rollout-*.jsonl",
        # Codex compresses rollouts that have not changed for a while.
        "$CODEX_HOME/sessions/*/*/*/rollout-*.jsonl.zst",
        "$CODEX_HOME/archived_sessions/rollout-*.jsonl.zst",
        ".codex/sessions/*/*/*/rollout-*.jsonl.zst",
        ".codex/archived_sessions/rollout-*.jsonl.zst",
        # TraeX, the CLI of TRAE, is built on Codex; nothing in its rollouts tells it apart.
        "$TRAECLI_HOME/sessions/*/*/*/rollout-*.jsonl",
        "$TRAECLI_HOME/archived_sessions/rollout-*.jsonl",
        ".trae/cli/sessions/*/*/*/rollout-*.jsonl",
        ".trae/cli/archived_sessions/rollout-*.jsonl",
    ),
    session_id_variables=("CODEX_THREAD_ID", "CODEX_SESSION_ID"),
    hooks=Hooks(
        home="{codex}",
        user="{codex}/hooks.json",
        project=".codex/hooks.json",
        is_grouped=True,
        events=("SessionEnd", "PreCompact", "Stop"),
        # Codex allows the end of a session no more than 3 seconds.
        handler={"type": "command", "command": "{command}", "timeout": 3},
        next_step=(
            "Codex silently skips hooks that you have not trusted: start it, open /hooks and trust "
            "these three"
        ),
    ),
    mcp=McpConfig(files=("{codex}/config.toml",), key="mcp_servers"),
    skill=Skill(
        call="$stream-of-consciousness",
        folders=("{codex}",),
        commands=("codex",),
    ),
    replay=Replay(
        env={"OPENAI_API_KEY": "replay"},
        command=(
            "codex exec -c model_provider=replay -c "
            '\'model_providers.replay={name="replay",base_url="{url}/v1",'
            'env_key="OPENAI_API_KEY",wire_api="responses",supports_websockets=false}\' "..."'
        ),
    ),
    accepts_handoff=True,
    resume="codex resume {id}",
)
