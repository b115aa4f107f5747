"""The container of everything that routes, sockets, runs and tools share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from open_token.server.bus.interface import Bus
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.journal import Journal
from open_token.server.core.response_cache import ResponseCache
from open_token.server.metrics import Metrics
from open_token.server.store.interface import Store

if TYPE_CHECKING:
    from open_token.server.agent.tools.toolbox import Toolbox
    from open_token.server.core.background_tasks import BackgroundTasks
    from open_token.server.core.chat import Chat
    from open_token.server.core.replay import Replays
    from open_token.server.core.runs import Runner
    from open_token.server.core.schedules import Schedules
    from open_token.server.core.workspace import Workspaces
    from open_token.server.ws.connections import Connections
    from open_token.server.ws.feed import Feed


@dataclass
class Services:
    """The services of one node; built by `open_token.server.lifecycle.run_services`.

    The fields without a default value need the container themselves and are set right after it
    was created."""

    config: ServerConfig
    store: Store
    bus: Bus
    clock: Clock
    journal: Journal
    env: Mapping[str, str]
    """The environment of the server process; only provider keys are taken from it."""
    metrics: Metrics = field(default_factory=Metrics)
    message_cache: ResponseCache = field(default_factory=ResponseCache)
    chat: "Chat" = field(init=False)
    runner: "Runner" = field(init=False)
    replays: "Replays" = field(init=False)
    workspaces: "Workspaces" = field(init=False)
    feed: "Feed" = field(init=False)
    connections: "Connections" = field(init=False)
    tasks: "BackgroundTasks" = field(init=False)
    toolbox: "Toolbox" = field(init=False)
    schedules: "Schedules" = field(init=False)
