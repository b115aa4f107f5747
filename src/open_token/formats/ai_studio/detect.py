"""Detection of Google AI Studio prompts."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the content is of this format."""
    return len(source.sample) == 1 and _is_prompt(source.sample[0])


def _is_prompt(value: Any) -> bool:
    prompt = value.get("chunkedPrompt") if isinstance(value, dict) else None
    return isinstance(prompt, dict) and isinstance(prompt.get("chunks"), list)
