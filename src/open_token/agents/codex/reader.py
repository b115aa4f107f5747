"""Read a Codex rollout or the stream of `codex exec --json`, whichever the input is."""

from open_token.agents.codex import exec_stream, rollout
from open_token.agents.codex.shapes import is_stream
from open_token.builder.draft import Draft
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if is_stream(records):
        exec_stream.read(source, draft)
    else:
        rollout.read(source, draft)
