"""Validators: decide whether what a pattern matched is what its rule is about."""

import functools
from collections.abc import Callable
from typing import NamedTuple


class Candidate(NamedTuple):
    """A matched value with the text around it on its line."""

    value: str
    before: str
    after: str


Validator = Callable[[Candidate], bool]


@functools.cache
def load_validators(level: str) -> dict[str, Validator]:
    """Return the validators that the rules of a level name; loaded when one is first needed."""
    if level == "secrets":
        from open_token.redaction.validators import secrets

        return secrets.VALIDATORS
    from open_token.redaction.validators import personal_data

    return personal_data.VALIDATORS


@functools.cache
def load_all_validators() -> dict[str, Validator]:
    """Return the validators that a user rule may name, of all levels."""
    return {**load_validators("pii"), **load_validators("secrets")}
