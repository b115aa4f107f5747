"""Models of providers behind our interface: Anthropic, OpenAI, Google, and whatever speaks as
OpenAI does."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from pydantic_ai import exceptions as faults
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from open_token.server.agent.interface import ModelFault, Piece, Request
from open_token.server.agent.models._parts import messages_of, pieces_of
from open_token.server.config import ServerConfig

_MOST_OUTPUT = 16_384
_WINDOWS = {"anthropic": 200_000, "openai": 128_000, "google": 1_000_000}
_NO_KEY = "none"
"""Local services want a key in the header and do not look at it."""

# The first that a fault is an instance of says what to do about it.
_KINDS: tuple[tuple[type[Exception], str, str], ...] = (
    (
        faults.ModelContextWindowExceededError,
        "context",
        "the conversation is longer than the model's window",
    ),
    (faults.ModelRateLimitError, "rate", "too many requests for now"),
    (faults.ModelQuotaExceededError, "request", "the quota of the account is used up"),
    (faults.ModelTimeoutError, "timeout", "no answer in time"),
    (faults.ModelRequestTimeout, "timeout", "no answer in time"),
    (faults.ModelConnectionError, "server", "the service cannot be reached"),
    (faults.ModelUnavailableError, "server", "the service is overloaded or not there"),
    (faults.ModelServerError, "server", "the service failed"),
    (faults.ModelAuthenticationError, "auth", "the key was refused"),
    (faults.ModelNotFoundError, "request", "there is no such model, or the key may not use it"),
    (faults.ModelRequestRejectedError, "request", "the request was refused"),
)


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "Provided":
    """A model by its name: the provider, a colon, the provider's own name for it."""
    provider, _, model = name.partition(":")
    client = httpx2.AsyncClient(timeout=httpx2.Timeout(config.model_timeout, connect=10))
    return Provided(
        name, _opened(provider, model, config, env, client), client, config.model_timeout
    )


def _opened(
    provider: str,
    model: str,
    config: ServerConfig,
    env: Mapping[str, str],
    client: httpx2.AsyncClient,
) -> LibraryModel:
    if provider == "anthropic":
        key, url = env.get("ANTHROPIC_API_KEY", ""), env.get("ANTHROPIC_BASE_URL")
        return AnthropicModel(
            model, provider=AnthropicProvider(api_key=key, base_url=url, http_client=client)
        )
    if provider == "google":
        key = env.get("GOOGLE_API_KEY") or env.get("GEMINI_API_KEY", "")
        url = env.get("GOOGLE_GEMINI_BASE_URL")
        return GoogleModel(
            model, provider=GoogleProvider(api_key=key, base_url=url, http_client=client)
        )
    key = env.get("OPENAI_API_KEY") or _NO_KEY
    if config.base_url is not None:
        local = OpenAIProvider(base_url=config.base_url, api_key=key, http_client=client)
        return OpenAIChatModel(model, provider=local)
    url = env.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    return OpenAIResponsesModel(
        model, provider=OpenAIProvider(base_url=url, api_key=key, http_client=client)
    )


class Provided:
    """A model of a provider."""

    def __init__(
        self, name: str, model: LibraryModel, client: httpx2.AsyncClient, limit: float
    ) -> None:
        self.name = name
        self.context_window = _WINDOWS.get(name.partition(":")[0], 128_000)
        self._model = model
        self._client = client
        self._limit = limit

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Answer; what goes wrong is a ModelFault that tells the status and the provider's code,
        never content."""
        settings = ModelSettings(timeout=self._limit, max_retries=0)
        if self.name.startswith("anthropic:"):
            settings["max_tokens"] = _MOST_OUTPUT
        told = messages_of(request.messages, self._model.system)
        try:
            async with (
                model_request_stream(
                    self._model,
                    told,
                    model_settings=settings,
                    model_request_parameters=_parameters(request),
                ) as answer,
                contextlib.aclosing(pieces_of(answer)) as pieces,
            ):
                async for piece in pieces:
                    yield piece
        except (faults.AgentRunError, faults.UserError, httpx2.HTTPError) as fault:
            raise self._fault(fault) from None

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    def _fault(self, fault: Exception) -> ModelFault:
        provider = self.name.partition(":")[0]
        kind, words = _kind(fault)
        status = getattr(fault, "status_code", None)
        code = getattr(fault, "provider_error_code", None) or getattr(
            fault, "provider_error_type", None
        )
        beside = ", ".join(str(item) for item in (status, code) if item)
        after = getattr(fault, "retry_after", None)
        return ModelFault(f"{provider}: {words}{f' ({beside})' if beside else ''}", kind, after)


def _kind(fault: Exception) -> tuple[Any, str]:
    for known, kind, words in _KINDS:
        if isinstance(fault, known):
            return kind, words
    status = getattr(fault, "status_code", 0)
    if isinstance(fault, httpx2.TimeoutException):
        return "timeout", "no answer in time"
    if isinstance(fault, httpx2.HTTPError) or status >= 500:
        return "server", "the service broke off its answer" if not status else "the service failed"
    if 400 <= status < 500:
        return "request", "the request was refused"
    return "unknown", f"the answer cannot be read: {type(fault).__name__}"


def _parameters(request: Request) -> ModelRequestParameters:
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
