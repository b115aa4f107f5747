"""Which models there are, by name; a provider's packages are loaded when one of its models is
opened."""

import importlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from open_token.server.agent.interface import Model
from open_token.server.config import ServerConfig
from open_token.server.refusals import bad

DEMO = "demo"
_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
_FIRST = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5", "google": "gemini-2.5-pro"}
_WINDOWS = {
    "demo": 32_000,
    "anthropic": 200_000,
    "openai": 128_000,
    "google": 1_000_000,
    "recorded": 200_000,
}
_ROOM = "open_token.server.agent.models"
# Loaded late: the packages of providers take a second to import, and a server without a key never
# needs them.
_OPENERS = {
    "demo": "demo",
    "recorded": "recorded",
    "anthropic": "providers",
    "openai": "providers",
    "google": "providers",
}


class Catalogue(Struct, frozen=True):
    """The models that a server can talk with."""

    config: ServerConfig
    env: Mapping[str, str]
    default: str
    offered: list[dict[str, str]]

    def check(self, name: str) -> str:
        """The provider of a model; Refused when there is no such model or no key for it."""
        if name == DEMO:
            return DEMO
        provider, _, rest = name.partition(":")
        if provider not in _OPENERS or not rest or len(name) > 500:
            raise bad(
                "there is no such model; GET /api/config/models lists those that there are",
                "no_model",
            )
        if provider in _KEYS and not self._has_key(provider):
            raise bad(
                f"no key for {provider}: set {_KEYS[provider][0]} where the server runs",
                "no_model_key",
            )
        return provider

    def window(self, name: str) -> int:
        """How many tokens a model takes, as far as that is known without asking."""
        return _WINDOWS.get(name.partition(":")[0], 128_000)

    def open(self, name: str) -> Model:
        """A model by its name; Refused when there is none."""
        module = importlib.import_module(f"{_ROOM}.{_OPENERS[self.check(name)]}")
        model: Model = module.open_model(name, self.config, self.env)
        return model

    def _has_key(self, provider: str) -> bool:
        is_local = provider == "openai" and self.config.base_url is not None
        return is_local or any(self.env.get(key) for key in _KEYS[provider])


def catalogue(config: ServerConfig, env: Mapping[str, str]) -> Catalogue:
    """What is offered: a model of each provider that has a key, those of the configuration, and the
    demo."""
    with_key = [name for name, keys in _KEYS.items() if any(env.get(key) for key in keys)]
    names = [f"{provider}:{_FIRST[provider]}" for provider in with_key]
    if config.base_url is not None:
        names = [name for name in names if not name.startswith("openai:")]
    further = [config.model, *config.models] if config.model else list(config.models)
    names = list(dict.fromkeys([*further, *names, DEMO]))
    default = config.model or next(
        (name for name in names if name.partition(":")[0] in with_key), DEMO
    )
    return Catalogue(config, env, default, [_shown(name) for name in names])


def _shown(name: str) -> dict[str, Any]:
    provider, _, rest = name.partition(":")
    label = "Demo (offline)" if name == DEMO else f"{rest} ({provider})"
    return {"id": name, "name": rest or name, "label": label}
