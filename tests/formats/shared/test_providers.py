"""Who stands behind the names of providers and models."""

import pytest

from open_token.formats.shared.providers import ProviderTracker, identify_provider
from open_token.model.document import Conversation


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        (None, None),
        ("", None),
        ("claude-sonnet-4", "anthropic"),
        ("litellm_proxy/anthropic/claude-opus-4", "anthropic"),
        ("us.anthropic.claude-sonnet-4-v1:0", "anthropic"),
        ("anthropic/new-name", "anthropic"),
        ("openai/gpt-4o", "openai"),
        ("ft:gpt-4o:org", "openai"),
        ("o3-mini", "openai"),
        ("azure/o4-mini", "openai"),
        ("gemini/gemini-2.5-pro", "google"),
        ("ollama/llama3.1", "meta"),
        ("ollama/qwen3", "other"),
        ("openai/qwen3", "other"),
        ("olmo-2", "other"),
    ],
)
def test_a_model_is_known_by_its_own_name_not_by_its_server(
    model: str | None, provider: str | None
) -> None:
    assert identify_provider(model) == provider


@pytest.mark.parametrize(
    ("named", "model", "provider"),
    [
        ("OpenAI", None, "openai"),
        ("azure_ai_openai", "my-deployment", "openai"),
        ("gcp.vertex_ai", None, "google"),
        ("google-genai", "gemini-2.5-pro", "google"),
        ("aws.bedrock", "anthropic.claude-sonnet-4", "anthropic"),
        ("ollama", "qwen3", "other"),
        ("meta-llama", None, "meta"),
        ("groq", None, "other"),
        ("x" * 1_000_000, "y" * 1_000_000, "other"),
    ],
)
def test_what_the_runtime_calls_the_provider_comes_first(
    named: str, model: str | None, provider: str
) -> None:
    assert identify_provider(model, named) == provider


def test_a_conversation_has_a_provider_when_there_is_one() -> None:
    met = ProviderTracker()
    assert met.add_model("github-copilot", "claude-sonnet-4") == "github-copilot"
    assert met.add_model(None, "claude-haiku") == "anthropic"
    assert met.add_model(None, "no-one-knows") is None
    conversation: Conversation = {"id": "c"}
    met.set_provider(conversation)
    assert conversation["provider"] == "anthropic"
    met.add_model("openai", None)
    none: Conversation = {"id": "c"}
    met.set_provider(none)
    assert "provider" not in none
