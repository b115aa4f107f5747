"""Whose a model is: its own name tells, not the server it was called through."""

import pytest

from open_token.readers._model_provider import provider_of


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        (None, None),
        ("", None),
        ("claude-sonnet-4", "anthropic"),
        ("litellm_proxy/anthropic/claude-opus-4", "anthropic"),
        ("anthropic/new-name", "anthropic"),
        ("openai/gpt-4o", "openai"),
        ("o3-mini", "openai"),
        ("azure/o4-mini", "openai"),
        ("gemini/gemini-2.5-pro", "google"),
        ("ollama/llama3.1", "meta"),
        ("ollama/qwen3", "other"),
        ("openai/qwen3", "other"),
        ("olmo-2", "other"),
    ],
)
def test_provider(model: str | None, provider: str | None) -> None:
    assert provider_of(model) == provider
