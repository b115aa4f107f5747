"""Which of the spec's providers stands behind the names that a runtime gives to providers and models."""

import re
from functools import lru_cache

from open_token.model import Conversation

_MARKS = (
    ("anthropic", re.compile(r"anthropic|claude", re.IGNORECASE)),
    ("openai", re.compile(r"openai|chatgpt|codex|\bgpt-|\bo[134](?:-|$)", re.IGNORECASE)),
    ("google", re.compile(r"google|gemini|gemma|vertex", re.IGNORECASE)),
    ("meta", re.compile(r"\bmeta\b|llama-", re.IGNORECASE)),
)
_LONGEST = 200


@lru_cache(256)
def provider_of(name: str | None) -> str | None:
    """The provider that a name of a provider or a model tells; None when it tells none that the spec knows."""
    return next((provider for provider, mark in _MARKS if name and mark.search(name[:_LONGEST])), None)


class Providers:
    """The providers met in a conversation: one is the conversation's own, of several none is."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def meet(self, named: str | None, model: str | None) -> str | None:
        """A model spoke; gives its provider: the runtime's own name for it, else what the model's name tells."""
        known = provider_of(named) or provider_of(model)
        if known or named:
            self._met.add(known or "other")
        return named or known

    def settle(self, conversation: Conversation) -> None:
        """Enter the provider of the conversation when there is just one."""
        if len(self._met) == 1:
            conversation["provider"] = next(iter(self._met))
