"""The rules of redaction as they stand in rules/*.toml, turned into patterns that hyperscan and RE2
read alike."""

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.passes._address_forms import ADDRESS_FORMS
from open_token.passes._keeping import keep
from open_token.storage.files import read_optional

LEVELS = ("none", "secrets", "pii", "strict")
_FOLDER = Path(__file__).resolve().parent.parent / "rules"
_FORM = "3"

# What may stand right before a token: no letter of a word, but an escape that looks like one, a URL
# escape, a colour.
# The colour may have lost its escape sign, or have it in letters.
START = r"(?:\b|\\[abfnrtv]|%[0-9A-Fa-f]{2}|\[[0-9;]{0,20}[mK])"
# The same for a head with which no word ends, so that it is seen within one too.
GLUED = START[:-1] + "|)"
# Between a name and its value: the rest of the name, closing quotes, a sign or the end of a key, a
# type.
_NAME_END = r"[ \t\w.\-\x80-\xff]{0,24}(?:\\{0,3}[\"'`\])]){0,3}[ \t]{0,8}"
_SIGN = (
    r"[:?.+]{0,3}=|=>|:[ \t]?[A-Za-z][\w.\[\]]{0,20}[ \t]{0,2}=|:|：|＝|>|\||\x01|%3[DdAa]|"
    r"\\{0,3}[\"']?[ \t,]{1,4}\\{0,3}[\"']?value\\{0,3}[\"']?[ \t]{0,4}[:=]|[ \t]--(?:body|value)[ \t=]"
)
_SIGN_END = r"[ \t=>|]{0,24}"
SEPARATOR = rf"{_NAME_END}(?:{_SIGN}|->|,|\(|!==?){_SIGN_END}"
# In code what stands bare behind a comma or a bracket is another name.
PLAIN = rf"{_NAME_END}(?:{_SIGN}){_SIGN_END}"
OPENING = r"[brufBRUF@]?(?:\\{0,3}[\"'`(\[{]){0,3}[ \t]{0,4}"
MACROS = {
    "{START}": START,
    "{SEPARATOR}": SEPARATOR,
    "{PLAIN}": PLAIN,
    "{OPENING}": OPENING,
    "{ASSIGN}": SEPARATOR + OPENING,
    **ADDRESS_FORMS,
}
_OPEN_END = re.compile(r"(?<!\\)(?:\{(\d+),\d*\}|\+)(\)?)$")
_OPTIONAL_END = re.compile(r"(?:[^\\\]\[(){}|+*?]|\[[^\[\]\\]+\])(?:\{0,\d*\}|[*?])(\)?)$")


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rule, ready to be compiled."""

    id: str
    type: str
    level: str
    pattern: str
    """What confirms: the first group that matched is what is masked, the whole match without
    groups."""
    gate: str
    """What hyperscan looks for: it must match wherever the pattern does."""
    keywords: tuple[str, ...] = ()
    """Lower-case words of which one is in every match; none: the pattern itself is the gate."""
    validator: str = ""
    multiline: bool = False
    """A match may hold line ends; else each line is searched for itself."""
    lines: int = 1
    """How many lines a match may run over, where it is not multiline."""
    ends: bool = False
    """No letter, digit or underscore may follow."""
    weak: bool = False
    """Gives way to any other rule on the same text."""
    recurs: bool = True
    """Its values are masked wherever else they stand."""
    finder: str = ""
    """What searches in the place of the pattern, which then only tells where to look: `people`, or
    `part` of a name."""


class Rules(tuple[Rule, ...]):
    """Rules that are looked up again and again: their hash, which all their letters have a part in,
    is taken once."""

    @functools.cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


@functools.lru_cache(maxsize=32)
def load_rules(level: str, cache: Path | None = None) -> tuple[Rule, ...]:
    """The rules of a level and of the levels below it, the stronger first; `none` has the private
    keys only."""
    rules = _all_rules(cache)
    if level == "none":
        return Rules(rule for rule in rules if rule.type == "private_key")
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return Rules(rule for rule in rules if rule.level in wanted)


@functools.lru_cache(maxsize=32)
def fingerprint(rules: tuple[Rule, ...]) -> str:
    """A name for exactly these rules."""
    return hashlib.sha256(msgspec.msgpack.encode(rules)).hexdigest()


def sources() -> dict[str, bytes]:
    """The rule files by level."""
    return {level: read_optional(_FOLDER / f"{level}.toml") or b"" for level in LEVELS[1:]}


@functools.cache
def _all_rules(cache: Path | None) -> tuple[Rule, ...]:
    """Parsing TOML takes longer than a small export, so the outcome is kept beside the compiled
    rules."""
    texts = sources()
    digest = hashlib.sha256(
        b"\0".join([_FORM.encode(), *(part.encode() for part in MACROS.values()), *texts.values()])
    ).hexdigest()
    kept = cache / f"rules-{digest[:32]}.msgpack" if cache else None
    if kept and (raw := read_optional(kept, private=True)):
        try:
            return msgspec.msgpack.decode(raw, type=tuple[Rule, ...])
        except (msgspec.DecodeError, msgspec.ValidationError):
            pass
    rules = parse_rules(texts)
    if kept:
        keep(kept, msgspec.msgpack.encode(rules))
    return rules


def parse_rules(texts: dict[str, bytes]) -> tuple[Rule, ...]:
    """All rules, those that give way at the end."""
    import tomllib

    rules = [
        rule_of(entry, level)
        for level, text in texts.items()
        for entry in tomllib.loads(text.decode()).get("rule", [])
    ]
    return tuple(sorted(rules, key=lambda rule: rule.weak))


def rule_of(entry: dict[str, Any], level: str) -> Rule:
    """A rule from its entry: a pattern of its own, or names before a value of some shape."""
    facts = {key: value for key, value in entry.items() if key in Rule.__struct_fields__}
    facts["level"] = level
    facts.setdefault("validator", "token" if level == "secrets" else "")
    words = any_of(
        entry.get("words") or entry.get("near") or encoded_forms(entry.get("encoded", []))
    )
    if "near" in entry:
        facts["pattern"] = expanded("{WORDS}{ASSIGN}(" + entry["value"] + ")", words)
        facts["gate"] = expanded(
            "{WORDS}[^\\n\\x00]{0,96}(?:" + trimmed(entry["value"]) + ")", words
        )
        facts.setdefault("ends", True)
    else:
        body = expanded(entry["pattern"], words)
        start = GLUED if entry.get("glued") else START
        facts["pattern"] = body if entry.get("anywhere") else start + body
        facts["gate"] = (
            words
            if "encoded" in entry
            else expanded(entry["gate"], words)
            if "gate" in entry
            else trimmed(body)
        )
    keywords = entry.get("keywords") or entry.get("near") or encoded_forms(entry.get("encoded", []))
    facts["keywords"] = tuple(word.lower() if word.isascii() else word for word in keywords)
    return Rule(**facts)


def encoded_forms(words: list[str]) -> list[str]:
    """What base64 makes of words, wherever they begin in a group of three bytes; only the letters
    that are sure."""
    forms = []
    for word in words:
        for shift in range(3):
            text = base64.b64encode(bytes(shift) + word.encode()).decode()
            forms.append(
                text[-(-8 * shift // 6) : 8 * (shift + len(word)) // 6].replace("+", r"\+")
            )
    return sorted(set(forms))


def any_of(words: list[str]) -> str:
    """Any of these words; letters of other scripts as they stand, since only ASCII folds alike in
    both engines."""
    plain = "|".join(word for word in words if word.isascii())
    return f"(?:{'|'.join(['(?i:' + plain + ')'] * bool(plain) + [word for word in words if not word.isascii()])})"


def expanded(pattern: str, words: str) -> str:
    """The pattern with the common parts put in for their names."""
    for name, part in MACROS.items():
        pattern = pattern.replace(name, part)
    return pattern.replace("{WORDS}", words)


def trimmed(pattern: str) -> str:
    """The pattern without its last repetition, so that one find is one hit and not one for each
    further letter."""
    while optional := _OPTIONAL_END.search(pattern):
        pattern = pattern[: optional.start()] + optional[1]
    found = _OPEN_END.search(pattern)
    if not found:
        return pattern
    least = f"{{{found[1]}}}" if found[1] else ""
    return pattern[: found.start()] + least + found[2]
