"""The Anthropic Messages API: bodies, pairs, messages in lists or lines, saved streams."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="anthropic_messages",
    title="Anthropic Messages API (requests, responses, messages, streams)",
    checked="requests, responses and streams of 2024 to 2026, with thinking, server tools, MCP, compaction and web search",
    includes="system prompts, every content block, thinking with its words, calls and results, server tools, usage, alternatives of a retried request",
    omits="cache markers, request settings such as temperature, container ids, citations' positions",
)
