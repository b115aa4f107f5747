"""Answers that were put together before and are still true: kept by name and by how far the log had
come."""

from collections import OrderedDict


class Recent:
    """Bytes by name; another sequence makes them untrue, and the longest unused go when there are
    too many."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._most = most_bytes
        self._size = 0
        self._held: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def get(self, name: str, sequence: int) -> bytes | None:
        """What was kept of that very sequence."""
        held = self._held.get(name)
        if held is None or held[0] != sequence:
            return None
        self._held.move_to_end(name)
        return held[1]

    def keep(self, name: str, sequence: int, data: bytes) -> None:
        """Keep an answer in the place of an older one."""
        self.forget(name)
        if len(data) > self._most // 8:
            return
        self._held[name] = (sequence, data)
        self._size += len(data)
        while self._size > self._most:
            _, (_, gone) = self._held.popitem(last=False)
            self._size -= len(gone)

    def forget(self, name: str) -> None:
        """Let go of one."""
        if (held := self._held.pop(name, None)) is not None:
            self._size -= len(held[1])
