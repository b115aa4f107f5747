"""Google AI Studio: prompts as it stores them on Google Drive."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="ai_studio",
    title="Google AI Studio",
    checked=(
        "a chunkedPrompt of Gemini 3 with thoughts; from descriptions only: files, code and "
        "branches"
    ),
    includes="the system instruction, messages, thoughts, code and its results, inline files, token counts",
    omits="the bytes of files that lie on the drive, and signatures of thoughts",
    signatures=(b'"chunkedPrompt"',),
)
