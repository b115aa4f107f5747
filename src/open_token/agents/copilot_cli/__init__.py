"""GitHub Copilot CLI: the event log of a session, in its own folder or, formerly, a single file."""

from open_token.formats.definition import Agent, Hooks, McpConfig, Replay, Skill

AGENT = Agent(
    name="copilot_cli",
    title="GitHub Copilot CLI",
    checked="versions 1.0.34 and 1.0.102 in full, record shapes of 0.0.420 to 1.0.102",
    includes=(
        "messages, system prompts, reasoning, tool calls with results, subagents, compactions, "
        "model and mode changes, prompts as sent where they differ from what was typed, usage, "
        "cost in requests"
    ),
    omits="detailed views of results, hooks, telemetry and other bookkeeping",
    signatures=(b'"parentId"',),
    containers=("folder",),
    places=(
        "$COPILOT_HOME/session-state/*/events.jsonl",
        "$COPILOT_HOME/session-state/*.jsonl",
        "$XDG_STATE_HOME/.copilot/session-state/*/events.jsonl",
        ".copilot/session-state/*/events.jsonl",
        ".copilot/session-state/*.jsonl",
        ".copilot/history-session-state/*.jsonl",
    ),
    technical_fields=("detailedContent", "toolTelemetry"),
    session_id_variables=("COPILOT_AGENT_SESSION_ID",),
    hooks=Hooks(
        home="{copilot}",
        user="{copilot}/hooks/open-token.json",
        project=".github/hooks/open-token.json",
        events=("sessionEnd", "preCompact", "agentStop"),
        top_level={"version": 1},
        handler={"type": "command", "bash": "{command}", "timeoutSec": 10},
        next_step="it starts with your next session",
    ),
    mcp=McpConfig(files=("{copilot}/mcp-config.json",)),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{home}/.copilot",),
    ),
    replay=Replay(
        env={
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "replay",
            "COPILOT_MODEL": "replay",
            "COPILOT_OFFLINE": "true",
        },
        command='copilot -p "..."',
    ),
    accepts_handoff=True,
    resume="copilot --resume={id}",
)
