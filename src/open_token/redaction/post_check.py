"""Check the bytes that are about to be written: a value that survived redaction stops the export."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from open_token.errors import OpenTokenError
from open_token.jsontools.walk import FILE_BYTES, ID_VALUE, SEARCH_KEY_OF_ID, SKIP_VALUE
from open_token.model.document import Event
from open_token.redaction.detector import Detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.ruleset import GLUED_TOKEN_START, TOKEN_START, Rule, RuleSet
from open_token.redaction.text_encoding import decode_padded, encode_all, encode_text
from open_token.redaction.traversal import EVENT_KEYS, KeyTreatments, find_unknown_members

if TYPE_CHECKING:
    from open_token.redaction.propagation import ValueSearch

_MIN_KEYWORD_LENGTH = 4
_KEPT_VALUES = frozenset((SKIP_VALUE, ID_VALUE, SEARCH_KEY_OF_ID, FILE_BYTES))


class PostCheck:
    """Search serialized events for tokens with a distinct prefix and for known values.

    Both look the same in a string and in its JSON.
    """

    def __init__(self, detector: Detector, found: FoundValues) -> None:
        self._detector = detector
        self._tokens = Detector(
            _select_token_rules(detector.rules), detector.cache, detector.engine
        )
        self._tokens.checkpoint = detector.checkpoint
        self._known = _build_value_search(found, detector.engine)
        self._keys = KeyTreatments()

    def __call__(self, events: list[Event], lines: bytes) -> None:
        """Check events and their JSON; raise an error if a value survived in one of them."""
        tokens = {
            decode_padded(lines[finding.start : finding.end])
            for finding in self._tokens.find_raw(lines)
        }
        known = {item.value for item in self._known.find(lines)} if self._known else set()
        if not tokens and not known:
            return
        texts = [list(iter_searchable_strings(event, self._keys)) for event in events]
        if not tokens and not self._has_known(texts, known):
            return
        for event, texts_of_event in zip(events, texts, strict=True):
            if any(self._has_survivor(text, tokens, known) for text in texts_of_event):
                raise _survivor_error(str(event.get("id", "an event without id")))

    def check_metadata(self, parts: list[dict[str, Any]]) -> None:
        """Check the conversation's metadata and the participants as they will be written."""
        pseudo_event = cast(
            Event, {"id": "the conversation's title or participants", "content": parts}
        )
        self([pseudo_event], msgspec.json.encode(parts))

    def _has_known(self, texts: list[list[str]], known: set[str]) -> bool:
        """Return whether any string may hold a value; most values found in the JSON are ids."""
        if self._known is None:
            return False
        joined = b"\0".join(encode_all([text for some in texts for text in some]))
        return any(item.value in known for item in self._known.find(joined))

    def _has_survivor(self, text: str, tokens: set[str], known: set[str]) -> bool:
        if any(token in text for token in tokens) and self._detector.find([text]):
            return True
        if not known or self._known is None:
            return False
        return any(item.value in known for item in self._known.find(encode_text(text)))


def _build_value_search(found: FoundValues, engine: str) -> "ValueSearch | None":
    if not found.values:
        return None
    from open_token.redaction.propagation import ValueSearch, list_recurring_values

    return ValueSearch(list_recurring_values(found), engine)


@functools.lru_cache(maxsize=32)
def _select_token_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return RuleSet(filter(_has_distinct_keyword, rules))


def _has_distinct_keyword(rule: Rule) -> bool:
    """Return whether a rule's values begin with a keyword, which is the same in JSON."""
    if rule.type == "private_key":
        return True
    if rule.level != "secrets" or rule.weak or not rule.keywords:
        return False
    if min(map(len, rule.keywords)) < _MIN_KEYWORD_LENGTH:
        return False
    return rule.pattern.startswith((TOKEN_START, GLUED_TOKEN_START))


def iter_searchable_strings(event: Event, keys: KeyTreatments) -> Iterator[str]:
    """Yield every string of an event but those that must stay as they are.

    Deliberately not the traversal of the search: it must not share a mistake with it.
    """
    stack: list[Any] = []
    for key, item in event.items():
        if key == "content" or key not in EVENT_KEYS:
            stack.append(item)
    stack += find_unknown_members(event).values()
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            for key, part in item.items():
                yield key
                if isinstance(part, str) and keys[key] in _KEPT_VALUES:
                    continue
                stack.append(part)


def _survivor_error(where: str) -> OpenTokenError:
    return OpenTokenError(
        "a value that should have been masked is still in the output",
        where=where,
        help="the export was stopped; please report how to create such an event, without its content",
        code="redaction.survivor",
    )
