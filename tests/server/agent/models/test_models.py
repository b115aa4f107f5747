"""Which models are offered, and which are refused."""

import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic.resources.messages import messages

from open_token.server.agent.models import build_registry
from open_token.server.config import ServerConfig
from open_token.server.errors import ApiError


def made(env: dict[str, str], **config: Any) -> Any:
    return build_registry(ServerConfig(data=Path("data"), **config), env)


@pytest.mark.parametrize(
    ("env", "config", "default", "offered"),
    [
        ({}, {}, "demo", ["demo"]),
        (
            {"ANTHROPIC_API_KEY": "k"},
            {},
            "anthropic:claude-sonnet-4-6",
            ["anthropic:claude-sonnet-4-6", "demo"],
        ),
        ({"OPENAI_API_KEY": "k"}, {}, "openai:gpt-5", ["openai:gpt-5", "demo"]),
        ({"GEMINI_API_KEY": "k"}, {"model": "demo"}, "demo", ["demo", "google:gemini-2.5-pro"]),
        (
            {},
            {"model": "openai:llama", "base_url": "http://x"},
            "openai:llama",
            ["openai:llama", "demo"],
        ),
        ({}, {"models": ("recorded:a.json",)}, "demo", ["recorded:a.json", "demo"]),
    ],
)
def test_what_is_offered(
    env: dict[str, str], config: Any, default: str, offered: list[str]
) -> None:
    models = made(env, **config)
    assert models.default == default
    assert [model["id"] for model in models.offered] == offered
    assert all(model.keys() == {"id", "name", "label"} for model in models.offered)


def test_the_default_of_anthropic_is_not_about_to_end() -> None:
    provider, _, model = made({"ANTHROPIC_API_KEY": "k"}).default.partition(":")
    assert provider == "anthropic"
    assert model not in messages.DEPRECATED_MODELS


@pytest.mark.parametrize(
    "name", ["", "nobody", "nobody:x", "openai:", "anthropic:x", "recorded:../x", "recorded:.x"]
)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        made({}).open(name)
    assert refused.value.status == 422


def test_the_demo_needs_no_provider() -> None:
    loaded = "open_token.server.agent.models.providers" in sys.modules
    model = made({}).open("demo")
    assert model.name == "demo"
    assert made({}).window("demo") == model.context_window
    assert ("open_token.server.agent.models.providers" in sys.modules) == loaded
