"""List all rules, built-in and the user's, as they are written, and test them by their examples.

Examples have placeholders such as `{alnum:36}`, which are filled with random values of that form,
so that no file contains anything that looks like a secret.
"""

import base64
import hashlib
import json
import re
import string
from dataclasses import asdict
from random import Random
from typing import Any, NamedTuple

from open_token.context import Context, CustomRule
from open_token.redaction.decoders import DECODERS
from open_token.redaction.detector import Detector
from open_token.redaction.ruleset import Rule, load_rules, parse_rule, read_rule_files
from open_token.redaction.strict_mode import WHOLE_TEXT_RULES
from open_token.redaction.user_detector import UserRuleDetector, to_rule
from open_token.redaction.user_rules import compile_user_pattern

BUILT_IN = "built-in"
ALPHABETS = {
    "hex": "0123456789abcdef",
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "lownum": string.ascii_lowercase + string.digits,
    "upnum": string.ascii_uppercase + string.digits,
    "upper": string.ascii_uppercase,
    "digit": "123456789",
    "x": "x",
    "b32": string.ascii_uppercase + "234567",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64url": string.ascii_letters + string.digits + "-_",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "upperhex": "0123456789ABCDEF",
}
_PLACEHOLDER = re.compile(r"\{([a-z0-9]+)(?::([^{}]*))?\}")
_MAX_SIZE = 100_000
_VOWELS = "aeiou"
_CONSONANTS = "bdfglmnprstv"


class CatalogueEntry(NamedTuple):
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
        return to_rule(self.own) if self.own else parse_rule(self.fields, self.level)


class Failure(NamedTuple):
    """An example that does not have the expected outcome."""

    id: str
    file: str
    list: str
    number: int
    example: str
    """With its placeholders."""
    why: str = ""


def list_rules(own: tuple[CustomRule, ...]) -> list[CatalogueEntry]:
    """Return every rule: the user's first, then the built-in ones by level."""
    import tomllib

    entries = list_user_rules(own)
    for level, text in read_rule_files().items():
        for fields in tomllib.loads(text.decode())["rule"]:
            entries.append(CatalogueEntry(fields["id"], fields["type"], level, BUILT_IN, fields))
    for rule in WHOLE_TEXT_RULES.values():
        fields = {"type": rule.type, "masks": "all of it"}
        entries.append(CatalogueEntry(rule.id, rule.type, rule.level, BUILT_IN, fields))
    return entries


def list_user_rules(rules: tuple[CustomRule, ...]) -> list[CatalogueEntry]:
    """Return the user's rules as their files have them."""
    entries = []
    for rule in rules:
        fields = {
            name: value
            for name, value in asdict(rule).items()
            if value and name not in ("file", "level")
        }
        entries.append(CatalogueEntry(rule.id, rule.type, rule.level, rule.file, fields, rule))
    return entries


def find_failures(entry: CatalogueEntry, context: Context) -> list[Failure]:
    """Test the examples of a rule: those it should match, and those it should ignore."""
    if not (entry.fields.get("matches") or entry.fields.get("ignores")):
        return []
    detector = _build_detector(entry, context)
    failures = []
    for name in ("matches", "ignores"):
        for number, example in enumerate(entry.fields.get(name, []), 1):
            text, _ = fill_placeholders(example, entry.id)
            has_match = bool(detector.find([text]))
            if has_match != (name == "matches"):
                reason = _explain_failure(entry, text)
                failures.append(Failure(entry.id, entry.file, name, number, example, reason))
    return failures


def _explain_failure(entry: CatalogueEntry, text: str) -> str:
    """Return why a user rule finds nothing in a text, as far as there is one reason."""
    rule = entry.own
    if rule is None:
        return ""
    raw = text.encode("utf-8", "surrogatepass")
    if rule.keywords and not any(word.encode() in raw.lower() for word in rule.keywords):
        return "none of its keywords is in it"
    if compile_user_pattern(rule.pattern).search(raw):
        if rule.validator:
            return f"validator {rule.validator} rejects it"
        return "the group of its pattern is empty there"
    unknown = find_unknown_placeholder(text)
    return f"{unknown} is not a placeholder" if unknown else "its pattern does not match"


def _build_detector(entry: CatalogueEntry, context: Context) -> Detector:
    rule = entry.rule
    if entry.own:
        return UserRuleDetector(load_rules("none"), Context(context.options), (rule,), "keywords")
    if rule.validator in DECODERS:
        return Detector(load_rules("secrets", context.rule_cache), engine="keywords")
    return Detector((rule,), engine="keywords")


