"""Reads the prompts that Google AI Studio keeps on a drive: chunks of text, thoughts, code and
files."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return len(source.sample) == 1 and _is_prompt(source.sample[0])


def _is_prompt(value: Any) -> bool:
    prompt = value.get("chunkedPrompt") if isinstance(value, dict) else None
    return isinstance(prompt, dict) and isinstance(prompt.get("chunks"), list)
