"""Providers: which one of the specification is behind the names of providers and models."""

import re
from functools import lru_cache

from open_token.model.document import Conversation

_PROVIDER_PATTERNS = (
    ("anthropic", re.compile("anthropic|claude")),
    ("openai", re.compile("openai|chatgpt|codex|^azure|^gpt-")),
    ("google", re.compile("google|gemini|gemma|vertex|^gcp")),
    ("meta", re.compile("(?<![a-z])(?:meta(?![a-z])|llama)")),
)
_MODEL_PATTERNS = (
    ("openai", re.compile("^o[134](?![a-z])|^computer-use")),
    ("anthropic", re.compile("claude")),
    ("google", re.compile("gemini|gemma")),
    ("meta", re.compile("llama")),
    ("openai", re.compile("gpt|codex")),
)
_MAX_NAME_LENGTH = 200


def identify_provider(model: str | None, named: str | None = None) -> str | None:
    """Return the provider by the runtime's name for it, else by the model.

    `other` is a provider that is not on the list; None means that neither name is known.
    """
    return _identify_known(named, model) or ("other" if named or model else None)


def _identify_known(named: str | None, model: str | None) -> str | None:
    provider = _match_provider(named[:_MAX_NAME_LENGTH]) if named else None
    if provider is None and model:
        provider = _match_model(model[:_MAX_NAME_LENGTH])
    return provider


@lru_cache(256)
def _match_provider(name: str) -> str | None:
    name = name.lower()
    return next((known for known, pattern in _PROVIDER_PATTERNS if pattern.search(name)), None)


@lru_cache(256)
def _match_model(model: str) -> str | None:
    # What is before the last slash is the server or the library that the model was called through.
    *prefixes, name = model.lower().split("/")
    for provider, pattern in _MODEL_PATTERNS:
        if pattern.search(name):
            return provider
    return next((known for known in ("anthropic", "google") if known in prefixes), None)


class ProviderTracker:
    """The providers in a conversation: if there is only one, it is that of the conversation."""

    def __init__(self) -> None:
        self._providers: set[str] = set()

    def add_model(self, named: str | None, model: str | None) -> str | None:
        """Add the provider of a model; return the runtime's name for it, else the known name."""
        known = _identify_known(named, model)
        if known or named:
            self._providers.add(known or "other")
        return named or known

    def set_provider(self, conversation: Conversation) -> None:
        """Set the provider of the conversation if there is just one."""
        if len(self._providers) == 1:
            conversation["provider"] = next(iter(self._providers))
