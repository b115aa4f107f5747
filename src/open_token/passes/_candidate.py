"""What a pattern found, as the judges see it."""

from typing import NamedTuple


class Candidate(NamedTuple):
    """A value with what stands around it on the line."""

    value: str
    before: str
    after: str
