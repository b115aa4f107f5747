"""The bus of a server that is a single process."""

from collections.abc import Callable

from open_token.server.bus.interface import Listener, LogAppended


class LocalBus:
    """Calls the listeners of a session."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, Listener]] = {}
        self._count = 0

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Drop all listeners."""
        self._listeners.clear()

    def publish(self, grown: LogAppended) -> None:
        """Announce that a session has advanced."""
        for listener in tuple(self._listeners.get(grown.session_id, {}).values()):
            listener(grown)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call a listener for a session until the returned function is called."""
        self._count += 1
        number = self._count
        self._listeners.setdefault(session_id, {})[number] = listener

        def stop() -> None:
            listeners = self._listeners.get(session_id, {})
            listeners.pop(number, None)
            if not listeners:
                self._listeners.pop(session_id, None)

        return stop
