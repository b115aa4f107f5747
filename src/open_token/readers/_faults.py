"""What shows in a file beside the one that was opened that its writer stopped, or wrote broken
characters."""

from open_token.draft import Draft
from open_token.source import Source


def note_faults(file: Source, name: str, draft: Draft) -> None:
    """Note what was mended or left out; for the file that was opened itself that is done
    elsewhere."""
    if file.half_line is not None:
        draft.skip(
            "half-line",
            f"{name} line {file.half_line}",
            "the last line was not complete and is left out",
        )
    for number in file.repaired:
        draft.skip(
            "lone-surrogate",
            f"{name} line {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )
