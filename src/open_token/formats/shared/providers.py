"""Which of the spec's providers stands behind the names that runtimes give to providers and
models."""

import re
from functools import lru_cache

from open_token.model.document import Conversation

_NAMES = (
    ("anthropic", re.compile("anthropic|claude")),
    ("openai", re.compile("openai|chatgpt|codex|^azure|^gpt-")),
    ("google", re.compile("google|gemini|gemma|vertex|^gcp")),
    ("meta", re.compile("(?<![a-z])(?:meta(?![a-z])|llama)")),
)
_MODELS = (
    ("openai", re.compile("^o[134](?![a-z])|^computer-use")),
    ("anthropic", re.compile("claude")),
    ("google", re.compile("gemini|gemma")),
    ("meta", re.compile("llama")),
    ("openai", re.compile("gpt|codex")),
)
_LONGEST = 200


def provider_of(model: str | None, named: str | None = None) -> str | None:
    """The provider by the runtime's name for it, else by the model's; `other`: not on the list;
    None: neither known."""
    return _known(named, model) or ("other" if named or model else None)


def _known(named: str | None, model: str | None) -> str | None:
    return (_by_name(named[:_LONGEST]) if named else None) or (
        _by_model(model[:_LONGEST]) if model else None
    )


@lru_cache(256)
def _by_name(named: str) -> str | None:
    named = named.lower()
    return next((provider for provider, mark in _NAMES if mark.search(named)), None)


@lru_cache(256)
def _by_model(model: str) -> str | None:
    # What stands before the last slash is the server or the library that it was called through.
    *before, name = model.lower().split("/")
    found = next((provider for provider, mark in _MODELS if mark.search(name)), None)
    return found or next(
        (provider for provider in ("anthropic", "google") if provider in before), None
    )


class Providers:
    """The providers met in a conversation: one is the conversation's own, of several none is."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def meet(self, named: str | None, model: str | None) -> str | None:
        """A model spoke; gives its provider: the runtime's own name for it, else what the model's
        name tells."""
        known = _known(named, model)
        if known or named:
            self._met.add(known or "other")
        return named or known

    def settle(self, conversation: Conversation) -> None:
        """Enter the provider of the conversation when there is just one."""
        if len(self._met) == 1:
            conversation["provider"] = next(iter(self._met))
