"""The registry of models; packages of providers are imported when a model is opened."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from open_token.server.agent.model_interface import Model
from open_token.server.agent.models import windows
from open_token.server.config import ServerConfig
from open_token.server.errors import bad_request

DEMO = "demo"
_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
_DEFAULT_MODELS = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-5", "google": "gemini-2.5-pro"}
_PROVIDERS = ("demo", "recorded", "anthropic", "openai", "google")
_MAX_NAME_LENGTH = 500


class ModelRegistry(Struct, frozen=True):
    """The models that are available to a server."""

    config: ServerConfig
    env: Mapping[str, str]
    default: str
    offered: list[dict[str, str]]

    def check(self, name: str) -> str:
        """Return the provider of a model; raise Refused if the model or its API key is missing."""
        if name == DEMO:
            return DEMO
        provider, _, rest = name.partition(":")
        if provider not in _PROVIDERS or not rest or len(name) > _MAX_NAME_LENGTH:
            raise bad_request(
                "unknown model; GET /api/config/models lists the available models",
                "no_model",
            )
        if self.config.only_listed_models and name not in self._list_names():
            raise bad_request(
                "model not allowed; GET /api/config/models lists the available models",
                "no_model",
            )
        if provider in _KEYS and not self._has_key(provider):
            raise bad_request(
                f"no API key for {provider}: set {_KEYS[provider][0]} for the server",
                "no_model_key",
            )
        return provider

    def _list_names(self) -> list[str]:
        return [model["id"] for model in self.offered]

    def window(self, name: str) -> int:
        """Return the context window of a model, as far as it is known without a request."""
        return windows.get_window(name, self.config.base_url)

    def open(self, name: str) -> Model:
        """Open a model by its name; raise Refused if there is none."""
        provider = self.check(name)
        if provider == "demo":
            from open_token.server.agent.models import demo

            return demo.open_model(name, self.config, self.env)
        if provider == "recorded":
            from open_token.server.agent.models import recorded

            return recorded.open_model(name, self.config, self.env)
        from open_token.server.agent.models import providers

        return providers.open_model(name, self.config, self.env)

    def needs_providers(self) -> bool:
        """Return whether a model of a provider may be opened."""
        return any(self._has_key(provider) for provider in _KEYS)

    def _has_key(self, provider: str) -> bool:
        is_local = provider == "openai" and self.config.base_url is not None
        return is_local or any(self.env.get(key) for key in _KEYS[provider])


def import_providers() -> None:
    """Import the packages of providers, which takes seconds."""
    import open_token.server.agent.models.providers  # noqa: F401


def build_registry(config: ServerConfig, env: Mapping[str, str]) -> ModelRegistry:
    """Build the registry: a model of each provider with a key, configured models, the demo."""
    with_key: list[str] = []
    for provider, variables in _KEYS.items():
        if any(env.get(variable) for variable in variables):
            with_key.append(provider)
    names = [f"{provider}:{_DEFAULT_MODELS[provider]}" for provider in with_key]
    # With a base URL, `openai:` means that server, which hardly has the default model of OpenAI.
    if config.base_url is not None:
        names = [name for name in names if not name.startswith("openai:")]
    configured = list(config.models)
    if config.model:
        configured.insert(0, config.model)
    names = list(dict.fromkeys([*configured, *names, DEMO]))
    default = config.model or _choose_default(names, with_key)
    return ModelRegistry(config, env, default, [_describe(name) for name in names])


def _choose_default(names: list[str], providers: list[str]) -> str:
    for name in names:
        if name.partition(":")[0] in providers:
            return name
    return DEMO


def _describe(name: str) -> dict[str, Any]:
    provider, _, model = name.partition(":")
    if name == DEMO:
        label = "Demo (offline)"
    else:
        label = f"{model} ({provider})"
    return {"id": name, "name": model or name, "label": label}
