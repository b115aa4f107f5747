"""The trajectories of an ATIF file: one as a rule, many where a data set keeps them as lines or in
a list."""

from functools import lru_cache
from typing import Any, cast

from open_token.errors import InputError
from open_token.formats.shared.fields import as_dicts, as_text
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]


def found(source: Source) -> list[Found]:
    """Every trajectory, in the order of the file."""
    return [
        Found(name, started_at=started, messages=steps)
        for name, started, steps in _names(source).values()
    ]


def owner(source: Source, at: str) -> str | None:
    """The trajectory at a place of the file: a line, or an item of its list."""
    number = at.removeprefix("/")
    if not number.isdecimal() or len(number) > 15:
        return None
    place = int(number) + (source.shape == "document")
    return _names(source)[place][0] if place in _names(source) else None


def chosen(source: Source) -> Body:
    """The trajectory that was asked for, or the first."""
    places = _places(source)
    place = (
        next(iter(places.values()), None)
        if source.conversation is None
        else places.get(source.conversation)
    )
    if place is not None:
        return cast(Body, source.record_at(place))
    raise InputError(
        "this file holds no such trajectory",
        where=source.name,
        help="choose one with --conversation ID",
        code="input.no-events",
    )


@lru_cache(maxsize=2)
def _places(source: Source) -> dict[str, int]:
    return {name: place for place, (name, _, _) in _names(source).items()}


@lru_cache(maxsize=2)
def _names(source: Source) -> dict[int, tuple[str, str | None, int]]:
    """By place, from 1: a name that no other has, when it began, how many steps."""
    made: dict[int, tuple[str, str | None, int]] = {}
    taken: set[str] = set()
    for number, document in source.records():
        if not isinstance(document, dict):
            continue
        name = (
            as_text(document.get("trajectory_id"))
            or as_text(document.get("session_id"))
            or str(number)
        )
        name = name if name not in taken else f"{name}#{number}"
        taken.add(name)
        steps = as_dicts(document.get("steps"))
        started = next((ts for step in steps if (ts := to_utc(step.get("timestamp")))), None)
        made[number] = name, started, len(steps)
    return made
