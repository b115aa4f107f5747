"""Models of Anthropic, OpenAI, Google, and of OpenAI-compatible services."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from open_token.model.agent_settings import AgentSettings
from open_token.server.agent.model_interface import ModelError, Piece, Request
from open_token.server.agent.models import windows
from open_token.server.agent.models.pydantic_ai_adapter import to_pieces, to_pydantic_messages
from open_token.server.config import ServerConfig

_MAX_OUTPUT_TOKENS = 16_384
_ANTHROPIC_CACHES = (
    "anthropic_cache_instructions",
    "anthropic_cache_tool_definitions",
    "anthropic_cache_messages",
)
_THINKING_ON_REQUEST = ("anthropic", "google")
"""Providers whose models show their reasoning only on request; OpenAI has a setting of its own."""
_NO_KEY = "none"
"""Local services require a key in the header but do not check it."""

# The first class that an error is an instance of decides its kind.
_ERROR_KINDS: tuple[tuple[type[Exception], str, str], ...] = (
    (
        errors.ModelContextWindowExceededError,
        "context",
        "the conversation exceeds the context window of the model",
    ),
    (errors.ModelRateLimitError, "rate", "rate limit exceeded"),
    (errors.ModelQuotaExceededError, "request", "the quota of the account is exhausted"),
    (errors.ModelTimeoutError, "timeout", "request timed out"),
    (errors.ModelRequestTimeout, "timeout", "request timed out"),
    (errors.ModelConnectionError, "server", "the service is unreachable"),
    (errors.ModelUnavailableError, "server", "the service is overloaded or unavailable"),
    (errors.ModelServerError, "server", "internal error of the service"),
    (errors.ModelAuthenticationError, "auth", "the API key was rejected"),
    (errors.ModelNotFoundError, "request", "unknown model, or no access with this key"),
    (errors.ModelRequestRejectedError, "request", "the request was rejected"),
)


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "ProviderModel":
    """Open a model by its name, `<provider>:<model>`."""
    provider, _, model = name.partition(":")
    client = httpx2.AsyncClient(timeout=httpx2.Timeout(config.model_timeout, connect=10))
    library_model = _open_library_model(provider, model, config, env, client)
    key = env.get("OPENAI_API_KEY") or _NO_KEY
    base_url = config.base_url if provider == "openai" else None
    return ProviderModel(name, library_model, client, config.model_timeout, base_url, key)


def _open_library_model(
    provider: str,
    model: str,
    config: ServerConfig,
    env: Mapping[str, str],
    client: httpx2.AsyncClient,
) -> LibraryModel:
    if provider == "anthropic":
        key = env.get("ANTHROPIC_API_KEY", "")
        url = env.get("ANTHROPIC_BASE_URL")
        return AnthropicModel(
            model, provider=AnthropicProvider(api_key=key, base_url=url, http_client=client)
        )
    if provider == "google":
        key = env.get("GOOGLE_API_KEY") or env.get("GEMINI_API_KEY", "")
        url = env.get("GOOGLE_GEMINI_BASE_URL")
        return GoogleModel(
            model, provider=GoogleProvider(api_key=key, base_url=url, http_client=client)
        )
    # Local servers speak the older chat protocol of OpenAI, and mostly take any key, but the client
    # insists on one.
    key = env.get("OPENAI_API_KEY") or _NO_KEY
    if config.base_url is not None:
        local = OpenAIProvider(base_url=config.base_url, api_key=key, http_client=client)
        return OpenAIChatModel(model, provider=local)
    url = env.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    return OpenAIResponsesModel(
        model, provider=OpenAIProvider(base_url=url, api_key=key, http_client=client)
    )


class ProviderModel:
    """A model of a provider."""

    def __init__(
        self,
        name: str,
        model: LibraryModel,
        client: httpx2.AsyncClient,
        limit: float,
        base_url: str | None,
        key: str,
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._key = key
        self._model = model
        self._client = client
        self._limit = limit

    @property
    def context_window(self) -> int:
        """The context window, as far as it is known."""
        return windows.get_window(self.name, self._base_url)

    async def ask_window(self) -> None:
        """Ask an OpenAI-compatible service for the context window."""
        if self._base_url is not None:
            model = self.name.partition(":")[2]
            await windows.ask_window(self._client, self._base_url, model, self._key)

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Stream an answer; raise ModelError with status and code of the provider, not content."""
        settings = self._build_settings(request.settings)
        messages = to_pydantic_messages(request.messages, self._model.system)
        try:
            async with (
                model_request_stream(
                    self._model,
                    messages,
                    model_settings=settings,
                    model_request_parameters=_build_parameters(request),
                ) as answer,
                contextlib.aclosing(to_pieces(answer)) as pieces,
            ):
                async for piece in pieces:
                    yield piece
        except (errors.AgentRunError, errors.UserError, httpx2.HTTPError) as error:
            raise self._translate(error) from None

    def _build_settings(self, agent: AgentSettings) -> ModelSettings:
        settings = ModelSettings(timeout=self._limit, max_retries=0)
        provider = self.name.partition(":")[0]
        if agent.temperature is not None:
            settings["temperature"] = agent.temperature
        if agent.max_output_tokens is not None:
            settings["max_tokens"] = agent.max_output_tokens
        thinking = self._choose_thinking(provider, agent)
        if thinking is not None:
            settings["thinking"] = thinking
        if provider == "anthropic":
            limit = agent.max_output_tokens or _MAX_OUTPUT_TOKENS
            # The limit of the provider includes the thinking, and must be above it.
            budget = ANTHROPIC_THINKING_BUDGET_MAP[thinking] if thinking else 0
            settings["max_tokens"] = limit if limit > budget else limit + budget
            # The provider charges a tenth for what it has cached: instructions, tools, history.
            for name in _ANTHROPIC_CACHES:
                settings[name] = True  # type: ignore[literal-required]
        is_responses = isinstance(self._model, OpenAIResponsesModel)
        if is_responses and self._can_think and thinking is not False:
            settings["openai_reasoning_summary"] = "auto"  # type: ignore[typeddict-unknown-key]
        return settings

    def _choose_thinking(self, provider: str, agent: AgentSettings) -> ThinkingLevel | None:
        """Return the thinking to ask for; None leaves it to the provider."""
        if agent.thinking is False:
            return False
        if agent.effort is not None:
            return agent.effort
        if agent.thinking or (provider in _THINKING_ON_REQUEST and self._can_think):
            # Providers that think on request refuse a temperature together with it.
            if agent.thinking is None and agent.temperature is not None:
                return None
            return True
        return None

    @property
    def _can_think(self) -> bool:
        return bool(self._model.profile.get("supports_thinking", False))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _translate(self, error: Exception) -> ModelError:
        provider = self.name.partition(":")[0]
        kind, reason = _classify(error)
        status = getattr(error, "status_code", None)
        code = getattr(error, "provider_error_code", None)
        if not code:
            code = getattr(error, "provider_error_type", None)
        details = ", ".join(str(item) for item in (status, code) if item)
        message = f"{provider}: {reason}"
        if details:
            message += f" ({details})"
        return ModelError(message, kind, getattr(error, "retry_after", None))


def _classify(error: Exception) -> tuple[Any, str]:
    """Return the kind of an error, and its description for the user."""
    for error_type, kind, reason in _ERROR_KINDS:
        if isinstance(error, error_type):
            return kind, reason
    status = getattr(error, "status_code", 0)
    if isinstance(error, httpx2.TimeoutException):
        return "timeout", "request timed out"
    if status >= 500:
        return "server", "internal error of the service"
    if isinstance(error, httpx2.HTTPError):
        return "server", "the connection was closed during the answer"
    if 400 <= status < 500:
        return "request", "the request was rejected"
    return "unknown", f"invalid answer: {type(error).__name__}"


def _build_parameters(request: Request) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=spec.name,
            description=spec.description,
            parameters_json_schema=spec.parameters,
            strict=False,
        )
        for spec in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)
