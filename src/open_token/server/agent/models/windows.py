"""The context windows of models: known by provider, or asked of an OpenAI-compatible service."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2

_BY_PROVIDER = {
    "demo": 32_000,
    "anthropic": 200_000,
    "openai": 128_000,
    "google": 1_000_000,
    "recorded": 200_000,
}
_DEFAULT = 128_000
_TIMEOUT = 3.0
_MAX_ANSWER = 8 << 20
_MAX_WINDOW = 1_000_000_000
# A model in the list of models has its window in one of these fields: vLLM and SGLang, OpenRouter
# and Together, Groq, Mistral.
_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
_reported: dict[tuple[str, str], int] = {}
"""What services have reported, by URL and model: each is asked until it has answered."""


def get_window(name: str, base_url: str | None) -> int:
    """Return the context window of a model, as far as it is known without a request."""
    provider, _, model = name.partition(":")
    known = _BY_PROVIDER.get(provider, _DEFAULT)
    if provider != "openai" or base_url is None:
        return known
    return _reported.get((base_url, model), known)


async def ask_window(client: httpx2.AsyncClient, base_url: str, model: str, key: str) -> None:
    """Ask a service for the window of a model; one that does not say has the usual window."""
    if (base_url, model) in _reported:
        return
    root = base_url.rstrip("/")
    headers = {"Authorization": f"Bearer {key}"}
    listed = await _get_json(client, f"{root}/models", headers)
    window = _find_listed_window(listed, model)
    if window is None:
        # llama.cpp lists the window of the training, and says here with which one it runs.
        properties = await _get_json(client, f"{root.removesuffix('/v1')}/props", headers)
        window = _to_window(_get(_get(properties, "default_generation_settings"), "n_ctx"))
    if window is not None:
        _reported[base_url, model] = window


async def _get_json(client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]) -> Any:
    """Return an answer as JSON; None if there is none, because services need not have it.

    An answer that is long, or comes slowly, counts as none: a run waits for it.
    """
    data = bytearray()
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                return None
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > _MAX_ANSWER:
                    return None
        return json.loads(data)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, RecursionError):
        return None


def _find_listed_window(listed: Any, model: str) -> int | None:
    items = _get(listed, "data")
    if not isinstance(items, list):
        return None
    for item in items:
        if _get(item, "id") == model:
            windows = [_to_window(item.get(field)) for field in _FIELDS]
            return next((window for window in windows if window is not None), None)
    return None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _to_window(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_WINDOW:
        return value
    return None
