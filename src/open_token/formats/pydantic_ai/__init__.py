"""Pydantic AI: the messages of an agent's runs as its ModelMessagesTypeAdapter writes them."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="pydantic_ai",
    title="Pydantic AI messages",
    checked="2.66 in full; earlier ones as described",
    includes="instructions and their changes, prompts, answers, thoughts, speech, calls of own and built-in tools, results, retries, models that failed before the one that answered, files, citations, usage",
    omits="signatures of thoughts, provider details and addresses, cache points",
    signatures=(b'"part_kind"', b'"parts"'),
)
