"""All rules as they are written, the built-in ones and one's own, with their examples, which can be
tried."""

from dataclasses import asdict
from typing import Any, NamedTuple

from open_token.context import Context, CustomRule
from open_token.passes._detect import Detector
from open_token.passes._hidden import DISGUISES
from open_token.passes._holes import filled, unfilled
from open_token.passes._own_detector import OwnDetector, as_rule
from open_token.passes._own_pattern import own_pattern
from open_token.passes._rules import Rule, load_rules, rule_of, sources
from open_token.passes._strict import WHOLE

BUILT_IN = "built-in"


class Entry(NamedTuple):
    """A rule as its file has it."""

    id: str
    type: str
    level: str
    file: str
    fields: dict[str, Any]
    own: CustomRule | None = None

    @property
    def rule(self) -> Rule:
        """The rule, ready to be compiled."""
        return as_rule(self.own) if self.own else rule_of(self.fields, self.level)


class Failure(NamedTuple):
    """An example that does not come out as it should."""

    id: str
    file: str
    list: str
    number: int
    example: str
    """With its holes."""
    why: str = ""


def catalogue(own: tuple[CustomRule, ...]) -> list[Entry]:
    """Every rule: one's own first, then the built-in ones by level."""
    import tomllib

    entries = own_entries(own)
    for level, text in sources().items():
        for fields in tomllib.loads(text.decode())["rule"]:
            entries.append(Entry(fields["id"], fields["type"], level, BUILT_IN, fields))
    for rule in WHOLE.values():
        entries.append(
            Entry(
                rule.id, rule.type, rule.level, BUILT_IN, {"type": rule.type, "masks": "all of it"}
            )
        )
    return entries


def own_entries(rules: tuple[CustomRule, ...]) -> list[Entry]:
    """Rules of one's own, as their files have them."""
    entries = []
    for rule in rules:
        fields = {
            name: value
            for name, value in asdict(rule).items()
            if value and name not in ("file", "level")
        }
        entries.append(Entry(rule.id, rule.type, rule.level, rule.file, fields, rule))
    return entries


def failures(entry: Entry, context: Context) -> list[Failure]:
    """Try the examples of a rule: what it should match, and what it should not."""
    if not (entry.fields.get("matches") or entry.fields.get("ignores")):
        return []
    detector = _detector(entry, context)
    failed = []
    for name in ("matches", "ignores"):
        for number, example in enumerate(entry.fields.get(name, []), 1):
            text = filled(example, entry.id)[0]
            if bool(detector.find([text])) != (name == "matches"):
                failed.append(
                    Failure(entry.id, entry.file, name, number, example, _why(entry, text))
                )
    return failed


def _why(entry: Entry, text: str) -> str:
    """Why a rule of one's own finds nothing in a text in which it should, as far as one reason can
    be told."""
    raw, rule = text.encode("utf-8", "surrogatepass"), entry.own
    if rule is None:
        return ""
    if rule.keywords and not any(word.encode() in raw.lower() for word in rule.keywords):
        return "none of its keywords is in it"
    if own_pattern(rule.pattern).search(raw):
        return (
            f"validator {rule.validator} refuses it"
            if rule.validator
            else "the group of its pattern is empty there"
        )
    left = unfilled(text)
    return f"{left} is no hole" if left else "no match of its pattern"


def _detector(entry: Entry, context: Context) -> Detector:
    if entry.own:
        return OwnDetector(load_rules("none"), Context(context.options), (entry.rule,), "keywords")
    rules = (
        load_rules("secrets", context.rule_cache)
        if entry.rule.validator in DISGUISES
        else (entry.rule,)
    )
    return Detector(rules, engine="keywords")
