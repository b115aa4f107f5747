"""Says which rule fires where on a text, and what nearly did: refused by a validator, or allowed by
the settings."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from open_token.context import AllowEntry, Context
from open_token.jsontools.walk import prefix_name
from open_token.passes._detect import Judge
from open_token.passes._found import Found
from open_token.passes._letters import decoded
from open_token.passes._names import is_harmless
from open_token.passes._own_detector import OwnDetector, own_of
from open_token.passes._rules import Rule, load_rules
from open_token.passes._values import is_placeholder, is_reference, is_words
from open_token.passes.findings import Finding, findings_in
from open_token.passes.text import redacted_text

_AROUND = 64
_MOST = 200
_FORMS = {
    "jwt": "its first part is no header in JSON",
    "private_key": "there is no key between its lines",
    "basic_auth": "it is no name and password in base64",
    "wif": "its checksum does not fit",
    "stellar": "its checksum does not fit",
    "seed": "it is no phrase of words that wallets use",
    "base64": "what it encodes would not be masked",
    "email": "no person's address: of a service, of an example, or a name of something else",
    "card": "its checksum or its first digits are no card's",
    "iban": "its country, length or checksum does not fit",
    "ipv4": "no host of somebody's: loopback, for documentation, or a version number",
    "ipv6": "no host of somebody's: loopback, for documentation, or something else",
    "mac": "no device of somebody's",
    "user_name": "a name that many machines have",
}
_PHONE = "no number of a region, or the words around it are of something else"
_IDENTITY = "its checksum does not fit, or nothing near it says what it is"


class NearMiss(NamedTuple):
    """A rule whose pattern matched, and why nothing is masked there."""

    line: int
    rule: str
    type: str
    length: int
    why: str
    is_allowed: bool = False


class Explanation(NamedTuple):
    """What is masked in a text, and what nearly is."""

    findings: list[Finding]
    near: list[NearMiss]


def explain(data: bytes, context: Context, level: str) -> Explanation:
    """Look through a text at a level."""
    context = replace(context, options=context.options.changed(redact=level))
    known = known_values([data], context)
    findings = findings_in([data], context, known)
    text = data.decode("utf-8", "replace")
    listener = _Listener(
        load_rules(level, context.rule_cache), context, own_of(level, context.screen.rules), "auto"
    )
    leaf = prefix_name("", text)
    spans = [(item.start, item.end) for _, items in listener.find([leaf]) for item in items]
    return Explanation(findings, _near(listener, leaf.encode("utf-8", "replace"), spans))


def known_values(chunks: Iterable[bytes], context: Context) -> Found:
    """The values of a text, so that a second walk finds each of them wherever it stands."""
    walk = redacted_text(chunks, context, "")
    for _ in walk:
        pass
    return walk.found


class _Miss(NamedTuple):
    rule: Rule
    value: bytes
    before: bytes
    after: bytes
    allowed: AllowEntry | None


class _Listener(OwnDetector):
    """A detector that notes what it does not tell."""

    def __init__(
        self, rules: tuple[Rule, ...], context: Context, own: tuple[Rule, ...], engine: str
    ) -> None:
        super().__init__(rules, context, own, engine)
        self.misses: list[_Miss] = []

    def _known_matches(self, number: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        return self._matches(
            number, rule, text
        )  # what is refused is noted each time, for each has a place

    def _accepts(self, rule: Rule, judge: Judge | None, text: bytes, start: int, end: int) -> bool:
        return super()._accepts(rule, judge, text, start, end) or self._note(rule, text, start, end)

    def _accepts_own(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        return super()._accepts_own(rule, text, start, end) or self._note(rule, text, start, end)

    def _note(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        around = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
        self.misses.append(_Miss(rule, text[start:end], *around, None))
        return False

    def allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """The entry that lets a value stand, noted."""
        entry = super().allowance(rule, value, key)
        if entry is not None:
            self.misses.append(_Miss(rule, value.encode("utf-8", "replace"), b"", b"", entry))
        return entry


def _near(listener: _Listener, leaf: bytes, spans: list[tuple[int, int]]) -> list[NearMiss]:
    """Each miss once a line and rule, in order; what lies inside something that is masked, or
    allowed, is none."""
    told: dict[tuple[int, str], NearMiss] = {}
    kept = list(spans)
    seen: dict[tuple[str, bytes], int] = {}
    for miss in sorted(listener.misses, key=lambda miss: miss.allowed is None):
        words = miss.before + miss.value + miss.after
        place = leaf.find(words, seen.get((miss.rule.id, words), 0))
        seen[miss.rule.id, words] = place + 1
        start = place + len(miss.before)
        end = start + len(miss.value)
        if place < 0 or any(first < end and start < last for first, last in kept):
            continue
        if miss.allowed is not None:
            kept.append((start, end))
        line = leaf.count(b"\n", 0, start) + 1
        why = _allowed_by(miss.allowed) if miss.allowed else _why(miss)
        near = NearMiss(
            line,
            miss.rule.id,
            miss.rule.type,
            len(decoded(miss.value)),
            why,
            miss.allowed is not None,
        )
        told.setdefault((line, miss.rule.id), near)
        if len(told) == _MOST:
            break
    return sorted(told.values(), key=lambda near: (near.line, not near.is_allowed))


def _allowed_by(entry: AllowEntry) -> str:
    names = [name for name in ("value", "pattern", "rule", "key", "path") if getattr(entry, name)]
    return f"allowed by {' and '.join(names)} in {entry.file}"


def _why(miss: _Miss) -> str:
    rule, value, before = miss.rule, decoded(miss.value), decoded(miss.before)
    if rule.ends and miss.after[:1].isalnum():
        return "more letters follow right behind it"
    if rule.level == "secrets" and is_placeholder(value):
        return "a placeholder"
    if rule.level == "secrets" and is_reference(value):
        return "it refers to a secret and does not tell it"
    if rule.validator in _FORMS:
        return _FORMS[rule.validator]
    if rule.level != "secrets":
        return (
            _PHONE
            if rule.validator.startswith("phone")
            else f"{_IDENTITY} (validator {rule.validator})"
        )
    if is_harmless(before):
        return "the name before it is of something that is no secret"
    if is_words(value):
        return "words, or a name from code"
    return f"it does not look like something drawn by lot (validator {rule.validator})"
