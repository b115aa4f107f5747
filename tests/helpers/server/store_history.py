"""A history of writes and reads, and what is wrong with it: nothing acknowledged may be lost,
doubled, moved or unseen.

A write is acknowledged with the place of its events; a read gives events behind a sequence. At the
end the whole logs are read. Every check is one walk, so that a long history is checked as easily as
a short one."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Log = Sequence[tuple[int, Hashable]]
"""Sequence and event, as they were read; an event has a name of its own."""


@dataclass(frozen=True)
class Write:
    """The answer to a writer: its events begin at `first`."""

    session: str
    events: Sequence[Hashable]
    first: int


@dataclass(frozen=True)
class Read:
    """What a reader was given, and how much was acknowledged before it asked."""

    session: str
    after: int
    seen: Log
    known: int = 0
    is_whole: bool = True
    """It asked for all there was, not for the first few."""


@dataclass
class History:
    """Everything that happened, written down as it happens by one process."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def acknowledged(self, session: str, events: Sequence[Hashable], first: int) -> None:
        """A writer received the position of its events."""
        self.writes.append(Write(session, events, first))
        self._known[session] = max(self._known.get(session, 0), first + len(events) - 1)

    def known(self, session: str) -> int:
        """How much was acknowledged so far: asked before a read begins."""
        return self._known.get(session, 0)

    def read(
        self, session: str, after: int, seen: Log, known: int, *, is_whole: bool = True
    ) -> None:
        """A reader was given events."""
        self.reads.append(Read(session, after, seen, known, is_whole))

    def faults(self, logs: Mapping[str, Log]) -> list[str]:
        """What is wrong with it, beside the logs as they are at the end."""
        return [
            *(fault for session, log in logs.items() for fault in _log_faults(session, log)),
            *_write_faults(self.writes, logs),
            *_read_faults(self.reads, logs),
        ]


def _log_faults(session: str, log: Log) -> Iterable[str]:
    if [seq for seq, _ in log] != list(range(1, len(log) + 1)):
        yield f"{session}: the sequences have gaps or are out of order"
    doubled = [event for event, count in Counter(event for _, event in log).items() if count > 1]
    if doubled:
        yield f"{session}: {len(doubled)} events are there twice, as {doubled[0]}"


def _write_faults(writes: Iterable[Write], logs: Mapping[str, Log]) -> Iterable[str]:
    places = {session: dict(log) for session, log in logs.items()}
    for write in writes:
        there = [
            places.get(write.session, {}).get(write.first + place)
            for place in range(len(write.events))
        ]
        if there != list(write.events):
            yield f"{write.session}: what was acknowledged at {write.first} is not there"


def _read_faults(reads: Iterable[Read], logs: Mapping[str, Log]) -> Iterable[str]:
    for read in reads:
        log = logs.get(read.session, ())
        if list(read.seen) != list(log[read.after : read.after + len(read.seen)]):
            yield f"{read.session}: a read behind {read.after} is no part of the log"
        if read.is_whole and read.after + len(read.seen) < read.known:
            yield f"{read.session}: a read behind {read.after} did not see what was acknowledged at {read.known}"
