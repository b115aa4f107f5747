"""Live clients over Socket.IO: they subscribe to sessions, talk to agents, and are told why when
they cannot."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from socketio.exceptions import ConnectionRefusedError as Unwanted

from open_token.errors import StoreError
from open_token.model.log_events import Json, LogError
from open_token.server.connections import Guest
from open_token.server.faults import log_fault
from open_token.server.feed import Subscription
from open_token.server.frames import Dialect, Frame
from open_token.server.refusals import Refused, bad, busy, missing, refusal_of
from open_token.server.services import Services
from open_token.server.sockets import Sockets, packet_of
from open_token.server.store.rows import Caller

_FORMATS: dict[Any, Dialect] = {None: "legacy", "legacy": "legacy", "raw": "raw"}
_LONGEST = 500
_MOST_SUBSCRIPTIONS = 1000
_log = logging.getLogger(__name__)


class Talks(Protocol):
    """What the agent's side does for a client."""

    async def send(self, caller: Caller, payload: Json) -> Json:
        """Take a message."""

    async def stop(self, caller: Caller, session_id: str) -> Json:
        """Stop what is under way."""

    async def compact(self, caller: Caller, session_id: str) -> Json:
        """Make the conversation shorter."""


@dataclass(eq=False)
class _Client:
    """A connected client."""

    sid: str
    eio_sid: str
    guest: Guest
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Its events are carried out in the order in which they came."""
    watched: dict[str, Subscription] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        return self.guest.caller


class Live:
    """The Socket.IO side of a server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._chat = cast(Talks, services.chat)
        config = services.config
        self.server = Sockets(event_bytes=config.limits.event_bytes, cors=config.cors)
        self.server.complain = self._complain
        self._clients: dict[str, _Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.server.on("connect", self._connect)
        self.server.on("disconnect", self._disconnect)
        acts = {
            "session:subscribe": self._subscribe,
            "session:unsubscribe": self._unsubscribe,
            "chat:send": self._send,
            "chat:stop": self._stop,
            "chat:compact": self._compact,
        }
        for name, act in acts.items():
            self._on(name, act)

    def _on(self, name: str, act: Callable[[_Client, Json], Awaitable[Any]]) -> None:
        async def carry_out(sid: str, *given: Any) -> Any:
            return await self._carry_out(act, sid, given[0] if given else None)

        self.server.on(name, carry_out)

    async def close(self) -> None:
        """Tell everybody that the server stops; their connections end with it, and they come back
        by themselves."""
        for client in tuple(self._clients.values()):
            await self.server.emit(
                "system:notification",
                {"message": "the server stops", "code": "stopping"},
                to=client.sid,
            )
            self._leave(client)
        await self.server.shutdown()

    def tell(self, client: _Client, frame: Frame) -> None:
        """Put a frame before a client; who does not take what is there already is cut off, and may
        resume."""
        queue = self.server.queue_of(client.eio_sid)
        if queue is None:
            return
        limits = self._services.config.limits
        if queue.qsize() >= limits.pending_packets or queue.size > limits.pending_bytes:
            _log.info("a client takes nothing and is cut off")
            self._leave(client)
            self.server.cut(client.eio_sid)
            return
        packet = frame.made.get("packet")
        if packet is None:
            packet = frame.made["packet"] = packet_of(frame.name, frame.json())
        self.server.pass_on(client.eio_sid, packet)

    async def room(self, client: _Client) -> None:
        """Wait until a client has taken most of what is there."""
        limits = self._services.config.limits
        while (queue := self.server.queue_of(client.eio_sid)) is not None:
            if (
                queue.qsize() <= limits.pending_packets // 4
                and queue.size <= limits.pending_bytes // 4
            ):
                return
            await asyncio.sleep(0.02)

    async def _connect(self, sid: str, environ: Json, auth: Any = None) -> None:
        try:
            token = _token(environ, auth)
            caller = (
                await self._services.store.check_key(token, self._services.clock.now())
                if token
                else None
            )
            if caller is None:
                raise Refused(401, "this needs a valid API key: auth {token}", "unauthorized")
            guest = self._services.connections.enter(caller, functools.partial(self._dismiss, sid))
        except Refused as problem:
            raise Unwanted(problem.detail, {"code": problem.code}) from None
        except StoreError as problem:
            raise Unwanted(problem.what, {"code": problem.code}) from None
        eio_sid = self.server.eio_of(sid)
        self.server.trust(eio_sid)
        self._clients[sid] = _Client(sid, eio_sid, guest)

    async def _disconnect(self, sid: str, reason: Any = None) -> None:
        if client := self._clients.get(sid):
            self._leave(client)

    def _leave(self, client: _Client) -> None:
        if self._clients.pop(client.sid, None):
            self._services.connections.leave(client.guest)
            for subscription in client.watched.values():
                subscription.close()

    def _dismiss(self, sid: str, problem: Refused) -> None:
        """The key ended, or the server stops: tell, and end the connection."""
        if client := self._clients.get(sid):
            self._error(client, problem)
            self._leave(client)
            self._soon(self.server.dismiss(sid))

    def _complain(self, sid: str, problem: Refused) -> None:
        """What is no event counts as one."""
        if client := self._clients.get(sid):
            try:
                self._services.connections.speak(client.guest)
            except Refused as too_many:
                problem = too_many
            self._error(client, problem)

    def _error(self, client: _Client, problem: Refused, session_id: str | None = None) -> None:
        self.tell(client, Frame("system:error", _error(problem, session_id)))

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(
        self, act: Callable[[_Client, Json], Awaitable[Any]], sid: str, payload: Any
    ) -> Any:
        """Do what a client asks for; whatever is wrong with it, it is told and its connection
        stays."""
        client = self._clients.get(sid)
        if client is None:
            return None
        session_id = payload.get("session_id") if isinstance(payload, dict) else None
        session_id = (
            session_id if isinstance(session_id, str) and len(session_id) <= _LONGEST else None
        )
        try:
            self._services.connections.speak(client.guest)
            if not isinstance(payload, dict) or session_id is None:
                raise bad("this event needs an object with a session_id")
            async with client.order:
                made = await act(client, payload)
            return await made if isinstance(made, asyncio.Future) else made
        except Exception as problem:
            refused = _refusal(problem)
            self._error(client, refused, session_id)
            return {"status": "error", **_error(refused, session_id)}

    async def _subscribe(self, client: _Client, payload: Json) -> Json:
        session_id, dialect = payload["session_id"], payload.get("event_format")
        if isinstance(dialect, dict | list) or dialect not in _FORMATS:
            raise bad("event_format is raw, or legacy, or not given")
        after = _sequence(payload)
        if before := client.watched.pop(session_id, None):
            before.close()
        if len(client.watched) >= _MOST_SUBSCRIPTIONS:
            raise Refused(
                429,
                f"one connection may watch {_MOST_SUBSCRIPTIONS} sessions",
                "too_many_subscriptions",
            )
        sink = _Sink(self, client, session_id)
        feed, owner = self._services.feed, client.caller.user.id
        subscription = await feed.subscribe(owner, session_id, _FORMATS[dialect], after, sink)
        if client.sid not in self._clients:
            subscription.close()
        else:
            client.watched[session_id] = subscription
        return {"status": "ok", "session_id": session_id, "stream_sequence": subscription.seq}

    async def _unsubscribe(self, client: _Client, payload: Json) -> Json:
        if subscription := client.watched.pop(payload["session_id"], None):
            subscription.close()
        return {"status": "ok", "session_id": payload["session_id"]}

    async def _send(self, client: _Client, payload: Json) -> Json:
        return await self._chat.send(_writer(client), payload)

    async def _stop(self, client: _Client, payload: Json) -> Json:
        return await self._chat.stop(_writer(client), payload["session_id"])

    async def _compact(self, client: _Client, payload: Json) -> asyncio.Future[Json]:
        """A model has to be asked for this: what the client sends meanwhile does not wait for
        it."""
        return asyncio.ensure_future(self._chat.compact(_writer(client), payload["session_id"]))

    def ended(self, client: _Client, session_id: str, problem: Refused) -> None:
        """A subscription is over, and not because the client wanted it."""
        client.watched.pop(session_id, None)
        if client.sid in self._clients:
            self._error(client, problem, session_id)


@dataclass(eq=False)
class _Sink:
    """Where the events of one subscription of a client go."""

    live: Live
    client: _Client
    session_id: str

    def take(self, frame: Frame) -> None:
        self.live.tell(self.client, frame)

    async def room(self) -> None:
        await self.live.room(self.client)

    def ended(self, problem: Refused) -> None:
        self.live.ended(self.client, self.session_id, problem)


def _token(environ: Json, auth: Any) -> str | None:
    """The key of who connects: from `auth`, or from the header that REST calls have."""
    token = auth.get("token") if isinstance(auth, dict) else None
    if token is None:
        scheme, _, token = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        token = token if scheme.lower() == "bearer" else None
    return token if isinstance(token, str) and 0 < len(token) <= _LONGEST else None


def _sequence(payload: Json) -> int | None:
    """From where a subscriber goes on: only one who says `resume` is told the past."""
    after = payload.get("after_sequence", 0)
    if after is not None and (type(after) is not int or after < 0):
        raise bad("after_sequence is a number from 0")
    return after or 0 if payload.get("resume") is True else None


def _writer(client: _Client) -> Caller:
    if client.caller.key.scope != "full":
        raise Refused(403, "this key may only read", "read_only")
    return client.caller


def _error(problem: Refused, session_id: str | None) -> Json:
    return {
        "message": problem.detail,
        "session_id": session_id,
        "code": problem.code,
        "detail": problem.detail,
    }


def _refusal(problem: Exception) -> Refused:
    """What a client is told of whatever went wrong."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, LogError):
        return busy(str(problem))
    if isinstance(problem, StoreError):
        refused = refusal_of(problem)
        return missing() if refused.status == 404 else refused
    log_fault(_log, "an event could not be carried out", problem)
    return Refused(500, "the server could not do this", "internal")
