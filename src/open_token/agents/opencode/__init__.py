"""OpenCode and its fork Kilo Code: the database, the storage folder, and exports."""

from open_token.formats.definition import Agent, Replay, Skill

AGENT = Agent(
    name="opencode",
    title="OpenCode, Kilo Code",
    checked=(
        "storage files of 1.1 to 1.3, also concatenated; databases of OpenCode 1.18.33 and "
        "Kilo Code 7.7.9; from descriptions only: the version 2 database, exports"
    ),
    includes=(
        "prompts, responses, reasoning, tool calls and results, files, subagents, tokens, costs, "
        "errors, reverted messages"
    ),
    omits=(
        "file contents before and after a change, metadata of tool results, snapshots, "
        "permissions, the secret of a share"
    ),
    holds_several=True,
    signatures=(b'"sessionID"', b'"projectID"', b'"directory"', b'"slug"'),
    containers=("sqlite", "folder"),
    places=(
        ".local/share/opencode/opencode*.db",
        ".local/share/opencode/storage/session/*/ses_*.json",
        "AppData/Local/opencode/opencode*.db",
        "AppData/Local/opencode/storage/session/*/ses_*.json",
        ".local/share/kilo/kilo*.db",
        "AppData/Local/kilo/kilo*.db",
        ".local/share/mimocode/mimocode*.db",
    ),
    skill=Skill(
        call="/stream-of-consciousness",
        folders=("{config}/opencode",),
        commands=("opencode",),
    ),
    replay=Replay(
        env={
            "OPENCODE_CONFIG_CONTENT": (
                '{"provider":{"replay":{"npm":"@ai-sdk/openai-compatible","name":"replay",'
                '"options":{"baseURL":"{url}/v1","apiKey":"replay"},'
                '"models":{"replay":{"name":"replay"}}}}}'
            )
        },
        command='opencode run -m replay/replay "..."',
    ),
    accepts_handoff=True,
    resume="opencode --session {id}",
)
