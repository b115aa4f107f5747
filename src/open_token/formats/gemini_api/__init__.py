"""Reads the Gemini API: bodies, pairs, lists and lines of contents, saved streams; also dumps of
its libraries."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="gemini_api",
    title="Gemini API (requests, responses, contents, streams)",
    checked="requests, responses and streams of 2025, with thoughts, tools and code execution",
    includes="system instruction, every part, thoughts, calls and results, executed code, candidates, usage",
    omits="thought signatures, safety ratings, generation settings, grounding metadata beyond its text",
)
