"""The OpenAI Responses API: bodies, pairs, items in lists or lines, saved streams."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="openai_responses",
    title="OpenAI Responses API (requests, responses, items, streams)",
    checked="requests, responses and streams of 2025 and 2026",
    includes="instructions, every item, reasoning summaries, calls and outputs, hosted tools, MCP, usage",
    omits="encrypted reasoning, request settings, log probabilities",
)
