"""How each agent is configured to use a provider on this machine: variables and command line."""

import msgspec

KEY = "replay"
"""A placeholder API key; nobody checks it."""
MODEL = "replay"


class Setting(msgspec.Struct, frozen=True):
    """The environment variables of one agent, and the command to start it."""

    title: str
    env: dict[str, str]
    command: str


def build_settings(url: str) -> dict[str, Setting]:
    """Return the settings of all known agents, by name."""
    return {
        "claude-code": Setting("Claude Code", _configure_claude(url), 'claude -p "..."'),
        "codex": Setting(
            "Codex CLI",
            {"OPENAI_API_KEY": KEY},
            f'codex exec {_build_codex_options(url)} "..."',
        ),
        "gemini-cli": Setting(
            "Gemini CLI",
            {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
            'gemini -m gemini-2.5-pro -p "..."',
        ),
        "qwen-code": Setting(
            "Qwen Code",
            {**_configure_openai(url), "OPENAI_MODEL": MODEL},
            'qwen --auth-type openai -p "..."',
        ),
        "opencode": Setting(
            "OpenCode", _configure_opencode(url), f'opencode run -m {KEY}/{MODEL} "..."'
        ),
        "copilot-cli": Setting("GitHub Copilot CLI", _configure_copilot(url), 'copilot -p "..."'),
        "openai": Setting("OpenAI SDKs", _configure_openai(url), ""),
    }


def build_environment(url: str, name: str | None) -> dict[str, str]:
    """Return the variables of one agent, or of all of them; local addresses bypass a proxy."""
    environment = {
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "OPEN_TOKEN_REPLAY_URL": url,
    }
    for agent, setting in build_settings(url).items():
        if name is None or agent == name:
            environment |= setting.env
    return environment


def _configure_claude(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _build_codex_options(url: str) -> str:
    """Return command line options: Codex reads a custom provider only from its settings."""
    provider = (
        f'{{name="{KEY}",base_url="{url}/v1",env_key="OPENAI_API_KEY",'
        'wire_api="responses",supports_websockets=false}'
    )
    return f"-c model_provider={KEY} -c 'model_providers.{KEY}={provider}'"


def _configure_openai(url: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}


def _configure_opencode(url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": KEY,
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"name": MODEL}},
    }
    config = {"provider": {KEY: provider}}
    return {"OPENCODE_CONFIG_CONTENT": msgspec.json.encode(config).decode()}


def _configure_copilot(url: str) -> dict[str, str]:
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
        "COPILOT_OFFLINE": "true",
    }
