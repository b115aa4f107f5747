"""Reads the prompts that Google AI Studio keeps on a drive: chunks of text, thoughts, code and
files."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.source import Source

TITLE = "Google AI Studio"
PLACES: tuple[str, ...] = ()
SEEN = "a chunkedPrompt of Gemini 3 with thoughts; files, code and branches as described"
CARRIES = (
    "the system instruction, messages, thoughts, code and its results, inline files, token counts"
)
LEAVES = "the bytes of files that lie on the drive, and signatures of thoughts"


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return len(source.sample) == 1 and _is_prompt(source.sample[0])


def _is_prompt(value: Any) -> bool:
    prompt = value.get("chunkedPrompt") if isinstance(value, dict) else None
    return isinstance(prompt, dict) and isinstance(prompt.get("chunks"), list)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._ai_studio").read(source, draft)
