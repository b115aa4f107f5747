"""How each agent is pointed at a provider on this machine: variables and command line."""

import msgspec

from open_token.formats.definition import Replay
from open_token.registry import list_agents

# Programs that are no agent but read the variables of OpenAI's SDKs.
_OPENAI_SDKS = Replay(env={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "replay"})


class Setting(msgspec.Struct, frozen=True):
    """The environment variables of one agent, and the command to start it."""

    title: str
    env: dict[str, str]
    command: str


def build_settings(url: str) -> dict[str, Setting]:
    """Return the settings of every agent that can be replayed, by name."""
    settings = {
        agent.label: _fill_url(agent.title, agent.replay, url)
        for agent in list_agents()
        if agent.replay
    }
    return settings | {"openai": _fill_url("OpenAI SDKs", _OPENAI_SDKS, url)}


def _fill_url(title: str, replay: Replay, url: str) -> Setting:
    env = {name: value.replace("{url}", url) for name, value in replay.env.items()}
    return Setting(title, env, replay.command.replace("{url}", url))


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
