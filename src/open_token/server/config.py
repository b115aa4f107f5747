"""How a server is set up: flags, then the environment, then the settings file; one table for all three."""

from pathlib import Path
from typing import Any

from msgspec import Struct, field


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one client may take up."""

    body_bytes: int = 8 << 20
    upload_bytes: int = 256 << 20
    event_bytes: int = 1 << 20
    frame_bytes: int = 256 << 10
    """A result that is longer becomes a blob with a preview."""
    requests_per_minute: int = 1200
    events_per_minute: int = 1200
    connections_per_user: int = 100
    pending_packets: int = 2000
    pending_bytes: int = 2 << 20
    """More that a socket has not taken, and it is dropped."""
    runs: int = 100
    """Agents that work at once on this node."""
    workspace_bytes: int = 1 << 30


PROVIDERS = ("anthropic", "openai", "google", "recorded")
"""What may stand before the colon in the name of a model."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set; each is a flag, OPEN_TOKEN_SERVER_<NAME>, or a key of [server] in config.toml."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 8020
    role: str = "all"
    database: str | None = None
    """A postgresql:// address; without one the data folder holds an SQLite database."""
    redis: str | None = None
    cors: tuple[str, ...] = ()
    """Pages of other origins that may call; none by default."""
    model: str | None = None
    """The default model; without one the first provider that has a key, else `demo`."""
    base_url: str | None = None
    """An OpenAI-compatible service: Ollama, vLLM, llama.cpp."""
    models: tuple[str, ...] = ()
    """Further models to offer."""
    allow_unsandboxed: bool = False
    tools_module: str | None = None
    """A Python module whose TOOLS are offered to agents."""
    mcp: dict[str, Any] = field(default_factory=dict)
    """MCP servers by name, as clients write them: {command, args, env} or {url, headers}."""
    skills: tuple[Path, ...] = ()
    """Folders with skills in them."""
    display_names: dict[str, str] = field(default_factory=dict)
    """Other names of tools for people."""
    memory: bool = True
    sharing: bool = True
    max_turns: int = 50
    compact_at: float = 0.8
    """The share of the window at which a conversation is compacted."""
    model_timeout: float = 120.0
    tool_timeout: float = 120.0
    schedule_grace: float = 3600.0
    """A scheduled run that is late by more seconds, as after downtime, is not made up for."""
    public_url: str | None = None
    log: str = "text"
    """How requests are told on stderr: text, json or off."""
    limits: Limits = Limits()
