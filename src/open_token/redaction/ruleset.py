"""Load the rules of redaction from rules/*.toml as patterns that hyperscan and RE2 both accept."""

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.redaction.cache_files import write_cache_file
from open_token.storage.files import read_optional

LEVELS = ("none", "secrets", "pii", "strict")
_FOLDER = Path(__file__).resolve().parent / "rules"
_CACHE_VERSION = "3"

# What may come right before a token: a word boundary, an escape that looks like a letter, a URL
# escape, or a terminal colour, which may have lost its escape character.
TOKEN_START = r"(?:\b|\\[abfnrtv]|%[0-9A-Fa-f]{2}|\[[0-9;]{0,20}[mK])"
# The same for a prefix that no word ends with, so that it is found within a word, too.
GLUED_TOKEN_START = TOKEN_START[:-1] + "|)"
# Between a name and its value: the rest of the name, closing quotes, a separator, a type.
_NAME_END = r"[ \t\w.\-\x80-\xff]{0,24}(?:\\{0,3}[\"'`\])]){0,3}[ \t]{0,8}"
_SIGN = (
    r"[:?.+]{0,3}=|=>|:[ \t]?[A-Za-z][\w.\[\]]{0,20}[ \t]{0,2}=|:|：|＝|>|\||\x01|%3[DdAa]|"
    r"\\{0,3}[\"']?[ \t,]{1,4}\\{0,3}[\"']?value\\{0,3}[\"']?[ \t]{0,4}[:=]|[ \t]--(?:body|value)[ \t=]"
)
_SIGN_END = r"[ \t=>|]{0,24}"
SEPARATOR = rf"{_NAME_END}(?:{_SIGN}|->|,|\(|!==?){_SIGN_END}"
# In code, what follows a comma or a bracket without quotes is another name.
PLAIN = rf"{_NAME_END}(?:{_SIGN}){_SIGN_END}"
OPENING = r"[brufBRUF@]?(?:\\{0,3}[\"'`(\[{]){0,3}[ \t]{0,4}"
_CAPITAL = r"(?:[A-Z]|[\xc3-\xd4][\x80-\xbf])"
_LETTERS = r"[A-Za-z\x80-\xff'.-]*"
_NAME = _CAPITAL + _LETTERS
_NUMBER = r"[0-9]{1,5}[A-Za-z]?(?:[/-](?:[0-9]{1,4}[A-Za-z]?|[A-Z]\b))?"
_GAP = r"(?:[ ,]{1,3}\n?[ ,]{0,8}|\n[ ,]{0,8})"
_UNIT = (
    r"(?:(?:Apt|APT|apt|Apartment|Suite|SUITE|suite|Ste|Unit|Floor|Flat|Room|Apto|Wohnung|Piso|Int|Kv|кв)\b\.?|#) ?"
    r"[0-9A-Za-z-]{1,6}\b|[0-9]{1,2}(?:º|°|ª)(?: ?[A-Z]\b)?"
)
_OF = "de|del|do|da|la|le|les|en|an|am|im|op|na|nad|pod|u|v|sur|sous|der|den|di|of"
_TOWN = rf"{_NAME}(?:[ -](?:(?:{_OF}) ){{0,2}}{_NAME}){{0,3}}(?: \({_NAME}\))?"
# Post codes that stand before their town in some country, and those that stand behind it.
_CODE_BEFORE = r"(?:[A-Z]{1,2}-)?(?:[0-9]{5}-[0-9]{3}|[0-9]{4} ?[A-Z]{2}\b|[0-9]{2}-[0-9]{3}|[0-9]{3} [0-9]{2}|[0-9]{4,6})"
_POST_CODE = (
    r"(?:(?:[A-Z]{2,3} )?[0-9]{3,6}(?:-[0-9]{3,4})?|[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}|"
    r"(?:[A-Z]{2} )?[A-Z][0-9][A-Z] [0-9][A-Z][0-9])\b"
)
_CODE_GAP = rf"(?:{_GAP}| - )"
_CODE_FIRST = rf"{_CODE_GAP}{_CODE_BEFORE} {_TOWN}(?:, ?{_TOWN})?(?: \([A-Z]{{2}}\))?"
_WITH_UNIT = rf"(?:{_GAP}(?:{_UNIT})){{1,2}}(?:{_CODE_FIRST}|(?:{_GAP}{_TOWN}){{0,3}}(?:{_GAP}{_POST_CODE})?)"
_WITH_CODE = rf"(?:{_GAP}{_TOWN}(?: - [A-Z]{{2}})?){{1,4}}{_CODE_GAP}{_POST_CODE}(?:{_GAP}{_TOWN})?"
_WITH_TOWN = rf"(?:, ?(?:{_CODE_BEFORE} )?{_TOWN}){{1,2}}"