def fill_placeholders(example: str, seed: str) -> tuple[str, list[str]]:
    """Return the example with every placeholder filled, and the values."""
    rng = Random(f"{seed} {example}")
    values: list[str] = []

    def fill(match: re.Match[str]) -> str:
        kind = match[1]
        argument = match[2] or ""
        if argument.isdecimal() and int(argument) > _MAX_SIZE:
            return match[0]
        try:
            if kind in GENERATORS:
                value = GENERATORS[kind](rng, argument)
            else:
                value = draw_value(rng, kind, int(argument))
        except (KeyError, ValueError, IndexError):  # braces that are no placeholder
            return match[0]
        values.append(value)
        return value

    return _PLACEHOLDER.sub(fill, example), values


def find_unknown_placeholder(text: str) -> str:
    """Return the first text that looks like a placeholder and was not filled."""
    match = _PLACEHOLDER.search(text)
    return match[0] if match else ""


def draw_value(rng: Random, kind: str, size: int) -> str:
    """Return random characters of an alphabet; mixed ones have a digit and letters of both cases."""
    characters = [rng.choice(ALPHABETS[kind]) for _ in range(size)]
    if kind in ("alnum", "b64", "b64url") and size >= 4:
        lower = rng.choice(string.ascii_lowercase)
        upper = rng.choice(string.ascii_uppercase)
        characters[:4] = [lower, "7", upper, "4"]
        characters[-1] = rng.choice(string.ascii_letters)
    return "".join(characters)


