"""Pydantic AI: the messages of an agent's runs, as its ModelMessagesTypeAdapter writes them."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="pydantic_ai",
    title="Pydantic AI messages",
    checked="version 2.66 in full; from descriptions only: earlier ones",
    includes=(
        "instructions and their changes, prompts, answers, reasoning, speech, calls of custom and "
        "built-in tools, results, retries, failed attempts of fallback models, files, citations, "
        "usage"
    ),
    omits="signatures of reasoning, provider details and URLs, cache points",
    signatures=(b'"part_kind"', b'"parts"'),
)
