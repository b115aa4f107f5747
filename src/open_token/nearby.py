"""The short values of events around the place that a source has come to: times, ids, counts,
names."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from open_token.model import Event
from open_token.timestamps import from_epoch, to_epoch_ms

_LONGEST = 64
_TELLING = 16
"""So long a string, as an id or a time is, tells which event it is from."""
_MOST = 256
_AROUND = 5
_SAFE = 2**53 - 1
"""Larger numbers are written otherwise, as are fractions without a fraction."""
_MS = (10**12, 10**14)
Place = tuple[int, str]


class Nearby:
    """Of as many events as are held at a time: what stands where."""

    def __init__(self, events: Iterable[Event] = (), held: int = 8192) -> None:
        self._events = iter(events)
        self._held = held
        self._order: deque[int] = deque()
        self._values: dict[int, dict[str, Any]] = {}
        self._firsts: dict[str, Place] = {}
        self._fill()

    def go(self, number: int) -> None:
        """The source has come to this event: what lies far behind is forgotten, what comes is
        looked at."""
        while len(self._order) > self._held // 2 and self._order[0] < number:
            self._forget()
        self._fill()

    def _fill(self) -> None:
        while len(self._order) < self._held:
            event = next(self._events, None)
            if event is None:
                return
            number = int(event["id"][4:])
            values = self._values[number] = dict(islice(_values(event), _MOST))
            self._order.append(number)
            for pointer, value in values.items():
                if type(value) is str and len(value) >= _TELLING:
                    self._firsts.setdefault(value, (number, pointer))

    def _forget(self) -> None:
        number = self._order.popleft()
        for pointer, value in self._values.pop(number).items():
            if type(value) is str and self._firsts.get(value) == (number, pointer):
                del self._firsts[value]

    def holds(self, place: Place, value: Any) -> bool:
        """Whether this very value stands there."""
        number, pointer = place
        found = self._values.get(number, {}).get(pointer)
        return found is not None and type(found) is type(value) and bool(found == value)

    def holds_moment(self, place: Place, value: Any) -> bool:
        """Whether the time that stands there is this one in milliseconds."""
        number, pointer = place
        found = self._values.get(number, {}).get(pointer)
        return type(value) is int and found is not None and to_epoch_ms(found) == value

    def telling(self, value: Any) -> Place | None:
        """The event that a value tells of by itself: the first with this id or time."""
        if type(value) is str:
            return self._firsts.get(value)
        moment = from_epoch(value, 0.001) if is_moment(value) else None
        return self._firsts.get(moment) if moment else None

    def around(self, number: int, value: Any) -> Iterator[Place]:
        """Where a value stands in the events around one, the nearest first."""
        for away in range(2 * _AROUND + 1):
            near = number + (away + 1) // 2 * (1 if away % 2 else -1)
            for pointer, found in self._values.get(near, {}).items():
                if type(found) is type(value) and found == value:
                    yield near, pointer


def is_moment(value: Any) -> bool:
    """Whether a number could be a time in milliseconds."""
    return type(value) is int and _MS[0] < value < _MS[1]


def _values(event: Event) -> Iterator[tuple[str, Any]]:
    for name in ("ts", "usage", "content"):
        if name in event:
            yield from _short(event[name], f"/{name}")


def _short(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if kind is str:
        if 2 <= len(value) <= _LONGEST:
            yield pointer, value
    elif (kind is int and -_SAFE <= value <= _SAFE) or (kind is float and value % 1 > 0):
        yield pointer, value
    elif kind is dict and len(value) <= _LONGEST:
        for key, item in value.items():
            if key.isidentifier() and key.isascii() and len(key) <= _LONGEST:
                yield from _short(item, f"{pointer}/{key}")
    elif kind is list and len(value) <= _LONGEST:
        for number, item in enumerate(value):
            yield from _short(item, f"{pointer}/{number}")
