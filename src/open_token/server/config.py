"""How a server is set up: flags, then the environment, then the settings file; one table for all
three.

The words below each setting are those of docs/reference/settings.md, which is made from here."""

from pathlib import Path
from typing import Any

from msgspec import Struct, field


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one client may take up."""

    body_bytes: int = 8 << 20
    """The body of a request."""
    upload_bytes: int = 256 << 20
    """An upload or an import; unpacked, a zip may hold eight times as much."""
    bodies_bytes: int = 1 << 30
    """The bodies of a key's requests that are under way, together."""
    event_bytes: int = 1 << 20
    """An event that a socket sends."""
    frame_bytes: int = 256 << 10
    """A tool's result in one piece; a longer one becomes a blob with a preview."""
    requests_per_minute: int = 1200
    """Requests of a key, or of an address without a key that is known."""
    events_per_minute: int = 1200
    """Events that a person sends over sockets."""
    connections_per_user: int = 100
    """Sockets and streams that a person has open, and requests at once."""
    pending_packets: int = 2000
    """Packets that a socket has not taken; then it is dropped, and may go on from its sequence."""
    pending_bytes: int = 2 << 20
    """Bytes of them."""
    runs: int = 100
    """Agents that work at once on this node."""
    workspace_bytes: int = 1 << 30
    """The files of one session."""


PROVIDERS = ("anthropic", "openai", "google", "recorded")
"""What may stand before the colon in the name of a model."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set; each is a flag, OPEN_TOKEN_SERVER_<NAME>, or a key of [server] in
    config.toml."""

    data: Path
    """The folder of the server's data; made when it is not there, for this user only."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8020
    """The port to listen on; 0 is any that is free."""
    role: str = "all"
    """What a node does: `all`; with several nodes also `gateway`, `worker`, `scheduler`."""
    database: str | None = None
    """A `postgresql://` address, for several nodes; without one the data folder holds an SQLite
    database."""
    redis: str | None = None
    """A `redis://` address: how several nodes tell each other; without one PostgreSQL does it."""
    cors: tuple[str, ...] = ()
    """Pages of other origins that may call."""
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses and networks of proxies, whose `X-Forwarded-For` is believed: limits count clients
    by it."""
    model: str | None = None
    """The default model: `openai:NAME`, `anthropic:NAME`, `google:NAME`, `recorded:FILE`, `demo`;
    without one the first provider that has a key, else `demo`."""
    models: tuple[str, ...] = ()
    """Further models to offer."""
    base_url: str | None = None
    """An OpenAI-compatible service: Ollama, vLLM, llama.cpp."""
    model_timeout: float = 120.0
    """Seconds that a model may be silent."""
    tool_timeout: float = 120.0
    """Seconds that a tool may take."""
    max_turns: int = 50
    """How often a model is called for one message, at most."""
    compact_at: float = 0.8
    """The share of the model's window at which a conversation is made shorter."""
    allow_unsandboxed: bool = False
    """Let Bash run where bubblewrap is missing."""
    tools_module: str | None = None
    """A Python module whose TOOLS are offered to agents."""
    mcp: dict[str, Any] = field(default_factory=dict)
    """MCP servers by name, as clients write them: `{command, args, env}` or `{url, headers}`."""
    skills: tuple[Path, ...] = ()
    """Folders with skills in them."""
    display_names: dict[str, str] = field(default_factory=dict)
    """Other names of tools for people."""
    memory: bool = True
    """Whether agents remember."""
    sharing: bool = True
    """Whether sessions can be shared."""
    schedule_grace: float = 3600.0
    """Seconds that a scheduled task may be late, as after downtime; a later one is recorded as
    missed."""
    public_url: str | None = None
    """How others reach the server, for the links of shares."""
    sign_key: Path | None = None
    """A private SSH key, or the `.pub` of one in an agent: exports that clients ask for are signed
    with it."""
    log: str = "text"
    """How requests are told on stderr: `text`, `json` or `off`."""
    limits: Limits = Limits()
