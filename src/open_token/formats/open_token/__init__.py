"""Open-Token exports: JSON, and NDJSON in all three line shapes."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="open_token",
    title="Open-Token export",
    checked="version 0.1, JSON and NDJSON in all three line shapes",
    includes="everything, also keys the format does not know",
    omits="unknown keys at the top level, values outside the format's lists",
)
