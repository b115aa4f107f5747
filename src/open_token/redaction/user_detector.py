"""Apply the rules and allow-lists of the user and the project next to the built-in rules."""

import fnmatch
import hmac
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from open_token.context import AllowEntry, Context, CustomRule
from open_token.model.document import REDACTION_MODES
from open_token.redaction.detector import Detector, Finding, build_candidate, merge_findings
from open_token.redaction.marker_factory import canonicalize_value
from open_token.redaction.markers import blank_markers
from open_token.redaction.ruleset import Rule
from open_token.redaction.text_encoding import encode_all, encode_text
from open_token.redaction.user_rules import compile_user_pattern
from open_token.redaction.validators import load_all_validators

IsAccepted = Callable[[Rule, bytes, int, int], bool]
OWN_WORDS = "own-words"
"""The rule for words that the person who exports marked; nothing permits them."""
_PURPOSE = b"open-token/allow/v1"
# RE2 reads on after a match to see whether a longer one exists, so that many matches in one long
# text would take quadratic time; pieces of bounded size keep that bounded.
_PIECE_SIZE = 1 << 14
_OVERLAP = 1 << 12


def select_user_rules(level: str, rules: tuple[CustomRule, ...]) -> tuple[Rule, ...]:
    """Return the user rules of a level; at `none` those for private keys, like the built-in ones."""
    wanted = REDACTION_MODES[: REDACTION_MODES.index(level) + 1]
    selected = []
    for rule in rules:
        if rule.level in wanted or (level == "none" and rule.type == "private_key"):
            selected.append(to_rule(rule))
    return tuple(selected)


def to_rule(rule: CustomRule) -> Rule:
    """Return a user rule like the others; RE2 alone runs it, so it needs no prefilter pattern."""
    return Rule(rule.id, rule.type, rule.level, rule.pattern, "", rule.keywords, rule.validator)


def hash_value(key: bytes, type: str, value: str) -> str:
    """Return a value as an allow-list has it: a keyed hash, so that nobody can guess it."""
    derived = hmac.digest(key, _PURPOSE, "sha256")
    plain = canonicalize_value(type, value).encode("utf-8", "surrogatepass")
    return "hmac:" + hmac.new(derived, plain, sha256).hexdigest()[:32]


class UserRuleDetector(Detector):
    """A detector with user rules, which outrank the built-in ones, and with an allow-list."""

    def __init__(
        self, rules: tuple[Rule, ...], context: Context, user_rules: tuple[Rule, ...], engine: str
    ) -> None:
        super().__init__(rules, context.rule_cache, engine)
        self._context = context
        self._user_rules = user_rules

    def find(self, texts: list[str]) -> list[tuple[int, list[Finding]]]:
        """Return the findings by number, without those that are allowed."""
        found = dict(super().find(texts))
        for number, findings in self._find_by_user_rules(texts):
            found[number] = merge_findings(found.get(number, []) + findings)
        if not (self._context.screen.allowed or self._context.screen.kept):
            return sorted(found.items())
        remaining = []
        for number, findings in sorted(found.items()):
            findings = self._drop_allowed(texts[number], findings)
            if findings:
                remaining.append((number, findings))
        return remaining

    def is_odd_key(self, key: str) -> bool:
        """Return whether a user rule may find something in a key, however plain it looks."""
        raw = encode_text(key)
        return any(compile_user_pattern(rule.pattern).search(raw) for rule in self._user_rules)

    def _find_by_user_rules(self, texts: list[str]) -> Iterator[tuple[int, list[Finding]]]:
        pieces = encode_all(texts)
        lowered = b"\0".join(pieces).lower()
        active = []
        for number, rule in enumerate(self._user_rules):
            if not rule.keywords or any(word.encode() in lowered for word in rule.keywords):
                # Ranks below those of the built-in rules, which begin at zero.
                rank = number - len(self._user_rules)
                active.append((rank, rule, compile_user_pattern(rule.pattern)))
        if not active:
            return
        for number, piece in enumerate(pieces):
            findings = []
            for rank, rule, pattern in active:
                for start, end in find_user_spans(rule, pattern, piece, self._is_user_match):
                    findings.append(Finding(start, end, rank, rule))
            if findings:
                yield number, findings

    def _is_user_match(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        if not rule.validator:
            return True
        return load_all_validators()[rule.validator](build_candidate(text, start, end))

    def _drop_allowed(self, text: str, findings: list[Finding]) -> list[Finding]:
        raw = encode_text(text)
        name, separator, _ = text.partition("\x01")
        key = name if separator else ""
        return [
            finding
            for finding in findings
            if self.get_allowance(finding.rule, finding.get_value(raw), key) is None
        ]

    def get_allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """Return the entry that permits a value; the policy overrides every entry."""
        context = self._context
        policy = context.policy
        if rule.id == OWN_WORDS:
            return None
        if rule.type == "private_key" and policy.never_export_private_keys:
            return None
        if canonicalize_value(rule.type, value) in context.screen.kept:
            return AllowEntry(file="this review")
        is_policy = REDACTION_MODES.index(rule.level) <= REDACTION_MODES.index(policy.min_redact)
        for entry in context.screen.allowed:
            # What the policy asks for can only be permitted value by value.
            if is_policy and not entry.value:
                continue
            if _is_permitted(entry, context, rule, value, key):
                return entry
        return None


def _is_permitted(entry: AllowEntry, context: Context, rule: Rule, value: str, key: str) -> bool:
    """Return whether all conditions of an entry hold."""
    if entry.rule and not fnmatch.fnmatchcase(rule.id, entry.rule):
        return False
    if entry.key and not fnmatch.fnmatchcase(key, entry.key):
        return False
    if entry.path and not fnmatch.fnmatchcase(context.source, entry.path):
        return False
    if entry.pattern:
        pattern = compile_user_pattern(entry.pattern)
        if pattern.fullmatch(value.encode("utf-8", "surrogatepass")) is None:
            return False
    if not entry.value:
        return True
    if context.key is None:
        return False
    return hmac.compare_digest(entry.value, hash_value(context.key, rule.type, value))


def find_user_spans(
    rule: Rule, pattern: Any, string: bytes, is_accepted: IsAccepted
) -> Iterator[tuple[int, int]]:
    """Yield what a rule masks in a string, after the name of its key and outside of markers."""
    begin = string.find(b"\x01") + 1
    # No pattern over UTF-8 matches the byte 0xff.
    text = blank_markers(string[begin:], b"\xff")
    if not pattern.search(text):
        return
    seen = 0
    for position in range(0, max(1, len(text) - _OVERLAP), _PIECE_SIZE - _OVERLAP):
        # The text around a piece is visible to the pattern as it is in the whole text.
        last = position + _PIECE_SIZE
        for match in pattern.finditer(text, position, last):
            start, end = match.span(_get_masked_group(pattern, match))
            # What touches the end of a piece may go on: the next piece, which overlaps, has all.
            is_cut = match.end() == last and match.start() >= last - _OVERLAP
            if end > max(start, seen) and not is_cut and is_accepted(rule, text, start, end):
                seen = end
                yield begin + start, begin + end


def _get_masked_group(pattern: Any, match: Any) -> int:
    for group in range(1, pattern.groups + 1):
        if match.start(group) >= 0:
            return group
    return 0
