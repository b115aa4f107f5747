"""The texts of Cursor's user messages: what the person typed stands in a tag, what Cursor knows
stands around it."""

from collections.abc import Iterator

_OPEN, _CLOSE = "<user_query>", "</user_query>"
_INJECTED = (
    "<user_info>",
    "<system_reminder>",
    "<system-reminder>",
    "<project_layout>",
    "<git_status>",
    "<rules>",
    "<attached_files>",
    "<additional_data>",
    "<open_and_recently_viewed_files>",
    "<agent_transcripts>",
    "<agent_skills>",
    "<mcp_",
    "<timestamp>",
    "<conversation_summary>",
    "[Previous conversation summary]",
)


def pieces(text: str, *, bare_is_typed: bool) -> Iterator[tuple[bool, str]]:
    """The text in its pieces, in order, each with whether the person typed it."""
    if _OPEN not in text:
        if text.strip():
            yield bare_is_typed and not text.lstrip().startswith(_INJECTED), text
        return
    while text:
        before, found, rest = text.partition(_OPEN)
        if before.strip():
            yield False, before.strip()
        typed, _, text = rest.partition(_CLOSE)
        if found and typed:
            yield True, typed.removeprefix("\n").removesuffix("\n")
