"""Finds what the rules of the user and the project ask for beside the built-in ones, and leaves
what is allowed."""

import fnmatch
import hmac
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from open_token.context import AllowEntry, Context, CustomRule
from open_token.model import REDACTION_MODES
from open_token.passes._candidate import Candidate
from open_token.passes._detect import Detector, Finding, merged
from open_token.passes._letters import all_encoded, decoded
from open_token.passes._marker import canonical
from open_token.passes._marks import MARK
from open_token.passes._own_pattern import judges, own_pattern
from open_token.passes._rules import Rule

Accepts = Callable[[Rule, bytes, int, int], bool]
_PURPOSE = b"open-token/allow/v1"
_MARK_BYTES = re.compile(MARK.pattern.encode())
_BEFORE, _AFTER = 96, 24
# RE2 reads on behind a match to see whether a longer one is there, so that many matches in one long
# text would cost
# its square; a piece of bounded length keeps that bounded.
_PIECE, _OVERLAP = 1 << 14, 1 << 12


def own_of(level: str, rules: tuple[CustomRule, ...]) -> tuple[Rule, ...]:
    """The rules of one's own that hold at a level; at `none` those for private keys only, as with
    the built-in ones."""
    wanted = REDACTION_MODES[: REDACTION_MODES.index(level) + 1]
    is_none = level == "none"
    return tuple(
        as_rule(rule)
        for rule in rules
        if rule.level in wanted or (is_none and rule.type == "private_key")
    )


def as_rule(rule: CustomRule) -> Rule:
    """A rule of one's own among the others; nothing but RE2 ever runs it, so it needs no gate."""
    return Rule(rule.id, rule.type, rule.level, rule.pattern, "", rule.keywords, rule.validator)


def value_hash(key: bytes, type: str, value: str) -> str:
    """A value in an allow-list: keyed, so that nobody can try values out."""
    derived = hmac.digest(key, _PURPOSE, "sha256")
    plain = canonical(type, value).encode("utf-8", "surrogatepass")
    return "hmac:" + hmac.new(derived, plain, sha256).hexdigest()[:32]


class OwnDetector(Detector):
    """A detector with rules of one's own, which name a finding before the built-in ones, and with
    an allow-list."""

    def __init__(
        self, rules: tuple[Rule, ...], context: Context, own: tuple[Rule, ...], engine: str
    ) -> None:
        super().__init__(rules, context.rule_cache, engine)
        self._context = context
        self._own = own

    def find(self, leaves: list[str]) -> list[tuple[int, list[Finding]]]:
        """The findings by leaf, without those that are allowed."""
        found = dict(super().find(leaves))
        for number, more in self._find_own(leaves):
            found[number] = merged(found.get(number, []) + more)
        if not (self._context.screen.allowed or self._context.screen.kept):
            return sorted(found.items())
        left = (
            (number, self._not_allowed(leaves[number], items))
            for number, items in sorted(found.items())
        )
        return [(number, items) for number, items in left if items]

    def is_odd_key(self, key: str) -> bool:
        """Whether a rule of one's own may find something in a key, however plain it looks."""
        raw = all_encoded([key])[0]
        return any(own_pattern(rule.pattern).search(raw) for rule in self._own)

    def _find_own(self, leaves: list[str]) -> Iterator[tuple[int, list[Finding]]]:
        pieces = all_encoded(leaves)
        lowered = b"\0".join(pieces).lower()
        count = len(self._own)
        active = [
            (number - count, rule, own_pattern(rule.pattern))
            for number, rule in enumerate(self._own)
            if not rule.keywords or any(word.encode() in lowered for word in rule.keywords)
        ]
        for number, piece in enumerate(pieces if active else ()):
            findings = [
                Finding(start, end, rank, rule)
                for rank, rule, pattern in active
                for start, end in own_spans(rule, pattern, piece, self._accepts_own)
            ]
            if findings:
                yield number, findings

    def _accepts_own(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        if not rule.validator:
            return True
        before, after = (
            decoded(text[max(0, start - _BEFORE) : start]),
            decoded(text[end : end + _AFTER]),
        )
        return judges()[rule.validator](Candidate(decoded(text[start:end]), before, after))

    def _not_allowed(self, leaf: str, findings: list[Finding]) -> list[Finding]:
        raw = all_encoded([leaf])[0]
        name, end, _ = leaf.partition("\x01")
        key = name if end else ""
        values = [
            item.plain or raw[item.start : item.end].decode("utf-8", "surrogatepass")
            for item in findings
        ]
        judged = zip(findings, values, strict=True)
        return [item for item, value in judged if self.allowance(item.rule, value, key) is None]

    def allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """The entry that lets a value stand; policy wins over every entry."""
        context, policy = self._context, self._context.policy
        if rule.type == "private_key" and policy.never_export_private_keys:
            return None
        if canonical(rule.type, value) in context.screen.kept:
            return AllowEntry(file="this review")
        is_policy = REDACTION_MODES.index(rule.level) <= REDACTION_MODES.index(policy.min_redact)
        for entry in context.screen.allowed:
            # What the policy asks for is asked for everywhere: only a value that was looked at may
            # be let through.
            if (entry.value or not is_policy) and _holds(entry, context, rule, value, key):
                return entry
        return None


def _holds(entry: AllowEntry, context: Context, rule: Rule, value: str, key: str) -> bool:
    if entry.rule and not fnmatch.fnmatchcase(rule.id, entry.rule):
        return False
    if entry.key and not fnmatch.fnmatchcase(key, entry.key):
        return False
    if entry.path and not fnmatch.fnmatchcase(context.source, entry.path):
        return False
    if entry.pattern and not _is_whole(own_pattern(entry.pattern), value):
        return False
    if not entry.value:
        return True
    return context.key is not None and hmac.compare_digest(
        entry.value, value_hash(context.key, rule.type, value)
    )


def _is_whole(pattern: Any, value: str) -> bool:
    return pattern.fullmatch(value.encode("utf-8", "surrogatepass")) is not None


def own_spans(rule: Rule, pattern: Any, leaf: bytes, accepts: Accepts) -> Iterator[tuple[int, int]]:
    """What a rule masks in a leaf, behind the name of its place; marks hold bytes that no pattern
    matches."""
    begin = leaf.find(b"\x01") + 1
    text = _blinded(leaf[begin:])
    if not pattern.search(text):
        return
    seen = 0
    for place in range(0, max(1, len(text) - _OVERLAP), _PIECE - _OVERLAP):
        # The text goes on around a piece: a pattern sees there what it sees in the whole of it.
        last = place + _PIECE
        for match in pattern.finditer(text, place, last):
            group = next(
                (group for group in range(1, pattern.groups + 1) if match.start(group) >= 0), 0
            )
            start, end = match.span(group)
            # What touches the end of a piece may go on: the next piece, which overlaps, has it
            # whole.
            is_cut = match.end() == last and match.start() >= last - _OVERLAP
            if end > max(start, seen) and not is_cut and accepts(rule, text, start, end):
                seen = end
                yield begin + start, begin + end


def _blinded(text: bytes) -> bytes:
    if b"[REDACTED:" not in text:
        return text
    return _MARK_BYTES.sub(lambda found: b"\xff" * len(found[0]), text)
