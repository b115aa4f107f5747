"""Explain which rules match a text, and which almost do: rejected by a validator, or allowed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from open_token.context import AllowEntry, Context
from open_token.jsontools.walk import prefix_name
from open_token.redaction.findings import Finding, list_text_findings
from open_token.redaction.found_values import FoundValues
from open_token.redaction.ruleset import Rule, load_rules
from open_token.redaction.text_encoding import decode_padded
from open_token.redaction.text_stream import redact_text
from open_token.redaction.user_detector import UserRuleDetector, select_user_rules
from open_token.redaction.validators import Candidate, Validator
from open_token.redaction.validators.key_names import is_harmless_name
from open_token.redaction.validators.near_words import has_word_near
from open_token.redaction.validators.values import is_placeholder, is_reference, is_words

_CONTEXT_SIZE = 64
_MAX_NEAR_MISSES = 200
_REASONS = {
    "jwt": "its first part is not a JSON header",
    "private_key": "there is no key between its lines",
    "basic_auth": "it is not a user name and password in base64",
    "wif": "its checksum does not match",
    "seed": "it is not a wallet's seed phrase",
    "structured": "its name, or what contains it, is not that of a secret, or its form is not",
    "near_secret": "a name or its form says that it is something else, or it does not look random",
    "near_password": "it does not look like a password",
    "base64": "what it encodes would not be masked",
    "email": "not a person's address: of a service, an example, or something else",
    "card": "its checksum or its first digits are not those of a card",
    "iban": "its country, length or checksum does not match",
    "ipv4": "not somebody's host: loopback, reserved for documentation, or a version number",
    "ipv6": "not somebody's host: loopback, reserved for documentation, or something else",
    "mac": "not somebody's device",
    "user_name": "a user name that many machines have",
}
# The patterns of these match every longer word: what matters is the word for secrets beside it.
_NEAR_VALIDATORS = {"near_secret": "secret", "near_password": "password"}
_PHONE_REASON = "not a number of a region, or the words around it are about something else"
_IDENTITY_REASON = "its checksum does not match, or nothing near it says what it is"


class NearMiss(NamedTuple):
    """A rule whose pattern matched, and why nothing is masked there."""

    line: int
    rule: str
    type: str
    length: int
    why: str
    is_allowed: bool = False


class Explanation(NamedTuple):
    """What is masked in a text, and what almost is."""

    findings: list[Finding]
    near: list[NearMiss]


def explain(data: bytes, context: Context, level: str) -> Explanation:
    """Explain what a level masks in a text."""
    context = replace(context, options=context.options.changed(redact=level))
    known = collect_values([data], context)
    findings = list_text_findings([data], context, known)
    text = data.decode("utf-8", "replace")
    user_rules = select_user_rules(level, context.screen.rules)
    rules = load_rules(level, context.rule_cache)
    detector = _RecordingDetector(rules, context, user_rules, "auto")
    string = prefix_name("", text)
    spans = [(item.start, item.end) for _, items in detector.find([string]) for item in items]
    near = _list_near_misses(detector.misses, string.encode("utf-8", "replace"), spans)
    return Explanation(findings, near)


def collect_values(chunks: Iterable[bytes], context: Context) -> FoundValues:
    """Return the values of a text, so that a second pass finds each of them everywhere."""
    text_filter = redact_text(chunks, context, "")
    for _ in text_filter:
        pass
    return text_filter.found


class _Miss(NamedTuple):
    rule: Rule
    value: bytes
    before: bytes
    after: bytes
    allowed: AllowEntry | None


class _RecordingDetector(UserRuleDetector):
    """A detector that records the matches it does not report."""

    def __init__(
        self, rules: tuple[Rule, ...], context: Context, user_rules: tuple[Rule, ...], engine: str
    ) -> None:
        super().__init__(rules, context, user_rules, engine)
        self.misses: list[_Miss] = []

    def _find_matches(self, rank: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        # Not remembered: each rejected match has its own position.
        return self._match_rule(rank, rule, text)

    def _is_accepted(
        self, rule: Rule, validator: Validator | None, text: bytes, start: int, end: int
    ) -> bool:
        is_accepted = super()._is_accepted(rule, validator, text, start, end)
        if not is_accepted:
            self._record(rule, text, start, end)
        return is_accepted

    def _is_structured_secret(self, rule: Rule, validator: Validator, candidate: Candidate) -> bool:
        is_accepted = super()._is_structured_secret(rule, validator, candidate)
        if not is_accepted:
            value, _, after = (part.encode("utf-8", "surrogatepass") for part in candidate)
            self.misses.append(_Miss(rule, value, b"", after, None))
        return is_accepted

    def _is_user_match(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        is_accepted = super()._is_user_match(rule, text, start, end)
        if not is_accepted:
            self._record(rule, text, start, end)
        return is_accepted

    def _record(self, rule: Rule, text: bytes, start: int, end: int) -> None:
        before = text[max(0, start - _CONTEXT_SIZE) : start]
        after = text[end : end + _CONTEXT_SIZE]
        self.misses.append(_Miss(rule, text[start:end], before, after, None))

    def get_allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """Return the entry that permits a value, and record it."""
        entry = super().get_allowance(rule, value, key)
        if entry is not None:
            self.misses.append(_Miss(rule, value.encode("utf-8", "replace"), b"", b"", entry))
        return entry


def _list_near_misses(
    misses: list[_Miss], string: bytes, spans: list[tuple[int, int]]
) -> list[NearMiss]:
    """Return each miss once a line and rule, in order, unless it is within something that is
    masked or allowed."""
    by_line: dict[tuple[int, str], NearMiss] = {}
    covered = list(spans)
    searched: dict[tuple[str, bytes], int] = {}
    # By rule, since the order in which rules are tried depends on the engine that searches.
    for miss in sorted(misses, key=lambda miss: (miss.allowed is None, miss.rule.id)):
        if miss.allowed is None and not _is_worth_a_row(miss):
            continue
        excerpt = miss.before + miss.value + miss.after
        position = string.find(excerpt, searched.get((miss.rule.id, excerpt), 0))
        searched[miss.rule.id, excerpt] = position + 1
        start = position + len(miss.before)
        end = start + len(miss.value)
        if position < 0 or any(first < end and start < last for first, last in covered):
            continue
        if miss.allowed is not None:
            covered.append((start, end))
        line = string.count(b"\n", 0, start) + 1
        near_miss = NearMiss(
            line,
            miss.rule.id,
            miss.rule.type,
            len(decode_padded(miss.value)),
            _describe_allowance(miss.allowed) if miss.allowed else _explain_rejection(miss),
            miss.allowed is not None,
        )
        by_line.setdefault((line, miss.rule.id), near_miss)
        if len(by_line) == _MAX_NEAR_MISSES:
            break
    return sorted(by_line.values(), key=lambda near: (near.line, not near.is_allowed, near.rule))


def _is_worth_a_row(miss: _Miss) -> bool:
    kind = _NEAR_VALIDATORS.get(miss.rule.validator)
    if kind is None:
        return True
    value, before, after = map(decode_padded, (miss.value, miss.before, miss.after))
    return has_word_near(Candidate(value, before, after), kind)


def _describe_allowance(entry: AllowEntry) -> str:
    names = [name for name in ("value", "pattern", "rule", "key", "path") if getattr(entry, name)]
    return f"allowed by {' and '.join(names)} in {entry.file}"


def _explain_rejection(miss: _Miss) -> str:
    rule = miss.rule
    value = decode_padded(miss.value)
    if rule.ends and miss.after[:1].isalnum():
        return "more letters follow directly"
    if rule.level == "secrets" and is_placeholder(value):
        return "a placeholder"
    if rule.level == "secrets" and is_reference(value):
        return "it refers to a secret and does not contain it"
    if rule.validator in _REASONS:
        return _REASONS[rule.validator]
    if rule.level != "secrets":
        if rule.validator.startswith("phone"):
            return _PHONE_REASON
        return f"{_IDENTITY_REASON} (validator {rule.validator})"
    if is_harmless_name(decode_padded(miss.before)):
        return "the name before it is not that of a secret"
    if is_words(value):
        return "words, or a name from code"
    return f"it does not look random (validator {rule.validator})"
