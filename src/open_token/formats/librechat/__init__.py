"""LibreChat: an exported conversation, with its messages as a list or as a tree."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="librechat",
    title="LibreChat export",
    checked=(
        "public export files of 2024: lists, trees, branches; from descriptions only: its source "
        "code of 2026, for content parts, tool calls, files and ratings"
    ),
    includes=(
        "messages, reasoning, tool calls and results, files, ratings, errors, models, system "
        "prompt, settings, branches"
    ),
    omits="ids of the database, times of changes, estimated token counts",
    signatures=(b'"isCreatedByUser"',),
    technical_fields=("_id", "__v", "user", "updatedAt"),
)
