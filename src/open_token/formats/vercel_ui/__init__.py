"""Vercel AI SDK: lists of UIMessages, made of parts since version 5, and streams of their chunks."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="vercel_ui",
    title="Vercel AI SDK (UIMessage)",
    checked="messages and streams of version 6; from descriptions only: 4 and 5",
    includes=(
        "texts, reasoning, files, sources, data parts, metadata, tool calls with their outputs, "
        "errors and approvals"
    ),
    omits="provider metadata, step boundaries",
    signatures=(
        b'"parts"',
        b'"toolInvocations"',
        b'"experimental_attachments"',
        b'-start"',
        b'"start-step"',
    ),
)
