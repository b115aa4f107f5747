"""A session server's own data: its log, the turns of a session, its history with all branches,
streams of patches."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="session_server",
    title="Session server (turns, history, patches)",
    checked=(
        "logs of this version's own server; from descriptions only: turns, histories and patches "
        "of other servers"
    ),
    includes="turns with texts, thoughts, calls, results, cards, plans, answers, compactions, subagents, branches, usage",
    omits="server events that are not part of a turn: files that changed, tasks, sessions that were renamed",
    holds_several=True,
    signatures=(
        b'"turn_id"',
        b'"patch_type"',
        b'"turns"',
        b'"nodes"',
        b'"session.created"',
        b'"imported"',
    ),
)
