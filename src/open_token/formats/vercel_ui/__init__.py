"""The Vercel AI SDK: lists of UIMessages, of parts since version 5, and the stream that such a
message arrives in."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="vercel_ui",
    title="Vercel AI SDK (UIMessage)",
    checked="messages and streams of version 6; 4 and 5 described, not seen",
    includes="texts, reasoning, files, sources, data parts, metadata, calls with their outputs, errors and approvals",
    omits="provider metadata, and where a step begins",
    signatures=(
        b'"parts"',
        b'"toolInvocations"',
        b'"experimental_attachments"',
        b'-start"',
        b'"start-step"',
    ),
)
