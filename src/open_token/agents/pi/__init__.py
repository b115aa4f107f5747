"""Pi: session files of every version, the later ones trees of entries."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="pi",
    title="Pi",
    checked="session files of version 1 (linear) and 3 (tree), up to 0.87; entries of 1.5 as described",
    includes="Talk, system prompts, thoughts, tool calls with results, commands the person ran, compactions, summaries of branches, changes of model and thinking level, usage, cost; entries off the current branch as abandoned branches.",
    omits="The details beside a result and the state that extensions keep, both only with native=full.",
    signatures=(b'"session"', b'"parentId"', b'"toolResult"'),
    places=(
        "$PI_CODING_AGENT_SESSION_DIR/*.jsonl",
        "$PI_CODING_AGENT_SESSION_DIR/*/*.jsonl",
        "$PI_CODING_AGENT_DIR/sessions/*/*.jsonl",
        ".pi/agent/sessions/*/*.jsonl",
    ),
    technical_fields=("details",),
    session_id_variables=("PI_SESSION_ID",),
    session_file_variables=("PI_SESSION_FILE",),
    skill=Skill(
        call="/skill:stream-of-consciousness",
        folders=("{home}/.pi",),
        frontmatter=("disable-model-invocation: true",),
    ),
    accepts_handoff=True,
)
