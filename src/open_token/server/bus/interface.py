"""The interface of a bus: publish and receive notifications that a log has advanced.

Notifications may be lost; subscribers catch up from the log.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from open_token.model.log_events import LogEntry


class LogAppended(Struct, frozen=True):
    """The log of a session has advanced to `last`.

    The entries are included if they were written in this process. With `last` 0 and a name that
    is not that of a session, it is a signal to whoever listens to that name.
    """

    session_id: str
    owner: str
    first: int
    last: int
    entries: Sequence[LogEntry] = ()


Listener = Callable[[LogAppended], None]
"""Called in the event loop soon after the commit; it must not block."""


class Bus(Protocol):
    """Notifies the nodes of a server that sessions have advanced."""

    async def start(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    def publish(self, grown: LogAppended) -> None:
        """Announce that a session has advanced, after the commit; never blocks, never fails."""

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call a listener for a session until the returned function is called."""
