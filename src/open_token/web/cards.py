"""The HTML cards that agents showed, kept for the frames in which they are drawn."""

import hashlib
from collections import OrderedDict

_MAX_CARDS = 40


class CardShelf:
    """The cards that were shown last, by the hash of their HTML."""

    def __init__(self) -> None:
        self._cards: OrderedDict[str, str] = OrderedDict()

    def add(self, html: str) -> str:
        """Keep a card; return its name."""
        name = hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()
        self._cards[name] = html
        self._cards.move_to_end(name)
        while len(self._cards) > _MAX_CARDS:
            self._cards.popitem(last=False)
        return name

    def get(self, name: str) -> str | None:
        """Return the HTML of a card; None if it is not kept any more."""
        return self._cards.get(name)
