"""The OpenAI chat completions API: bodies, pairs, messages in lists or lines, saved streams."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="openai_chat",
    title="OpenAI chat completions (requests, responses, messages, streams)",
    checked="requests, responses and streams of 2024 to 2026, also of compatible servers",
    includes="every message and part, calls and results, refusals, alternatives, reasoning texts of compatible servers, usage",
    omits="request settings, log probabilities, fingerprints",
)
