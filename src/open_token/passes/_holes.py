"""Fills the holes in the examples of rules, the same way every time, so that no secret need stand
in a rule file."""

import base64
import binascii
import hashlib
import json
import re
import string
from random import Random

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
_HOLE = re.compile(r"\{([a-z0-9]+)(?::([^{}]*))?\}")
_LARGEST = 100_000
_VOWELS, _CONSONANTS = "aeiou", "bdfglmnprstv"


def filled(example: str, seed: str) -> tuple[str, list[str]]:
    """The example with every hole filled, and what went into the holes."""
    lot = Random(f"{seed} {example}")
    values: list[str] = []

    def fill(hole: re.Match[str]) -> str:
        kind, wanted = hole[1], hole[2] or ""
        if wanted.isdecimal() and int(wanted) > _LARGEST:
            return hole[0]
        try:
            made = MAKERS[kind](lot, wanted) if kind in MAKERS else drawn(lot, kind, int(wanted))
        except (KeyError, ValueError, IndexError):  # braces that are no hole stay what they are
            return hole[0]
        values.append(made)
        return made

    return _HOLE.sub(fill, example), values


def unfilled(text: str) -> str:
    """The first of what looks like a hole and was not filled."""
    return found[0] if (found := _HOLE.search(text)) else ""


def drawn(lot: Random, kind: str, size: int) -> str:
    """Letters of an alphabet; of the mixed ones always a digit, a small and a capital letter."""
    letters = ALPHABETS[kind]
    made = [lot.choice(letters) for _ in range(size)]
    if kind in ("alnum", "b64", "b64url") and size >= 4:
        made[:4] = [
            lot.choice(string.ascii_lowercase),
            "7",
            lot.choice(string.ascii_uppercase),
            "4",
        ]
        made[-1] = lot.choice(string.ascii_letters)
    return "".join(made)


def _word(lot: Random, size: str) -> str:
    return "".join(lot.choice((_CONSONANTS, _VOWELS)[place % 2]) for place in range(int(size)))


def _password(lot: Random, size: str) -> str:
    return f"{lot.choice('KQZ')}{lot.randint(2, 9)}!" + drawn(lot, "alnum", int(size) - 3)


def _uuid(lot: Random, _: str) -> str:
    return "-".join(drawn(lot, "hex", size) for size in (8, 4, 4, 4, 12))


def _jwt(lot: Random, _: str) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': drawn(lot, 'digit', 10)})}.{drawn(lot, 'b64url', 43)}"


def _basic(lot: Random, _: str) -> str:
    return base64.b64encode(f"admin:{drawn(lot, 'alnum', 14)}".encode()).decode()


def _percent(lot: Random, text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in f"{text}{drawn(lot, 'alnum', 36)}".encode())


def _encoded(lot: Random, text: str) -> str:
    return base64.b64encode(f"{text}{drawn(lot, 'alnum', 40)}".encode()).decode()


def _base32(lot: Random, text: str) -> str:
    return base64.b32encode(f"{text}{drawn(lot, 'alnum', 40)}".encode()).decode()


def _hex_of(lot: Random, text: str) -> str:
    return f"{text}{drawn(lot, 'alnum', 40)}".encode().hex()


def _dumped(lot: Random, text: str) -> str:
    digits = _hex_of(lot, text)
    return " ".join(digits[place : place + 4] for place in range(0, len(digits), 4))


def _codes(lot: Random, text: str) -> str:
    return ", ".join(map(str, bytes.fromhex(_hex_of(lot, text))))


