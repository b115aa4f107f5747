"""How each agent is told to ask a provider on this machine: by variables, and by words of its
command."""

import msgspec

KEY = "replay"
"""What stands for an API key; nobody checks it."""
MODEL = "replay"


class Setting(msgspec.Struct, frozen=True):
    """The variables of one agent, and the command line to start it with."""

    title: str
    env: dict[str, str]
    command: str
    """What to type, after the variables are set."""


def settings(url: str) -> dict[str, Setting]:
    """Every agent that is known, by its name."""
    return {
        "claude-code": Setting("Claude Code", _claude(url), 'claude -p "..."'),
        "codex": Setting("Codex CLI", {"OPENAI_API_KEY": KEY}, f'codex exec {_codex(url)} "..."'),
        "gemini-cli": Setting("Gemini CLI", _gemini(url), 'gemini -m gemini-2.5-pro -p "..."'),
        "qwen-code": Setting(
            "Qwen Code", {**_openai(url), "OPENAI_MODEL": MODEL}, 'qwen --auth-type openai -p "..."'
        ),
        "opencode": Setting("OpenCode", _opencode(url), f'opencode run -m {KEY}/{MODEL} "..."'),
        "copilot-cli": Setting("GitHub Copilot CLI", _copilot(url), 'copilot -p "..."'),
        "openai": Setting("OpenAI SDKs", _openai(url), ""),
    }


def variables(url: str, name: str | None) -> dict[str, str]:
    """The variables of one agent, or of all of them; this machine is asked without a proxy."""
    found = {
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "OPEN_TOKEN_REPLAY_URL": url,
    }
    for known, setting in settings(url).items():
        if name is None or known == name:
            found |= setting.env
    return found


def _claude(url: str) -> dict[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **quiet}


def _codex(url: str) -> str:
    """Codex takes a provider of one's own from its settings alone, which words of its command can
    be."""
    told = f'{{name="{KEY}",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses",supports_websockets=false}}'
    return f"-c model_provider={KEY} -c 'model_providers.{KEY}={told}'"


def _gemini(url: str) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}


def _openai(url: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}


def _opencode(url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": KEY,
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"name": MODEL}},
    }
    return {"OPENCODE_CONFIG_CONTENT": msgspec.json.encode({"provider": {KEY: provider}}).decode()}


def _copilot(url: str) -> dict[str, str]:
    provider = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": KEY}
    return {**provider, "COPILOT_MODEL": MODEL, "COPILOT_OFFLINE": "true"}
