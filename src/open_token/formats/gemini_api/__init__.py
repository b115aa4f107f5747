"""The Gemini API: bodies, pairs, contents in lists or lines, saved streams."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="gemini_api",
    title="Gemini API (requests, responses, contents, streams)",
    checked="requests, responses and streams of 2025, with thoughts, tools and code execution",
    includes="system instruction, every part, thoughts, calls and results, executed code, candidates, usage",
    omits="thought signatures, safety ratings, generation settings, grounding metadata beyond its text",
)
