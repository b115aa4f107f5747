"""What a search brought to light: the values with their strongest rule, and the events they stand
in."""

from array import array
from typing import Any, NamedTuple

from open_token.model import Event
from open_token.passes._batches import Batch
from open_token.passes._rules import Rule

# Letters; an event weighs about so many by itself.
_MOST_KEPT = 1 << 25
_EVENT = 1 << 10


class Cut(NamedTuple):
    """A stretch of a string that is a piece of a value; only the first piece gets the mark."""

    start: int
    end: int
    value: str
    is_first: bool


class Strongest(NamedTuple):
    """The rule of a value that says most about it; the lower the rank, the more."""

    rank: int
    rule: Rule


class Found:
    """Filled by the search, and further by masking, which may bring more to light."""

    def __init__(self) -> None:
        self.values: dict[str, Strongest] = {}
        self.places = array("Q")
        self.is_whole = False
        """Some event is masked as a whole, whatever was found in it."""
        self.cuts: dict[int, dict[tuple[str, int], list[Cut]]] = {}
        """Pieces of values over several strings: by event, and by string with how many like it
        stand before."""

        self.batches: list[Batch] | None = []
        """The events as they were searched, while they are few; a second walk would gather their
        strings again."""
        self._size = 0

    def keep(self, batch: Batch) -> None:
        """Keep a batch for the walk that masks, unless the conversation is long."""
        if self.batches is None:
            return
        self._size += (
            sum(map(len, batch.leaves))
            + sum(map(_media_size, batch.events))
            + _EVENT * len(batch.events)
        )
        self.batches.append(batch)
        if self._size > _MOST_KEPT:
            self.batches = None

    def add(self, value: str, rank: int, rule: Rule) -> bool:
        """Take a value in; True when it was not known."""
        known = self.values.get(value)
        if known is None or rank < known.rank:
            self.values[value] = Strongest(rank, rule)
        return known is None

    def add_place(self, place: int) -> None:
        """Note an event; places come in order."""
        if not self.places or self.places[-1] != place:
            self.places.append(place)

    def __bool__(self) -> bool:
        return bool(self.values) or self.is_whole


def _media_size(event: Event) -> int:
    """The letters of images and files, which are searched by nobody and would be held all the
    same."""
    content: Any = event.get("content")
    data = content.get("data") if type(content) is dict else None
    blocks = data if type(data) is list else ()
    return sum(
        len(block["base64"])
        for block in blocks
        if type(block) is dict and type(block.get("base64")) is str
    )
