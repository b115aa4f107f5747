"""What a bus can do: say that a session has grown. What was said may be lost; the log heals it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from open_token.entries import Entry


class Grown(Struct, frozen=True):
    """A session's log goes on to `last`; the entries come along where they were made in this
    process.

    A name that is no session's, with `last` 0, is a call to whoever listens to it; it may be lost
    like all the rest."""

    session_id: str
    owner: str
    first: int
    last: int
    entries: Sequence[Entry] = ()


Listener = Callable[[Grown], None]
"""Called in the event loop, soon after the commit; must not wait."""


class Bus(Protocol):
    """Tells the nodes of a server which sessions have grown."""

    async def start(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Let go."""

    def publish(self, grown: Grown) -> None:
        """Say that a session has grown, after the commit; never waits and never fails."""

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Hear of a session until the returned function is called."""
