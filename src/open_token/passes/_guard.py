"""The last look, at the very bytes that are written: what should have been masked and was not stops
the export."""

import functools
import importlib
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from open_token.errors import OpenTokenError
from open_token.jsontools.walk import FILE_BYTES, ID_VALUE, SKIP_VALUE
from open_token.model import Event
from open_token.passes._batches import OWN_KEYS, strange_within
from open_token.passes._detect import Detector
from open_token.passes._found import Found
from open_token.passes._keys import Keys
from open_token.passes._letters import all_encoded, decoded, encoded
from open_token.passes._rules import GLUED, START, Rule, Rules

_LEAST_KEYWORD = 4


class Guard:
    """Looks for tokens that their own letters tell and for values that are known; both are seen in
    JSON as it is."""

    def __init__(self, detector: Detector, found: Found) -> None:
        self._detector = detector
        self._tokens = Detector(_tokens(detector.rules), detector.cache, detector.engine)
        self._known = _known(found, detector.engine)
        self._keys = Keys()

    def __call__(self, events: list[Event], lines: bytes) -> None:
        """Pass over what is about to be written; an error when a value survived in one of the
        events."""
        tokens = {decoded(lines[item.start : item.end]) for item in self._tokens.find_raw(lines)}
        known = {item.value for item in self._known.find(lines)} if self._known else set()
        if not tokens and not known:
            return
        strings = [list(open_strings(event, self._keys)) for event in events]
        if not tokens and not self._are_known(strings, known):
            return
        for event, some in zip(events, strings, strict=True):
            if any(self._is_left(string, tokens, known) for string in some):
                raise _survivor(str(event.get("id", "an event without id")))

    def look_at(self, parts: list[dict[str, Any]]) -> None:
        """Pass over what stands around the events, as it will be written."""
        about = cast(Event, {"id": "the conversation's title or participants", "content": parts})
        self([about], msgspec.json.encode(parts))

    def _are_known(self, strings: list[list[str]], known: set[str]) -> bool:
        """Whether any string may hold a value; mostly those that were met stand where they must
        stay."""
        joined = b"\0".join(all_encoded([string for some in strings for string in some]))
        return any(item.value in known for item in self._known.find(joined))

    def _is_left(self, string: str, tokens: set[str], known: set[str]) -> bool:
        if any(token in string for token in tokens) and self._detector.find([string]):
            return True
        return bool(known) and any(
            item.value in known for item in self._known.find(encoded(string))
        )


def _known(found: Found, engine: str) -> Any:
    """What finds the values that are known; loaded only where there are any."""
    if not found.values:
        return None
    module = importlib.import_module("open_token.passes._spread")
    return module.Spread(module.recurring(found), engine)


@functools.lru_cache(maxsize=32)
def _tokens(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return Rules(filter(_tells_itself, rules))


def _tells_itself(rule: Rule) -> bool:
    """Begins with letters of its own, which are the same in a string and in JSON."""
    if rule.type == "private_key":
        return True
    has_letters = bool(rule.keywords) and min(map(len, rule.keywords)) >= _LEAST_KEYWORD
    return (
        rule.level == "secrets"
        and not rule.weak
        and has_letters
        and rule.pattern.startswith((START, GLUED))
    )


def open_strings(event: Event, keys: Keys) -> Iterator[str]:
    """Every string of an event but those that must stay as they are, found another way than the
    search finds them."""
    stack: list[Any] = [
        item for key, item in event.items() if key == "content" or key not in OWN_KEYS
    ]
    stack += strange_within(event).values()
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            for key, part in item.items():
                yield key
                if isinstance(part, str) and keys[key] in (SKIP_VALUE, ID_VALUE, FILE_BYTES):
                    continue
                stack.append(part)


def _survivor(where: str) -> OpenTokenError:
    return OpenTokenError(
        "a value that should have been masked is still there",
        where=where,
        help="the export was stopped; please report how such an event can be made, without its content",
        code="redaction.survivor",
    )
