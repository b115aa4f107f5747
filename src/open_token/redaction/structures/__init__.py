"""Structures: layouts that give values names, read as pairs of a name and a value.

Each module knows one family of layouts. It is asked about one name at a time and looks only around
that name, so that broken structure costs nothing but its own pairs, and the work is proportional
to the text. Whether a value is a secret is not decided here: all pairs go to the same validator.
"""

from collections.abc import Callable

from open_token.redaction.structures import (
    blocks,
    command_lines,
    joined_pairs,
    literals,
    markup,
    tables,
    urls,
)
from open_token.redaction.structures.names import Name, Pair

VALIDATOR = "structured"
"""A rule with this validator finds names; the values come from here."""

_FAMILIES: tuple[Callable[[Name], list[Pair]], ...] = (
    markup.list_pairs,
    command_lines.list_pairs,
    urls.list_pairs,
    joined_pairs.list_pairs,
    tables.list_pairs,
    literals.list_pairs,
    blocks.list_pairs,
)


def list_pairs(text: bytes, start: int, end: int) -> list[Pair]:
    """Return the values that a name may belong to, given the span of the name in a text."""
    name = Name.at(text, start, end)
    for list_pairs_of_family in _FAMILIES:
        pairs = list_pairs_of_family(name)
        if pairs:
            return pairs
    return []
