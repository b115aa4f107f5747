"""The settings of a server.

The docstring of each field is its description in docs/reference/settings.md, which is generated
from here."""

from pathlib import Path
from typing import Any

from msgspec import Struct, field


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits per client."""

    body_bytes: int = 8 << 20
    """Size of a request body."""
    upload_bytes: int = 256 << 20
    """Size of an upload or an import; a zip may unpack to eight times as much."""
    bodies_bytes: int = 1 << 30
    """Total size of the request bodies of a user that are in flight."""
    event_bytes: int = 1 << 20
    """Size of an event sent over a socket."""
    attachment_bytes: int = 20 << 20
    """Size of the files of one message, inline or uploaded before."""
    frame_bytes: int = 256 << 10
    """Size of a tool result in the log; a longer one becomes a blob with a preview."""
    requests_per_minute: int = 1200
    """Requests per user, or per address without a known key."""
    events_per_minute: int = 1200
    """Events that a user sends over sockets."""
    connections_per_user: int = 100
    """Open sockets and event streams of a user, and concurrent requests."""
    pending_packets: int = 2000
    """Unsent packets of a socket; above that it is disconnected and may resume."""
    pending_bytes: int = 2 << 20
    """Size of these packets."""
    runs: int = 100
    """Concurrent runs on this node."""
    runs_per_user: int = 20
    """Concurrent runs of a user on this node; more wait."""
    keys_per_user: int = 100
    """API keys of a user, with those of logins."""
    storage_per_user: int | None = None
    """Size of the sessions and files of a user, measured at most once a minute; by default without
    limit."""
    tasks_per_user: int = 100
    """Scheduled tasks of a user."""
    workspace_bytes: int = 1 << 30
    """Size of the files of one session."""
    command_bytes: int = 2 << 30
    """Memory of a command of an agent, all its processes together."""
    transfer_seconds: int = 900
    """Seconds that a step of an export, an import or a preview may take."""
    transfer_bytes: int = 2 << 30
    """Memory of the process in which a large export, import or preview runs."""


PROVIDERS = ("anthropic", "openai", "google", "recorded")
"""The providers in a model name such as `openai:NAME`."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; each is a flag, OPEN_TOKEN_SERVER_<NAME>, or a key of [server] in config.toml."""

    data: Path
    """The data folder; created if necessary, accessible to this user only."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8020
    """The port to listen on; 0 picks a free one."""
    role: str = "all"
    """The role of the node: `all`, or with several nodes `gateway`, `worker`, `scheduler`."""
    database: str | None = None
    """A `postgresql://` URL, required for several nodes; without it SQLite in the data folder is
    used."""
    redis: str | None = None
    """A `redis://` URL for notifications between nodes; without it PostgreSQL is used."""
    cors: tuple[str, ...] = ()
    """Other origins whose pages may call the API."""
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses and networks of trusted proxies; their `X-Forwarded-For` identifies clients for
    limits."""
    model: str | None = None
    """The default model: `openai:NAME`, `anthropic:NAME`, `google:NAME`, `recorded:FILE`, `demo`;
    by default the first provider with a key, else `demo`."""
    models: tuple[str, ...] = ()
    """Additional models."""
    only_listed_models: bool = False
    """Refuse models that are neither the default nor among `models` nor those of providers with a
    key, as `GET /api/config/models` lists them."""
    base_url: str | None = None
    """The URL of an OpenAI-compatible service, such as Ollama, vLLM or llama.cpp."""
    model_timeout: float = 120.0
    """Seconds without output after which a model call fails."""
    tool_timeout: float = 120.0
    """Seconds after which a tool call fails."""
    max_turns: int = 50
    """The maximum number of model calls per message."""
    compact_at: float = 0.8
    """The share of the context window at which a conversation is compacted."""
    allow_unsandboxed: bool = False
    """Allow Bash to run without bubblewrap."""
    tools_module: str | None = None
    """A Python module whose TOOLS are available to agents."""
    mcp: dict[str, Any] = field(default_factory=dict)
    """MCP servers by name: `{command, args, env}` or `{url, headers}`."""
    skills: tuple[Path, ...] = ()
    """Folders with skills."""
    display_names: dict[str, str] = field(default_factory=dict)
    """Display names of tools."""
    memory: bool = True
    """Whether agents have memories."""
    sharing: bool = True
    """Whether sessions can be shared."""
    jwt_keys: str | None = None
    """The key set (JWKS) of an identity provider, a file or URL; its web tokens are then accepted."""
    jwt_issuer: str | None = None
    """The issuer that web tokens must name."""
    jwt_audience: str | None = None
    """The audience that web tokens must name."""
    schedule_grace: float = 3600.0
    """Seconds that a scheduled task may be late, as after downtime; later ones are recorded as
    missed."""
    public_url: str | None = None
    """The public URL of the server, for links to shares."""
    sign_key: Path | None = None
    """A private SSH key, or the `.pub` of one in an SSH agent, with which exports are signed."""
    log: str = "text"
    """The format of the log on stderr: `text`, `json` or `off`."""
    limits: Limits = Limits()
