"""A cache of encoded responses, valid for one sequence of a session's log."""

from collections import OrderedDict


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
