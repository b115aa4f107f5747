"""The container of everything that routes, sockets, runs and tools share."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from open_token.server.bus.interface import Bus
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.journal import Journal
from open_token.server.metrics import Metrics
from open_token.server.store.interface import Store


class ResponseCache:
    """Bytes by name with LRU eviction; an entry is stale once the log has grown."""

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def get(self, name: str, sequence: int) -> bytes | None:
        """Return the response of exactly this sequence."""
        entry = self._entries.get(name)
        if entry is None or entry[0] != sequence:
            return None
        self._entries.move_to_end(name)
        return entry[1]

    def put(self, name: str, sequence: int, data: bytes) -> None:
        """Replace the response of a name; one above an eighth of the cache is not stored."""
        self.forget(name)
        if len(data) > self._max_bytes // 8:
            return
        self._entries[name] = (sequence, data)
        self._size += len(data)
        while self._size > self._max_bytes:
            _, (_, evicted) = self._entries.popitem(last=False)
            self._size -= len(evicted)

    def forget(self, name: str) -> None:
        """Remove the response of a name."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._size -= len(entry[1])


if TYPE_CHECKING:
    from open_token.server.agent.tools.toolbox import Toolbox
    from open_token.server.core.background_tasks import BackgroundTasks
    from open_token.server.core.chat import Chat
    from open_token.server.core.replay import Replays
    from open_token.server.core.runs import Runner
    from open_token.server.core.schedules import Schedules
    from open_token.server.core.storage_quota import StorageQuota
    from open_token.server.core.webhooks import WebhookSender
    from open_token.server.core.workspace import Workspaces
    from open_token.server.transfers.jobs import Jobs
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
    jobs: "Jobs" = field(init=False)
    chat: "Chat" = field(init=False)
    runner: "Runner" = field(init=False)
    replays: "Replays" = field(init=False)
    workspaces: "Workspaces" = field(init=False)
    storage: "StorageQuota" = field(init=False)
    feed: "Feed" = field(init=False)
    connections: "Connections" = field(init=False)
    tasks: "BackgroundTasks" = field(init=False)
    toolbox: "Toolbox" = field(init=False)
    schedules: "Schedules" = field(init=False)
    webhooks: "WebhookSender" = field(init=False)
