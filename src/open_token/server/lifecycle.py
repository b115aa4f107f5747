"""Start-up and shutdown of the services, in the right order."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from open_token.errors import StoreError
from open_token.server.agent.tools.toolbox import Toolbox
from open_token.server.bus.interface import Bus
from open_token.server.bus.local import LocalBus
from open_token.server.bus.remote import Heads
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.background_tasks import BackgroundTasks
from open_token.server.core.chat import Chat
from open_token.server.core.journal import Journal
from open_token.server.core.replay import Replays
from open_token.server.core.runs import Runner
from open_token.server.core.scheduler import Scheduler
from open_token.server.core.schedules import Schedules
from open_token.server.core.services import Services
from open_token.server.core.storage_quota import StorageQuota
from open_token.server.core.webhooks import WebhookSender
from open_token.server.core.workspace import Workspaces
from open_token.server.metrics import CountingBus, Metrics
from open_token.server.store.factory import open_store
from open_token.server.store.interface import ConflictError
from open_token.server.store.rows import User
from open_token.server.transfers import transfer
from open_token.server.transfers.jobs import Jobs
from open_token.server.ws.connections import Connections
from open_token.server.ws.feed import Feed

OWNER = "owner"


@contextlib.asynccontextmanager
async def run_services(
    config: ServerConfig, env: Mapping[str, str], clock: Clock | None = None
) -> AsyncIterator[Services]:
    """Run the services of a node; on exit runs reach a safe point and everything is stored."""
    clock = clock or Clock()
    async with contextlib.AsyncExitStack() as stack:
        store = await open_store(config.data, config.database)
        stack.push_async_callback(store.close)
        metrics = Metrics()
        bus = CountingBus(create_bus(store.get_heads, config.database, config.redis), metrics)
        await bus.start()
        stack.push_async_callback(bus.close)
        # SQLite has a single writer; PostgreSQL is shared by several nodes.
        journal = Journal(store, bus, clock, is_only_writer=config.database is None)
        services = Services(config, store, bus, clock, journal, env, metrics)

        services.jobs = Jobs(config.limits.transfer_seconds)
        stack.callback(services.jobs.close)
        services.workspaces = Workspaces(config.data / "workspaces", config.limits.workspace_bytes)
        services.storage = StorageQuota(services)
        services.feed = Feed(services)
        stack.push_async_callback(services.feed.close)
        services.connections = Connections(services)
        stack.push_async_callback(services.connections.close)
        services.tasks = BackgroundTasks(services)
        stack.push_async_callback(services.tasks.close)
        services.toolbox = Toolbox(config, env)
        stack.push_async_callback(services.toolbox.close)
        await transfer.remove_interrupted_imports(services)

        services.webhooks = WebhookSender(services)
        services.chat = Chat(services)
        services.runner = Runner(services)
        services.replays = Replays(services)
        await services.replays.start()
        stack.push_async_callback(services.replays.close)
        scheduler = Scheduler(services, config.schedule_grace)
        services.schedules = Schedules(services, scheduler)
        if config.database is None:
            # The lock of the data folder proves that whoever held these leases is gone.
            await store.expire_leases()
        if config.role in ("all", "worker"):
            services.runner.preload_models()
            await services.runner.start()
            stack.push_async_callback(services.runner.close)
        if config.role in ("all", "scheduler"):
            await scheduler.start()
            stack.push_async_callback(scheduler.close)
        if config.role in ("all", "scheduler"):
            await services.webhooks.start()
            stack.push_async_callback(services.webhooks.close)
        yield services


async def create_first_key(services: Services) -> str | None:
    """On the first start create the owner and one key, and return its plain text.

    Returns None when there is an owner already."""
    owner = await create_owner(services)
    if owner is None:
        return None
    now = services.clock.now()
    _, plaintext = await services.store.add_key(owner.id, "first key", "full", now)
    return plaintext


async def create_owner(services: Services) -> User | None:
    """On the first start create the owner; return None when there is one already."""
    if await services.store.users():
        return None
    now = services.clock.now()
    owner = User(id=services.clock.name("user"), name=OWNER, role="owner", created_at=now)
    try:
        await services.store.add_user(owner)
    except ConflictError:
        return None  # another node was faster
    return owner


def create_bus(heads: Heads, database: str | None = None, redis: str | None = None) -> Bus:
    """Open the bus of a node; drivers are only imported when they are needed."""
    if redis is not None:
        return _open_redis(redis, heads)
    if database is not None:
        return _open_postgres(database, heads)
    return LocalBus()


def _open_redis(url: str, heads: Heads) -> Bus:
    try:
        from open_token.server.bus.redis import open_bus
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem, "redis") from None
    return open_bus(url, heads)


def _open_postgres(url: str, heads: Heads) -> Bus:
    try:
        from open_token.server.bus.postgres import open_bus
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem, "postgres") from None
    return open_bus(url, heads)


def _build_driver_error(problem: ModuleNotFoundError, extra: str) -> StoreError:
    return StoreError(
        f"the package {problem.name} is not installed",
        help="pip install 'open-token-cli[server]', or in a checkout: scripts/setup server",
        code="store.driver",
    )
