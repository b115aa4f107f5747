"""The Cohere chat API, version 2: bodies, pairs, messages, saved streams."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="cohere",
    title="Cohere chat v2 (requests, responses, messages, streams)",
    checked=(
        "requests and responses of 2025, with thinking; from descriptions only: tools, documents, "
        "citations and streams"
    ),
    includes="every message and part, tool plans and thinking as reasoning, calls and results, documents, citations, usage",
    omits="request settings, log probabilities, counts of billed units where tokens are counted",
)
