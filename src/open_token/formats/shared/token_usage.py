"""Token counts as the document format has them."""

from typing import Any, cast

from open_token.model.document import Usage


def build_usage(**counts: Any) -> Usage | None:
    """Return the counts that are valid numbers of tokens; None if there are none.

    The draft adds 0 for the others.
    """
    valid = {name: count for name, count in counts.items() if type(count) is int and count >= 0}
    return cast(Usage, valid) if valid else None
