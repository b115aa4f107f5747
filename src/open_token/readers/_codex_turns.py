"""Turns of a Codex thread, so that those the person takes back can be left as a branch."""

from collections.abc import Iterator
from heapq import heappop, heappush

from open_token.draft import Draft


class Turns:
    """Where the turns begin, and which events in them belong to an earlier turn."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._starts: list[int] = []
        self._late: list[tuple[int, int, int]] = []
        self._gone: list[tuple[int, int]] = []
        """What was taken back, in order."""
        self._kept: list[tuple[int, int, int]] = []
        """A heap, latest turn first: what belongs to an earlier turn, and so stayed in what was
        taken back."""

    def begin(self) -> None:
        """A turn begins with the next event."""
        self._starts.append(self._draft.count)

    def belong(self, origin: int, first: int) -> None:
        """The events from place `first` on belong to the one at `origin`: a result to its call, an
        end to its span."""
        if self._starts and origin < self._starts[-1]:
            self._late.append((origin, first, self._draft.count))

    def take_back(self, count: int, actor: str) -> int:
        """The last turns are left as a branch; tells where they began. What belongs to earlier
        turns stays."""
        left = self._starts[-count:]
        del self._starts[-count:]
        end = self._draft.count
        if not left:
            return end
        first = left[0]
        data = {"kind": "abandoned_branch", "reason": "thread_rolled_back", "turns": len(left)}
        parts = [(first, end)] if self._draft.branches == "all" else self._left(first, end)
        for start, stop in parts:
            self._draft.abandon(start, stop, data, actor)
        return first

    def _left(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """What goes with the turns from a place on and has not gone yet; each part is looked at
        once, however often."""
        while self._kept and -self._kept[0][0] >= first:
            _, start, stop = heappop(self._kept)
            yield start, stop
        settled: list[tuple[int, int]] = []
        while self._late and self._late[-1][1] >= first:
            origin, start, stop = self._late.pop()
            if origin < first:
                heappush(self._kept, (-origin, start, stop))
                settled.append((start, stop))
        while self._gone and self._gone[-1][0] >= first:
            settled.append(self._gone.pop())
        self._gone.append((first, end))
        for start, stop in sorted(settled):
            yield first, start
            first = stop
        yield first, end
