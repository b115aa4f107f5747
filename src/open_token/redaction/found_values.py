"""The outcome of a search: values with their highest-ranked rule, and the events they are in."""

from array import array
from typing import Any, NamedTuple

from open_token.model.document import Event
from open_token.redaction.ruleset import Rule
from open_token.redaction.traversal import Batch

# In characters; an event counts as this many by itself.
_MAX_KEPT = 1 << 25
_EVENT_SIZE = 1 << 10


class ValuePart(NamedTuple):
    """The span of a string that is one part of a split value; the first part gets the marker."""

    start: int
    end: int
    value: str
    is_first: bool


class RankedRule(NamedTuple):
    """The rule that says most about a value: the one with the lowest rank."""

    rank: int
    rule: Rule


class FoundValues:
    """Filled by the search, and further by masking, which may find more."""

    def __init__(self) -> None:
        self.values: dict[str, RankedRule] = {}
        self.positions = array("Q")
        """The positions of events in which something was found, ascending."""
        self.has_whole_event = False
        """Some event is masked as a whole, whatever was found in it."""
        self.split_parts: dict[int, dict[tuple[str, int], list[ValuePart]]] = {}
        """Parts of values over several strings: by event position, then by string and how many
        equal strings of the event come before it."""
        self.batches: list[Batch] | None = []
        """The batches that were searched, while they are small: masking need not collect their
        strings again."""
        self.has_media = False
        """Whether images or files were passed over."""
        self._kept_size = 0

    def keep_batch(self, batch: Batch) -> None:
        """Keep a batch for masking, unless the conversation is long."""
        if self.batches is None:
            return
        self._kept_size += sum(map(len, batch.strings))
        self._kept_size += sum(map(_measure_media, batch.events))
        self._kept_size += _EVENT_SIZE * len(batch.events)
        self.batches.append(batch)
        if self._kept_size > _MAX_KEPT:
            self.batches = None

    def add(self, value: str, rank: int, rule: Rule) -> bool:
        """Add a value; return whether it is new."""
        known = self.values.get(value)
        if known is None or rank < known.rank:
            self.values[value] = RankedRule(rank, rule)
        return known is None

    def add_position(self, position: int) -> None:
        """Add the position of an event; positions must come in ascending order."""
        if not self.positions or self.positions[-1] != position:
            self.positions.append(position)

    def __bool__(self) -> bool:
        return bool(self.values) or self.has_whole_event


def _measure_media(event: Event) -> int:
    """Return the size of images and files, which are not searched but would be kept in memory."""
    content: Any = event.get("content")
    data = content.get("data") if type(content) is dict else None
    if type(data) is not list:
        return 0
    size = 0
    for block in data:
        if type(block) is dict and type(block.get("base64")) is str:
            size += len(block["base64"])
    return size
