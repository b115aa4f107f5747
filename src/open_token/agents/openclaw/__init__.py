"""OpenClaw, formerly Clawdbot and Moltbot: sessions in the format of Pi, which it is built on."""

from open_token.formats.definition import Agent

_FILES = "agents/*/sessions/*.jsonl"

AGENT = Agent(
    name="openclaw",
    title="OpenClaw",
    checked="public sessions of 2026; from descriptions only: compactions, branches",
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
        f".qclaw/{_FILES}",
    ),
    technical_fields=("details",),
)
