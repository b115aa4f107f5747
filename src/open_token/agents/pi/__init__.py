"""Pi: session files of every version, the later ones trees of entries."""

from open_token.formats.definition import Agent, McpConfig, Skill

AGENT = Agent(
    name="pi",
    title="Pi",
    checked=(
        "session files of version 1 (linear) and 3 (tree), up to Pi 0.87; from descriptions "
        "only: entries of 1.5"
    ),
    includes=(
        "messages, system prompts, reasoning, tool calls with results, commands that the person "
        "ran, compactions, branch summaries, model and thinking level changes, usage, cost, "
        "abandoned branches"
    ),
    omits="details of results, the state of extensions",
    signatures=(b'"session"', b'"parentId"', b'"toolResult"'),
    places=(
        "$PI_CODING_AGENT_SESSION_DIR/*.jsonl",
        "$PI_CODING_AGENT_SESSION_DIR/*/*.jsonl",
        "$PI_CODING_AGENT_DIR/sessions/*/*.jsonl",
        ".pi/agent/sessions/*/*.jsonl",
        # Forks that write the same: Oh My Pi and Prime Agent.
        ".omp/agent/sessions/*/*.jsonl",
        ".prime/agent/sessions/*/*.jsonl",
    ),
    technical_fields=("details",),
    session_id_variables=("PI_SESSION_ID",),
    session_file_variables=("PI_SESSION_FILE",),
    mcp=McpConfig(files=("{home}/.pi/agent/mcp.json",)),
    skill=Skill(
        call="/skill:stream-of-consciousness",
        folders=("{home}/.pi",),
        frontmatter=("disable-model-invocation: true",),
    ),
    accepts_handoff=True,
    resume="pi --session {id}",
)