def _luhn(lot: Random, wanted: str) -> str:
    prefix, size = wanted.split(",")
    number = prefix + drawn(lot, "digit", int(size) - len(prefix) - 1)
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (2 - place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return number + str(-total % 10)


def _card_in_groups(lot: Random, wanted: str) -> str:
    number = _luhn(lot, wanted)
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def _iban(lot: Random, country: str) -> str:
    body = "WEST" + drawn(lot, "digit", 14) if country == "GB" else drawn(lot, "digit", 18)
    check = 98 - int("".join(str(int(letter, 36)) for letter in f"{body}{country}00")) % 97
    return f"{country}{check:02d}{body}"


def _iban_in_groups(lot: Random, country: str) -> str:
    number = _iban(lot, country)
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def _nie(lot: Random, _: str) -> str:
    number = drawn(lot, "digit", 7)
    return f"X{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[int('0' + number) % 23]}"


def _hetu(lot: Random, _: str) -> str:
    born, number = (
        f"{lot.randint(10, 28)}0{lot.randint(1, 9)}{lot.randint(50, 79)}",
        f"{lot.randint(100, 899)}",
    )
    return f"{born}-{number}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(born + number) % 31]}"


def _cpf(lot: Random, _: str) -> str:
    digits = [int(digit) for digit in drawn(lot, "digit", 9)]
    for size in (10, 11):
        rest = sum(digit * (size - place) for place, digit in enumerate(digits)) * 10 % 11 % 10
        digits.append(rest)
    text = "".join(map(str, digits))
    return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"


def _rrn(lot: Random, _: str) -> str:
    digits = f"{lot.randint(50, 79)}0{lot.randint(1, 9)}{lot.randint(10, 28)}1" + drawn(
        lot, "digit", 5
    )
    check = (
        11
        - sum(
            int(digit) * weight
            for digit, weight in zip(digits, [*range(2, 10), *range(2, 6)], strict=True)
        )
        % 11
    ) % 10
    return f"{digits[:6]}-{digits[6:]}{check}"


def _ahv(lot: Random, _: str) -> str:
    digits = "756" + drawn(lot, "digit", 9)
    check = -sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    return f"756.{digits[3:7]}.{digits[7:11]}.{digits[11:]}{check}"


def _ric(lot: Random, _: str) -> str:
    digits = f"110101{lot.randint(1950, 1999)}0{lot.randint(1, 9)}{lot.randint(10, 28)}" + drawn(
        lot, "digit", 3
    )
    total = sum(int(digit) * (2 ** (17 - place) % 11) for place, digit in enumerate(digits))
    return digits + "10X98765432"[total % 11]


def _pesel(lot: Random, _: str) -> str:
    digits = f"{lot.randint(50, 79)}0{lot.randint(1, 9)}{lot.randint(10, 28)}" + drawn(
        lot, "digit", 4
    )
    total = sum(
        int(digit) * weight for digit, weight in zip(digits, [1, 3, 7, 9] * 2 + [1, 3], strict=True)
    )
    return f"{digits}{-total % 10}"


def _codice_fiscale(lot: Random, _: str) -> str:
    weights = "1 0 5 7 9 13 15 17 19 21 1 0 5 7 9 13 15 17 19 21 2 4 18 20 11 3 6 8 12 14 16 10 22 25 24 23".split()
    odd = dict(zip(string.digits + string.ascii_uppercase, map(int, weights), strict=True))
    even = {
        letter: int(letter, 36) % 10 if letter.isdigit() else ord(letter) - 65 for letter in odd
    }
    body = f"RSSMRA{lot.randint(50, 79)}A{lot.randint(10, 28)}H{lot.randint(500, 599)}"
    total = sum((even if place % 2 else odd)[letter] for place, letter in enumerate(body))
    return body + string.ascii_uppercase[total % 26]


def _wif(lot: Random, _: str) -> str:
    body = b"\x80" + lot.randbytes(32) + b"\x01"
    number = int.from_bytes(
        body + hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4], "big"
    )
    letters = ""
    while number:
        number, rest = divmod(number, 58)
        letters = ALPHABETS["base58"][rest] + letters
    return letters


def _stellar(lot: Random, _: str) -> str:
    body = bytes([18 << 3]) + lot.randbytes(32)
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode()


def _seed(lot: Random, size: str) -> str:
    return " ".join(_word(lot, str(lot.randint(4, 7))) for _ in range(int(size)))


def _hex_pairs(lot: Random, size: str) -> str:
    return ":".join(drawn(lot, "hex", 2) for _ in range(int(size)))


MAKERS = {
    "wif": _wif,
    "stellar": _stellar,
    "seed": _seed,
    "hexpairs": _hex_pairs,
    "word": _word,
    "pass": _password,
    "uuid": _uuid,
    "jwt": _jwt,
    "basic": _basic,
    "base64": _encoded,
    "percent": _percent,
    "base32": _base32,
    "hexof": _hex_of,
    "dump": _dumped,
    "codes": _codes,
    "luhn": _luhn,
    "cardspaced": _card_in_groups,
    "iban": _iban,
    "ibanspaced": _iban_in_groups,
    "nie": _nie,
    "hetu": _hetu,
    "cpf": _cpf,
    "rrn": _rrn,
    "ahv": _ahv,
    "ric": _ric,
    "pesel": _pesel,
    "codicefiscale": _codice_fiscale,
}
