"""Handlers of the Socket.IO events: subscriptions and chat commands."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from socketio.exceptions import ConnectionRefusedError as ConnectionRejected

from open_token.errors import StoreError
from open_token.model.log_events import Json, LogError
from open_token.server.core.identity import identify
from open_token.server.core.services import Services
from open_token.server.errors import (
    ApiError,
    bad_request,
    conflict,
    log_exception,
    not_found,
    to_api_error,
)
from open_token.server.store.rows import Caller
from open_token.server.ws.connections import Connection
from open_token.server.ws.feed import Subscription
from open_token.server.ws.frames import Dialect, Frame
from open_token.server.ws.sockets import SocketServer, encode_packet
from open_token.session.client_events import build_notification

_FORMATS: dict[Any, Dialect] = {None: "legacy", "legacy": "legacy", "raw": "raw"}
_MAX_TEXT = 500
"""Characters of a session id; longer ones cannot exist."""
_MAX_TOKEN = 16 << 10
_MAX_SUBSCRIPTIONS = 1000
_CAPACITY_POLL_SECONDS = 0.02
_log = logging.getLogger(__name__)


class ChatCommands(Protocol):
    """The chat service as the handlers use it."""

    async def send(self, caller: Caller, payload: Json) -> Json:
        """Accept a message."""

    async def stop(self, caller: Caller, session_id: str) -> Json:
        """Stop the current run."""

    async def compact(self, caller: Caller, session_id: str) -> Json:
        """Summarize the conversation."""


@dataclass(eq=False)
class _Client:
    """A connected client."""

    sid: str
    eio_sid: str
    connection: Connection
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Events of a client are handled in the order in which they arrive."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        return self.connection.caller


EventHandler = Callable[[_Client, Json], Awaitable[Any]]


class SocketHandlers:
    """Connects the Socket.IO server with the services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._chat = cast(ChatCommands, services.chat)
        config = services.config
        self.server = SocketServer(event_bytes=config.limits.event_bytes, cors=config.cors)
        self.server.on_bad_packet = self._on_bad_packet
        self._clients: dict[str, _Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.server.on("connect", self._on_connect)
        self.server.on("disconnect", self._on_disconnect)
        self._register("session:subscribe", self._subscribe)
        self._register("session:unsubscribe", self._unsubscribe)
        self._register("chat:send", self._send)
        self._register("chat:stop", self._stop)
        self._register("chat:compact", self._compact)

    def _register(self, name: str, handler: EventHandler) -> None:
        async def on_event(sid: str, *args: Any) -> Any:
            return await self._handle_event(handler, sid, args[0] if args else None)

        self.server.on(name, on_event)

    async def close(self) -> None:
        """Notify all clients and shut down; clients reconnect by themselves."""
        info = {"code": "stopping", "session_id": None}
        notification = build_notification("server shutting down", info)
        for client in tuple(self._clients.values()):
            await self.server.emit("system:notification", notification, to=client.sid)
            self._remove_client(client)
        await self.server.shutdown()

    def send_frame(self, client: _Client, frame: Frame) -> None:
        """Queue a frame; a client whose queue is full is disconnected and may resume."""
        queue = self.server.get_queue(client.eio_sid)
        if queue is None:
            return
        limits = self._services.config.limits
        if queue.qsize() >= limits.pending_packets or queue.size > limits.pending_bytes:
            _log.info("disconnecting slow client: send queue full")
            self._remove_client(client)
            self.server.abort(client.eio_sid)
            return
        packet = frame.encoded.get("packet")
        if packet is None:
            packet = encode_packet(frame.name, frame.json())
            frame.encoded["packet"] = packet
        self.server.send_packet(client.eio_sid, packet)

    async def wait_for_capacity(self, client: _Client) -> None:
        """Wait until the send queue of a client is at most a quarter full."""
        limits = self._services.config.limits
        max_packets = limits.pending_packets // 4
        max_bytes = limits.pending_bytes // 4
        while True:
            queue = self.server.get_queue(client.eio_sid)
            if queue is None:
                return
            if queue.qsize() <= max_packets and queue.size <= max_bytes:
                return
            await asyncio.sleep(_CAPACITY_POLL_SECONDS)

    def end_subscription(self, client: _Client, session_id: str, problem: ApiError) -> None:
        """Handle a subscription that was ended by the server."""
        client.subscriptions.pop(session_id, None)
        if client.sid in self._clients:
            self._send_error(client, problem, session_id)

    async def _on_connect(self, sid: str, environ: Json, auth: Any = None) -> None:
        try:
            caller = await self._authenticate(environ, auth)
            disconnect = functools.partial(self._disconnect, sid)
            connection = self._services.connections.add(caller, disconnect)
        except ApiError as problem:
            raise ConnectionRejected(problem.detail, {"code": problem.code}) from None
        except StoreError as problem:
            raise ConnectionRejected(problem.what, {"code": problem.code}) from None
        eio_sid = self.server.get_eio_sid(sid)
        self.server.mark_authenticated(eio_sid)
        self._clients[sid] = _Client(sid, eio_sid, connection)

    async def _authenticate(self, environ: Json, auth: Any) -> Caller:
        token = _find_token(environ, auth)
        caller = None
        if token:
            caller = await identify(self._services, token)
        if caller is None:
            raise ApiError(401, "a valid API key is required: auth {token}", "unauthorized")
        return caller

    async def _on_disconnect(self, sid: str, reason: Any = None) -> None:
        client = self._clients.get(sid)
        if client is not None:
            self._remove_client(client)

    def _remove_client(self, client: _Client) -> None:
        if self._clients.pop(client.sid, None):
            self._services.connections.remove(client.connection)
            for subscription in client.subscriptions.values():
                subscription.close()

    def _disconnect(self, sid: str, problem: ApiError) -> None:
        """Disconnect a client and report why, as when its key was revoked."""
        client = self._clients.get(sid)
        if client is not None:
            self._send_error(client, problem)
            self._remove_client(client)
            self._start_task(self.server.disconnect_client(sid))

    def _on_bad_packet(self, sid: str, problem: ApiError) -> None:
        """Report an invalid packet; it counts towards the rate limit."""
        client = self._clients.get(sid)
        if client is None:
            return
        try:
            self._services.connections.count_event(client.connection)
        except ApiError as rate_limited:
            problem = rate_limited
        self._send_error(client, problem)

    def _send_error(
        self, client: _Client, problem: ApiError, session_id: str | None = None
    ) -> None:
        self.send_frame(client, Frame("system:error", _build_error(problem, session_id)))

    def _start_task(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle_event(self, handler: EventHandler, sid: str, payload: Any) -> Any:
        """Handle an event; any failure is reported and the connection stays open."""
        client = self._clients.get(sid)
        if client is None:
            return None
        session_id = _find_session_id(payload)
        try:
            self._services.connections.count_event(client.connection)
            if session_id is None:
                raise bad_request("this event needs an object with a session_id")
            if client.caller.session_id not in (None, session_id):
                raise not_found()
            async with client.lock:
                result = await handler(client, payload)
            # A future is awaited outside the lock, so that it does not delay later events.
            if isinstance(result, asyncio.Future):
                return await result
            return result
        except Exception as problem:
            error = _to_client_error(problem)
            self._send_error(client, error, session_id)
            return {"status": "error", **_build_error(error, session_id)}

    async def _subscribe(self, client: _Client, payload: Json) -> Json:
        session_id = payload["session_id"]
        event_format = payload.get("event_format")
        if isinstance(event_format, dict | list) or event_format not in _FORMATS:
            raise bad_request("event_format must be raw, legacy or absent")
        after = _parse_resume_position(payload)
        previous = client.subscriptions.pop(session_id, None)
        if previous is not None:
            previous.close()
        if len(client.subscriptions) >= _MAX_SUBSCRIPTIONS:
            raise ApiError(
                429,
                f"a connection may subscribe to {_MAX_SUBSCRIPTIONS} sessions",
                "too_many_subscriptions",
            )
        sink = _ClientSink(self, client, session_id)
        subscription = await self._services.feed.subscribe(
            client.caller.user.id, session_id, _FORMATS[event_format], after, sink
        )
        # The client may have disconnected during the await.
        if client.sid not in self._clients:
            subscription.close()
        else:
            client.subscriptions[session_id] = subscription
        return {"status": "ok", "session_id": session_id, "stream_sequence": subscription.seq}

    async def _unsubscribe(self, client: _Client, payload: Json) -> Json:
        session_id = payload["session_id"]
        subscription = client.subscriptions.pop(session_id, None)
        if subscription is not None:
            subscription.close()
        return {"status": "ok", "session_id": session_id}

    async def _send(self, client: _Client, payload: Json) -> Json:
        return await self._chat.send(_require_writer(client), payload)

    async def _stop(self, client: _Client, payload: Json) -> Json:
        return await self._chat.stop(_require_writer(client), payload["session_id"])

    async def _compact(self, client: _Client, payload: Json) -> asyncio.Future[Json]:
        """Start a compaction; it calls a model, and later events must not wait for that."""
        compaction = self._chat.compact(_require_writer(client), payload["session_id"])
        return asyncio.ensure_future(compaction)


@dataclass(eq=False)
class _ClientSink:
    """Delivers the events of one subscription to a client."""

    handlers: SocketHandlers
    client: _Client
    session_id: str

    def send(self, frame: Frame) -> None:
        self.handlers.send_frame(self.client, frame)

    async def wait_for_capacity(self) -> None:
        await self.handlers.wait_for_capacity(self.client)

    def on_end(self, problem: ApiError) -> None:
        self.handlers.end_subscription(self.client, self.session_id, problem)


def _find_token(environ: Json, auth: Any) -> str | None:
    """Return the key of a connecting client: from `auth`, or from the Authorization header."""
    token = auth.get("token") if isinstance(auth, dict) else None
    if token is None:
        scheme, _, credentials = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        token = credentials if scheme.lower() == "bearer" else None
    if isinstance(token, str) and 0 < len(token) <= _MAX_TOKEN:
        return token
    return None


def _find_session_id(payload: Any) -> str | None:
    session_id = payload.get("session_id") if isinstance(payload, dict) else None
    if isinstance(session_id, str) and len(session_id) <= _MAX_TEXT:
        return session_id
    return None


def _parse_resume_position(payload: Json) -> int | None:
    """Return the sequence to resume after; None (from now on) unless `resume` is true."""
    after = payload.get("after_sequence", 0)
    if after is not None and (type(after) is not int or after < 0):
        raise bad_request("after_sequence must be a number from 0")
    if payload.get("resume") is not True:
        return None
    return after or 0


def _require_writer(client: _Client) -> Caller:
    if client.caller.key.scope != "full":
        raise ApiError(403, "this key is read-only", "read_only")
    return client.caller


def _build_error(problem: ApiError, session_id: str | None) -> Json:
    return {
        "message": problem.detail,
        "session_id": session_id,
        "code": problem.code,
        "detail": problem.detail,
    }


def _to_client_error(problem: Exception) -> ApiError:
    """Map any exception of a handler to the error that the client sees."""
    if isinstance(problem, ApiError):
        return problem
    if isinstance(problem, LogError):
        return conflict(str(problem))
    if isinstance(problem, StoreError):
        error = to_api_error(problem)
        if error.status == 404:
            return not_found()
        return error
    log_exception(_log, "cannot handle event", problem)
    return ApiError(500, "internal server error", "internal")
