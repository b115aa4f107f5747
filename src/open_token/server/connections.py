"""Who is connected, with which key: how many at once, how much they may say, and out with them when
the key ends."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from open_token.errors import StoreError
from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.store.rows import Caller

_LOOK_EVERY = 1.0
_MINUTE = 60.0
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Guest:
    """One connection that is open."""

    caller: Caller
    dismiss: Callable[[Refused], None]
    """Ends the connection and says why; must not wait."""


@dataclass
class _Spent:
    """What a user said in this minute."""

    since: float
    count: int = 0


@dataclass
class _Person:
    guests: set[Guest] = field(default_factory=set)


class Connections:
    """The open sockets and event streams of this node."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._people: dict[str, _Person] = {}
        self._spent: dict[str, _Spent] = {}
        """Kept when a user goes: who comes back in the same minute has not got another one."""
        self._look_now = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def enter(self, caller: Caller, dismiss: Callable[[Refused], None]) -> Guest:
        """Let one in; Refused when the user has as many connections as one may have."""
        person = self._people.setdefault(caller.user.id, _Person())
        most = self._services.config.limits.connections_per_user
        if len(person.guests) >= most:
            raise Refused(
                429,
                f"this user has {most} connections open; close one first",
                "too_many_connections",
            )
        guest = Guest(caller, dismiss)
        person.guests.add(guest)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return guest

    def leave(self, guest: Guest) -> None:
        """A connection is closed."""
        user = guest.caller.user.id
        person = self._people.get(user)
        if person is not None:
            person.guests.discard(guest)
            if not person.guests:
                del self._people[user]

    def count(self) -> int:
        """How many are open."""
        return sum(len(person.guests) for person in self._people.values())

    def speak(self, guest: Guest) -> None:
        """Count an event; Refused when the user sent too many in this minute, and who goes on is
        sent away."""
        most = self._services.config.limits.events_per_minute
        spent = self._spent.setdefault(guest.caller.user.id, _Spent(0.0))
        now = asyncio.get_running_loop().time()
        if now - spent.since >= _MINUTE:
            spent.since, spent.count = now, 0
        spent.count += 1
        if spent.count > most:
            problem = Refused(
                429, f"more than {most} events in a minute; wait a little", "rate_limited"
            )
            if spent.count > most * 2:
                guest.dismiss(problem)
            raise problem

    def recheck(self) -> None:
        """A key or a user changed: see at once who may stay."""
        self._look_now.set()

    async def close(self) -> None:
        """Send everybody away."""
        if self._looking is not None:
            self._looking.cancel()
        for guest in [guest for person in self._people.values() for guest in person.guests]:
            guest.dismiss(Refused(503, "the server stops", "stopping"))
        await asyncio.sleep(0)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self._people:
            timer = loop.call_later(_LOOK_EVERY, self._look_now.set)
            await self._look_now.wait()
            timer.cancel()
            self._look_now.clear()
            for user_id in tuple(self._people):
                try:
                    await self._check(user_id)
                except StoreError:
                    _log.warning("keys cannot be checked now; trying again")

    async def _check(self, user_id: str) -> None:
        """Send away whose key was revoked, or who was locked out."""
        store = self._services.store
        user = await store.user(user_id)
        locked = user is None or user.disabled_at is not None
        valid = set() if locked else {key.id for key in await store.keys(user_id)}
        person = self._people.get(user_id)
        for guest in tuple(person.guests) if person else ():
            if guest.caller.key.id not in valid:
                guest.dismiss(Refused(401, "this key may no longer be used", "unauthorized"))