ADDRESS_FORMS = {
    "{CAPITAL}": _CAPITAL,
    "{NAME}": _NAME,
    "{HOUSE}": _NUMBER,
    "{UNIT}": rf"(?:{_UNIT})",
    "{GAP}": _GAP,
    "{TOWN}": _TOWN,
    "{CODE_GAP}": _CODE_GAP,
    "{CODE_BEFORE}": _CODE_BEFORE,
    "{POST_CODE}": _POST_CODE,
    "{REST}": rf"(?:{_WITH_UNIT}|{_CODE_FIRST}|{_WITH_CODE}|{_WITH_TOWN})?",
}
"""Bytes are matched, not characters: outside of ASCII a character has several bytes, and the first
hints at a capital."""
MACROS = {
    "{START}": TOKEN_START,
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
    """Confirms a match; what is masked is its first group that matched, or else all of it."""
    gate: str
    """The pattern of the prefilter: it must match wherever `pattern` does."""
    keywords: tuple[str, ...] = ()
    """Lower-case words, one of which is in every match; without any, `gate` is searched for."""
    validator: str = ""
    multiline: bool = False
    """A match may contain newlines; otherwise each line is searched by itself."""
    lines: int = 1
    """How many lines a match may span, if it is not multiline."""
    ends: bool = False
    """No letter, digit or underscore may follow."""
    weak: bool = False
    """Gives way to any other rule that matches the same text."""
    recurs: bool = True
    """Its values are masked wherever else they occur."""
    finder: str = ""
    """What searches instead of the pattern, which then only says where: `people`, or `part` of a
    name."""


class RuleSet(tuple[Rule, ...]):
    """Rules whose hash, which is computed over all of them, is computed once."""

    @functools.cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


@functools.lru_cache(maxsize=32)
def load_rules(level: str, cache: Path | None = None) -> tuple[Rule, ...]:
    """Return the rules of a level and of the levels below; `none` has those for private keys."""
    rules = _load_all_rules(cache)
    if level == "none":
        return RuleSet(rule for rule in rules if rule.type == "private_key")
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return RuleSet(rule for rule in rules if rule.level in wanted)


@functools.lru_cache(maxsize=32)
def compute_fingerprint(rules: tuple[Rule, ...]) -> str:
    """Return a hash of exactly these rules."""
    return hashlib.sha256(msgspec.msgpack.encode(rules)).hexdigest()


def read_rule_files() -> dict[str, bytes]:
    """Return the rule files by level."""
    return {level: read_optional(_FOLDER / f"{level}.toml") or b"" for level in LEVELS[1:]}


@functools.cache
def _load_all_rules(cache: Path | None) -> tuple[Rule, ...]:
    """Return all rules; parsing TOML takes longer than a small export, so they are cached."""
    texts = read_rule_files()
    if cache is None:
        return parse_rules(texts)
    macros = [part.encode() for part in MACROS.values()]
    macros += [
        word.encode() for kind in ("secret", "password", "id") for word in load_near_words(kind)
    ]
    digest = hashlib.sha256(
        b"\0".join([_CACHE_VERSION.encode(), *macros, *texts.values()])
    ).hexdigest()
    path = cache / f"rules-{digest[:32]}.msgpack"
    raw = read_optional(path, private=True)
    if raw:
        try:
            return msgspec.msgpack.decode(raw, type=tuple[Rule, ...])
        except (msgspec.DecodeError, msgspec.ValidationError):
            pass
    rules = parse_rules(texts)
    write_cache_file(path, msgspec.msgpack.encode(rules))
    return rules


@functools.cache
def load_near_words(kind: str) -> tuple[str, ...]:
    """Return the patterns of words near which a rule looks: `secret`, `password` or `id`."""
    text = (_FOLDER / f"{kind}_words.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def parse_rules(texts: dict[str, bytes]) -> tuple[Rule, ...]:
    """Parse rule files by level; weak rules come last."""
    import tomllib

    rules = []
    for level, text in texts.items():
        for entry in tomllib.loads(text.decode()).get("rule", []):
            rules.append(parse_rule(entry, level))
    return tuple(sorted(rules, key=lambda rule: rule.weak))


def parse_rule(entry: dict[str, Any], level: str) -> Rule:
    """Return a rule from its entry, which has a pattern, or names near a value of some form."""
    fields = {key: value for key, value in entry.items() if key in Rule.__struct_fields__}
    fields["level"] = level
    fields.setdefault("validator", "token" if level == "secrets" else "")
    encoded = _list_base64_forms(entry.get("encoded", []))
    near_words = list(load_near_words(entry["near_words"])) if "near_words" in entry else []
    words = join_words(near_words or entry.get("words") or entry.get("near") or encoded)
    if "near" in entry:
        value = entry["value"]
        fields["pattern"] = _expand_macros("{WORDS}{ASSIGN}(" + value + ")", words)
        gate = "{WORDS}[^\\n\\x00]{0,96}(?:" + trim_pattern(value) + ")"
        fields["gate"] = _expand_macros(gate, words)
        fields.setdefault("ends", True)
    else:
        body = _expand_macros(entry["pattern"], words)
        start = GLUED_TOKEN_START if entry.get("glued") else TOKEN_START
        fields["pattern"] = body if entry.get("anywhere") else start + body
        if "encoded" in entry:
            fields["gate"] = words
        elif "gate" in entry:
            fields["gate"] = _expand_macros(entry["gate"], words)
        else:
            fields["gate"] = trim_pattern(body)
    keywords = entry.get("keywords") or entry.get("near") or encoded
    fields["keywords"] = tuple(word.lower() if word.isascii() else word for word in keywords)
    return Rule(**fields)


def _list_base64_forms(words: list[str]) -> list[str]:
    """Return patterns for words in base64, for each offset within a group of three bytes.

    Characters that neighbouring bytes have a part in are left out.
    """
    forms = set()
    for word in words:
        for shift in range(3):
            first = -(-8 * shift // 6)
            last = 8 * (shift + len(word)) // 6
            text = base64.b64encode(bytes(shift) + word.encode()).decode()
            forms.add(text[first:last].replace("+", r"\+"))
    return sorted(forms)


def join_words(words: list[str]) -> str:
    """Return a pattern for any of these words; only ASCII is matched in either case, since the
    engines agree on that alone."""
    alternatives = []
    ascii_words = "|".join(word for word in words if word.isascii())
    if ascii_words:
        alternatives.append(f"(?i:{ascii_words})")
    alternatives += [word for word in words if not word.isascii()]
    return f"(?:{'|'.join(alternatives)})"


def _expand_macros(pattern: str, words: str) -> str:
    for name, part in MACROS.items():
        pattern = pattern.replace(name, part)
    return pattern.replace("{WORDS}", words)


def trim_pattern(pattern: str) -> str:
    """Return the pattern without its last repetition, so that a match is one hit, not one for
    each further character."""
    while optional := _OPTIONAL_END.search(pattern):
        pattern = pattern[: optional.start()] + optional[1]
    repetition = _OPEN_END.search(pattern)
    if not repetition:
        return pattern
    least = f"{{{repetition[1]}}}" if repetition[1] else ""
    return pattern[: repetition.start()] + least + repetition[2]
