"""The spool: events between reading and writing, in memory up to a limit and then on disk."""

import marshal
from collections.abc import Iterator
from typing import IO

from open_token.errors import OutputError
from open_token.model.document import Event

MEMORY_LIMIT = 48 * 1024 * 1024
_MAX_PENDING_EVENTS = 512
_MAX_PENDING_WEIGHT = 1 << 20


class Spool:
    """Events in order, which may be iterated any number of times.

    What exceeds the memory limit goes to an unnamed temporary file.
    """

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self._limit = limit
        self._in_memory: list[Event] = []
        self._pending: list[Event] = []
        self._pending_weight = 0
        self._file: IO[bytes] | None = None
        self._batches: list[tuple[int, int]] = []
        """The offset and the size of each batch in the file."""
        self._stored_bytes = 0
        self._count = 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return self._count

    def append(self, event: Event, weight: int) -> None:
        """Add an event; `weight` is about its size in memory."""
        self.extend([event], weight)

    def extend(self, events: list[Event], weight: int) -> None:
        """Add events; `weight` is about their size in memory."""
        self._count += len(events)
        if self._limit > 0:
            self._limit -= weight
            self._in_memory += events
            return
        self._pending += events
        self._pending_weight += weight
        if len(self._pending) >= _MAX_PENDING_EVENTS or self._pending_weight > _MAX_PENDING_WEIGHT:
            self._flush()

    def get_mutable_event(self, place: int) -> Event | None:
        """Return the event at a place (from 0) if it can still be changed in memory."""
        if place < len(self._in_memory):
            return self._in_memory[place]
        place -= self._count - len(self._pending)
        return self._pending[place] if 0 <= place < len(self._pending) else None

    def _flush(self) -> None:
        import tempfile

        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as the spool
                prefix="open-token-", buffering=0
            )
        self._file.seek(self._stored_bytes)
        data = memoryview(marshal.dumps(self._pending))
        self._batches.append((self._stored_bytes, len(data)))
        self._stored_bytes += len(data)
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise OutputError(
                f"cannot write to the temporary folder: {reason}",
                where=tempfile.gettempdir(),
                help="free some space, or set TMPDIR to a folder with room for the export",
            ) from None
        self._pending = []
        self._pending_weight = 0

    def __iter__(self) -> Iterator[Event]:
        yield from self._in_memory
        if self._file is not None:
            yield from self._read_stored(self._file)
        yield from self._pending

    def _read_stored(self, file: IO[bytes]) -> Iterator[Event]:
        for offset, size in self._batches:
            # Not os.pread, which Windows lacks. Several iterations may take turns, each a batch.
            file.seek(offset)
            yield from marshal.loads(file.read(size))