def _group_by_four(text: str) -> str:
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def _sum_products(digits: str, weights: list[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _draw_birth_date(rng: Random) -> str:
    """Return year, month and day, each with two digits."""
    return f"{rng.randint(50, 79)}0{rng.randint(1, 9)}{rng.randint(10, 28)}"


def _generate_word(rng: Random, size: str) -> str:
    return "".join(rng.choice((_CONSONANTS, _VOWELS)[place % 2]) for place in range(int(size)))


def _generate_password(rng: Random, size: str) -> str:
    return f"{rng.choice('KQZ')}{rng.randint(2, 9)}!" + draw_value(rng, "alnum", int(size) - 3)


def _generate_uuid(rng: Random, _: str) -> str:
    return "-".join(draw_value(rng, "hex", size) for size in (8, 4, 4, 4, 12))


def _generate_jwt(rng: Random, _: str) -> str:
    def encode(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    header = encode({"alg": "HS256", "typ": "JWT"})
    payload = encode({"sub": draw_value(rng, "digit", 10)})
    return f"{header}.{payload}.{draw_value(rng, 'b64url', 43)}"


def _generate_basic_auth(rng: Random, _: str) -> str:
    return base64.b64encode(f"admin:{draw_value(rng, 'alnum', 14)}".encode()).decode()


def _generate_percent_encoded(rng: Random, text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in f"{text}{draw_value(rng, 'alnum', 36)}".encode())


def _generate_base64(rng: Random, text: str) -> str:
    return base64.b64encode(f"{text}{draw_value(rng, 'alnum', 40)}".encode()).decode()


def _generate_base32(rng: Random, text: str) -> str:
    return base64.b32encode(f"{text}{draw_value(rng, 'alnum', 40)}".encode()).decode()


def _generate_hex(rng: Random, text: str) -> str:
    return f"{text}{draw_value(rng, 'alnum', 40)}".encode().hex()


def _generate_hex_dump(rng: Random, text: str) -> str:
    return _group_by_four(_generate_hex(rng, text))


def _generate_byte_values(rng: Random, text: str) -> str:
    return ", ".join(map(str, bytes.fromhex(_generate_hex(rng, text))))


def _generate_luhn(rng: Random, argument: str) -> str:
    prefix, size = argument.split(",")
    number = prefix + draw_value(rng, "digit", int(size) - len(prefix) - 1)
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (2 - place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return number + str(-total % 10)


def _generate_spaced_card(rng: Random, argument: str) -> str:
    return _group_by_four(_generate_luhn(rng, argument))


def _generate_iban(rng: Random, country: str) -> str:
    if country == "GB":
        body = "WEST" + draw_value(rng, "digit", 14)
    else:
        body = draw_value(rng, "digit", 18)
    digits = "".join(str(int(letter, 36)) for letter in f"{body}{country}00")
    return f"{country}{98 - int(digits) % 97:02d}{body}"


def _generate_spaced_iban(rng: Random, country: str) -> str:
    return _group_by_four(_generate_iban(rng, country))


def _generate_nie(rng: Random, _: str) -> str:
    number = draw_value(rng, "digit", 7)
    return f"X{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[int('0' + number) % 23]}"


def _generate_hetu(rng: Random, _: str) -> str:
    birth_date = f"{rng.randint(10, 28)}0{rng.randint(1, 9)}{rng.randint(50, 79)}"
    number = f"{rng.randint(100, 899)}"
    check = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(birth_date + number) % 31]
    return f"{birth_date}-{number}{check}"


def _generate_cpf(rng: Random, _: str) -> str:
    text = draw_value(rng, "digit", 9)
    for size in (10, 11):
        weights = list(range(size, 1, -1))
        check = _sum_products(text, weights) * 10 % 11 % 10
        text += str(check)
    return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"


def _generate_rrn(rng: Random, _: str) -> str:
    digits = _draw_birth_date(rng) + "1" + draw_value(rng, "digit", 5)
    check = (11 - _sum_products(digits, [*range(2, 10), *range(2, 6)]) % 11) % 10
    return f"{digits[:6]}-{digits[6:]}{check}"


def _generate_ahv(rng: Random, _: str) -> str:
    digits = "756" + draw_value(rng, "digit", 9)
    check = -_sum_products(digits, [1, 3] * 6) % 10
    return f"756.{digits[3:7]}.{digits[7:11]}.{digits[11:]}{check}"


def _generate_ric(rng: Random, _: str) -> str:
    birth_date = f"{rng.randint(1950, 1999)}0{rng.randint(1, 9)}{rng.randint(10, 28)}"
    digits = f"110101{birth_date}" + draw_value(rng, "digit", 3)
    total = sum(int(digit) * (2 ** (17 - place) % 11) for place, digit in enumerate(digits))
    return digits + "10X98765432"[total % 11]


def _generate_pesel(rng: Random, _: str) -> str:
    digits = _draw_birth_date(rng) + draw_value(rng, "digit", 4)
    return f"{digits}{-_sum_products(digits, [1, 3, 7, 9] * 2 + [1, 3]) % 10}"


def _generate_codice_fiscale(rng: Random, _: str) -> str:
    odd_weights = "1 0 5 7 9 13 15 17 19 21 1 0 5 7 9 13 15 17 19 21 2 4 18 20 11 3 6 8 12 14 16 10 22 25 24 23"
    characters = string.digits + string.ascii_uppercase
    odd = dict(zip(characters, map(int, odd_weights.split()), strict=True))
    even = {
        letter: int(letter, 36) % 10 if letter.isdigit() else ord(letter) - 65
        for letter in characters
    }
    body = f"RSSMRA{rng.randint(50, 79)}A{rng.randint(10, 28)}H{rng.randint(500, 599)}"
    total = sum((even if place % 2 else odd)[letter] for place, letter in enumerate(body))
    return body + string.ascii_uppercase[total % 26]


def _generate_wif(rng: Random, _: str) -> str:
    body = b"\x80" + rng.randbytes(32) + b"\x01"
    checksum = hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4]
    number = int.from_bytes(body + checksum, "big")
    letters = ""
    while number:
        number, rest = divmod(number, 58)
        letters = ALPHABETS["base58"][rest] + letters
    return letters


def _generate_seed_phrase(rng: Random, size: str) -> str:
    return " ".join(_generate_word(rng, str(rng.randint(4, 7))) for _ in range(int(size)))


def _generate_hex_pairs(rng: Random, size: str) -> str:
    return ":".join(draw_value(rng, "hex", 2) for _ in range(int(size)))


GENERATORS = {
    "wif": _generate_wif,
    "seed": _generate_seed_phrase,
    "hexpairs": _generate_hex_pairs,
    "word": _generate_word,
    "pass": _generate_password,
    "uuid": _generate_uuid,
    "jwt": _generate_jwt,
    "basic": _generate_basic_auth,
    "base64": _generate_base64,
    "percent": _generate_percent_encoded,
    "base32": _generate_base32,
    "hexof": _generate_hex,
    "dump": _generate_hex_dump,
    "codes": _generate_byte_values,
    "luhn": _generate_luhn,
    "cardspaced": _generate_spaced_card,
    "iban": _generate_iban,
    "ibanspaced": _generate_spaced_iban,
    "nie": _generate_nie,
    "hetu": _generate_hetu,
    "cpf": _generate_cpf,
    "rrn": _generate_rrn,
    "ahv": _generate_ahv,
    "ric": _generate_ric,
    "pesel": _generate_pesel,
    "codicefiscale": _generate_codice_fiscale,
}
