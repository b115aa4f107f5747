"""How each agent is configured to use this machine."""

import json
import shlex
import tomllib
from itertools import pairwise

from open_token.replay.agents import build_environment, build_settings

URL = "http://127.0.0.1:9"


def test_every_variable_leads_here() -> None:
    found = build_environment(URL, None)
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OPEN_TOKEN_REPLAY_URL"):
        assert found[name] == URL
    for name in ("OPENAI_BASE_URL", "COPILOT_PROVIDER_BASE_URL"):
        assert found[name] == f"{URL}/v1"
    config = json.loads(found["OPENCODE_CONFIG_CONTENT"])
    assert config["provider"]["replay"]["options"]["baseURL"] == f"{URL}/v1"
    assert "127.0.0.1" in found["NO_PROXY"]


def test_those_of_one_agent_alone() -> None:
    found = build_environment(URL, "gemini-cli")
    assert "GEMINI_API_KEY" in found
    assert "ANTHROPIC_BASE_URL" not in found


def test_codex_options_are_settings() -> None:
    words = shlex.split(build_settings(URL)["codex"].command)
    result = [word for before, word in pairwise(words) if before == "-c"]
    assert result[0] == "model_provider=replay"
    provider = tomllib.loads(result[1])["model_providers"]["replay"]
    assert provider["base_url"] == f"{URL}/v1"
