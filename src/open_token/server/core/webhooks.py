"""Webhooks: signed requests to a backend when a run has ended, has failed, or asks something.

A delivery is queued in the transaction that ends the run, so a crash cannot lose it. Whoever takes
it from the queue holds it for a while; if that node dies, another one sends it again. A receiver
may therefore get a delivery twice, with the same id. Requests follow the specification Standard
Webhooks.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import hmac
import ipaddress
import logging
import socket
import time
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Meta, Struct

from open_token.errors import StoreError
from open_token.model.log_events import Json
from open_token.server.cancellation import cancel_and_wait
from open_token.server.core.messages import MessageRun, RunOutcome, read_run
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, conflict, log_exception, not_found
from open_token.server.store.rows import Caller
from open_token.session import SessionState

Event = Literal["turn.end", "question", "failure"]
EVENTS: tuple[Event, ...] = ("turn.end", "question", "failure")
_QUEUE = "webhook-queue/"
_MAX_WEBHOOKS = 20
_RETRY_SECONDS = (5, 30, 120, 600, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
"""Seconds after each failed attempt; after the last one the delivery is given up."""
_HOLD_SECONDS = 60.0
"""How long a node holds a delivery that it sends."""
_REQUEST_SECONDS = 20.0
_POLL_SECONDS = 5.0
_MAX_CONCURRENT = 20
_FIRST_LOOK = 1000
"""Entries of the log before the end of a run among which its start is searched first."""
_log = logging.getLogger(__name__)


class Webhook(Struct, frozen=True, kw_only=True):
    """A webhook of a user."""

    id: str
    url: str
    events: list[Event]
    secret: str
    created_at: str


class NewWebhook(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to send which events."""

    url: Annotated[str, Meta(min_length=8, max_length=2000, pattern="^https?://")]
    events: Annotated[list[Event], Meta(min_length=1, max_length=3)] = msgspec.field(
        default_factory=lambda: list(EVENTS)
    )


class _Delivery(Struct, frozen=True, kw_only=True):
    """A queued delivery."""

    webhook: str
    owner: str
    session_id: str
    run_id: str
    position: int
    """The log when the run was about to end."""
    due: float
    attempts: int = 0


async def list_webhooks(services: Services, owner: str) -> list[Webhook]:
    """Return the webhooks of a user."""
    stored = await services.store.setting(_setting_name(owner))
    return msgspec.json.decode(stored, type=list[Webhook]) if stored else []


async def add_webhook(services: Services, caller: Caller, given: NewWebhook) -> Webhook:
    """Add a webhook; its secret is returned here and never again."""
    if caller.expires_at is not None:
        raise ApiError(403, "a token cannot add webhooks; use an API key", "token_scope")
    await _resolve(given.url, allow_private=caller.user.role == "owner")
    known = await list_webhooks(services, caller.user.id)
    if len(known) >= _MAX_WEBHOOKS:
        raise conflict(f"limit of {_MAX_WEBHOOKS} webhooks reached", "too_many_webhooks")
    secret = base64.b64encode(services.clock.word(32).encode()).decode()
    webhook = Webhook(
        id=services.clock.name("webhook"),
        url=given.url,
        events=list(dict.fromkeys(given.events)),
        secret=f"whsec_{secret}",
        created_at=services.clock.now(),
    )
    await _store(services, caller.user.id, [*known, webhook])
    return webhook


async def delete_webhook(services: Services, owner: str, webhook_id: str) -> None:
    """Delete a webhook; its queued deliveries are dropped."""
    known = await list_webhooks(services, owner)
    kept = [webhook for webhook in known if webhook.id != webhook_id]
    if len(kept) == len(known):
        raise not_found("webhook")
    await _store(services, owner, kept)


