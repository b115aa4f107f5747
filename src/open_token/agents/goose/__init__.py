"""Goose: its session database, older session files, and the output of `goose session export`."""

from open_token.formats.definition import Agent, Skill

AGENT = Agent(
    name="goose",
    title="Goose",
    checked=(
        "an excerpt from before 1.0; from descriptions only: databases up to schema 17, "
        "JSON lines, exports"
    ),
    includes=(
        "prompts, responses, reasoning, tool calls and results, images, questions, subagents, "
        "tokens, which messages left the context"
    ),
    omits=(
        "the state of extensions, recipes except their instructions, structured copies of tool "
        "results"
    ),
    holds_several=True,
    signatures=(b'"working_dir"', b'"created"'),
    containers=("sqlite",),
    places=(
        "$GOOSE_PATH_ROOT/data/sessions/sessions.db",
        "$GOOSE_PATH_ROOT/data/sessions/*.jsonl",
        ".local/share/goose/sessions/sessions.db",
        ".local/share/goose/sessions/*.jsonl",
        "Library/Application Support/Block.block.goose/sessions/sessions.db",
        "Library/Application Support/Block.block.goose/sessions/*.jsonl",
        "AppData/Roaming/Block/goose/data/sessions/sessions.db",
        "AppData/Roaming/Block/goose/data/sessions/*.jsonl",
        "AppData/Roaming/Block/Block/goose/data/sessions/sessions.db",
    ),
    skill=Skill(
        call="Export this conversation with the stream-of-consciousness skill.",
        folders=("{config}/goose",),
    ),
)
