"""The bus of a server that is one process."""

from collections.abc import Callable

from open_token.server.bus.interface import Grown, Listener


class LocalBus:
    """Calls whoever listens to a session."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, Listener]] = {}
        self._count = 0

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nobody hears anything any more."""
        self._listeners.clear()

    def publish(self, grown: Grown) -> None:
        """Say that a session has grown."""
        for listener in tuple(self._listeners.get(grown.session_id, {}).values()):
            listener(grown)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Hear of a session until the returned function is called."""
        self._count += 1
        number = self._count
        self._listeners.setdefault(session_id, {})[number] = listener

        def stop() -> None:
            here = self._listeners.get(session_id, {})
            here.pop(number, None)
            if not here:
                self._listeners.pop(session_id, None)

        return stop