class WebhookSender:
    """Sends queued deliveries until it is closed."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._woken = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to send."""
        self._task = asyncio.ensure_future(self._send_forever())

    def wake(self) -> None:
        """Look for deliveries now."""
        self._woken.set()

    async def build_outbox(self, state: SessionState, owner: str) -> dict[str, str]:
        """Return the settings that queue the deliveries of a run; part of the write that ends it."""
        outbox: dict[str, str] = {}
        if state.run is None:
            return outbox
        for webhook in await list_webhooks(self._services, owner):
            delivery = _Delivery(
                webhook=webhook.id,
                owner=owner,
                session_id=state.session_id,
                run_id=state.run.run_id,
                position=state.seq,
                due=time.time(),
            )
            key = _QUEUE + self._services.clock.name("msg")
            outbox[key] = msgspec.json.encode(delivery).decode()
        return outbox

    async def close(self) -> None:
        """Stop; what was not sent stays in the queue."""
        tasks = [*self._sending.values()]
        if self._task is not None:
            tasks.append(self._task)
        for task in tasks:
            await cancel_and_wait(task)

    async def _send_forever(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._send_due()
            except StoreError as problem:
                _log.warning("cannot read queued webhooks: %s", problem.what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._woken.wait()

    async def _send_due(self) -> None:
        queued = await self._services.store.list_settings(_QUEUE)
        for key, text in queued.items():
            if len(self._sending) >= _MAX_CONCURRENT:
                return
            delivery = msgspec.json.decode(text, type=_Delivery)
            if key in self._sending or delivery.due > time.time():
                continue
            task = asyncio.ensure_future(self._send(key))
            self._sending[key] = task
            task.add_done_callback(functools.partial(self._on_done, key))

    def _on_done(self, key: str, _: object) -> None:
        self._sending.pop(key, None)
        self.wake()

    async def _send(self, key: str) -> None:
        store = self._services.store
        # Only one of several nodes gets it.
        text = await store.take_setting(key)
        if text is None:
            return
        delivery = msgspec.json.decode(text, type=_Delivery)
        held = msgspec.structs.replace(delivery, due=time.time() + _HOLD_SECONDS)
        await store.set_setting(key, msgspec.json.encode(held).decode())
        try:
            is_done = await self._deliver(key.removeprefix(_QUEUE), delivery)
        except Exception as problem:
            log_exception(_log, "cannot send a webhook", problem)
            is_done = False
        attempts = delivery.attempts + 1
        if is_done or attempts > len(_RETRY_SECONDS):
            await store.set_setting(key, None)
            return
        due = time.time() + _RETRY_SECONDS[delivery.attempts]
        later = msgspec.structs.replace(delivery, due=due, attempts=attempts)
        await store.set_setting(key, msgspec.json.encode(later).decode())

    async def _deliver(self, delivery_id: str, delivery: _Delivery) -> bool:
        """Send a delivery; return whether it is done with."""
        services = self._services
        webhooks = await list_webhooks(services, delivery.owner)
        webhook = next((item for item in webhooks if item.id == delivery.webhook), None)
        user = await services.store.user(delivery.owner)
        if webhook is None or user is None:
            return True
        try:
            found = await _find_run(services, delivery)
        except (ApiError, StoreError) as problem:
            return getattr(problem, "status", 404) == 404
        if found is None:
            return True
        event = classify(found[1])
        if event not in webhook.events:
            return True
        body = msgspec.json.encode(build_body(event, *found))
        headers = sign(webhook.secret, delivery_id, int(time.time()), body)
        return await _post(webhook.url, body, headers, allow_private=user.role == "owner")


async def _find_run(
    services: Services, delivery: _Delivery
) -> tuple[MessageRun, RunOutcome] | None:
    """Find a run from the end of its log: a session may be long, and its last run rarely is."""
    length = _FIRST_LOOK
    while True:
        position = max(0, delivery.position - length)
        found = await read_run(
            services, delivery.owner, delivery.session_id, delivery.run_id, position
        )
        if found is not None or position == 0:
            return found
        length *= 8


def classify(outcome: RunOutcome) -> Event:
    """Return the event of the end of a run."""
    if outcome.questions:
        return "question"
    return "failure" if outcome.ended["status"] == "failed" else "turn.end"


def build_body(event: Event, run: MessageRun, outcome: RunOutcome) -> Json:
    """Return the body of a delivery: the end of the run without its turns."""
    ended = outcome.ended
    return {
        "type": event,
        "timestamp": outcome.ended_at,
        "data": {
            **ended,
            "turn_id": run.turn_id,
            "questions": outcome.questions,
        },
    }


def sign(secret: str, delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a delivery."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


async def _post(url: str, body: bytes, headers: dict[str, str], *, allow_private: bool) -> bool:
    """Send a request; return whether the receiver has accepted it."""
    try:
        address = await _resolve(url, allow_private=allow_private)
    except ApiError:
        return False
    parts = urlsplit(url)
    host = f"[{address}]" if ":" in address else address
    port = f":{parts.port}" if parts.port else ""
    # The address that was checked, so that a second lookup cannot lead somewhere else.
    target = parts._replace(netloc=host + port).geturl()
    extensions = {"sni_hostname": parts.hostname}
    try:
        async with httpx2.AsyncClient(timeout=_REQUEST_SECONDS, trust_env=False) as client:
            request = client.build_request(
                "POST",
                target,
                content=body,
                headers={**headers, "host": parts.netloc.rpartition("@")[2]},
                extensions=extensions,
            )
            answer = await client.send(request, stream=True)
            await answer.aclose()
    except httpx2.HTTPError:
        return False
    return answer.is_success


async def _resolve(url: str, *, allow_private: bool) -> str:
    """Return an address of the host of a URL; users must not reach into the server's network."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError):
        raise bad_request("url: the host cannot be found", "webhook_url") from None
    addresses = [str(item[4][0]) for item in found]
    if not allow_private:
        if not all(ipaddress.ip_address(address).is_global for address in addresses):
            raise bad_request("url: the host is not a public one", "webhook_url")
        if parts.scheme != "https":
            raise bad_request("url: must start with https://", "webhook_url")
    return addresses[0]


async def _store(services: Services, owner: str, webhooks: list[Webhook]) -> None:
    value: Any = msgspec.json.encode(webhooks).decode() if webhooks else None
    await services.store.set_setting(_setting_name(owner), value)


def _setting_name(owner: str) -> str:
    return f"webhooks/{owner}"
