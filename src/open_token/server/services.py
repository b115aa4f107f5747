"""What the parts of a running server share, put together once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from open_token.server.bus.interface import Bus
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.journal import Journal
from open_token.server.metrics import Metrics
from open_token.server.recent import Recent
from open_token.server.store.interface import Store

if TYPE_CHECKING:
    from open_token.server.agent.tools.toolbox import Toolbox
    from open_token.server.background import Tasks
    from open_token.server.chat import Chat
    from open_token.server.connections import Connections
    from open_token.server.feed import Feed
    from open_token.server.replay import Replays
    from open_token.server.runs import Runner
    from open_token.server.schedules import Schedules
    from open_token.server.workspace import Workspaces


@dataclass
class Services:
    """Everything that routes, sockets, runs and tools need; made by `open_token.server.start`."""

    config: ServerConfig
    store: Store
    bus: Bus
    clock: Clock
    journal: Journal
    env: Mapping[str, str]
    """The environment of the server: provider keys, nothing else is taken from it."""
    metrics: Metrics = field(default_factory=Metrics)
    recent: Recent = field(default_factory=Recent)
    chat: "Chat" = field(init=False)
    runner: "Runner" = field(init=False)
    replays: "Replays" = field(init=False)
    workspaces: "Workspaces" = field(init=False)
    feed: "Feed" = field(init=False)
    connections: "Connections" = field(init=False)
    tasks: "Tasks" = field(init=False)
    toolbox: "Toolbox" = field(init=False)
    schedules: "Schedules" = field(init=False)
