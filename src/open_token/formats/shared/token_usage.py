"""Token counts as the document format has them."""

from collections.abc import Mapping
from typing import Any, cast

from open_token.model.document import Usage


def get_count(counts: Any, name: str) -> int:
    """Return a token count; 0 if the field is missing or holds no number."""
    count = counts.get(name) if type(counts) is dict else None
    return count if type(count) is int else 0


def build_usage(**counts: Any) -> Usage | None:
    """Return the counts that are valid numbers of tokens; None if there are none.

    The draft adds 0 for the others.
    """
    valid = {name: count for name, count in counts.items() if type(count) is int and count >= 0}
    return cast(Usage, valid) if valid else None


def subtract_usage(total: Usage | None, counted: Mapping[str, int]) -> Usage | None:
    """Return what the counts of a whole session have beyond those of its messages; None if nothing.

    Some agents store both, and adding them up would count each token twice.
    """
    if not total or not counted:
        return total
    counts = cast("dict[str, int]", total)
    rest = {name: max(0, count - counted.get(name, 0)) for name, count in counts.items()}
    return cast(Usage, rest) if any(rest.values()) else None
