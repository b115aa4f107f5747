"""OpenClaw, formerly Clawdbot and Moltbot: sessions in the format of Pi, which it is built on."""

from open_token.formats.definition import Agent

_FILES = "agents/*/sessions/*.jsonl"

AGENT = Agent(
    name="openclaw",
    title="OpenClaw",
    checked=(
        "from descriptions only: sessions of February to May 2026 in the test data of other tools; "
        "the entries are those of Pi"
    ),
    includes=(
        "messages, reasoning, tool calls with results, injected context, compactions, model and "
        "thinking level changes, usage, cost, abandoned branches"
    ),
    omits="details of results, snapshots of models and the state of extensions",
    signatures=(b'"customType"', b'"openclaw"', b"/.openclaw/"),
    places=(
        f"$OPENCLAW_STATE_DIR/{_FILES}",
        f".openclaw/{_FILES}",
        f".clawdbot/{_FILES}",
        f".moltbot/{_FILES}",
    ),
    technical_fields=("details",),
    is_experimental=True,
)
