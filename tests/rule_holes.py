"""Fills the holes in the examples of rules, the same way every time, so that no secret stands in the repository."""

import base64
import json
import random
import re
import string

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
}
_HOLE = re.compile(r"\{([a-z0-9]+)(?::([^{}]*))?\}")
_VOWELS, _CONSONANTS = "aeiou", "bdfglmnprstv"


def filled(example: str, seed: str) -> tuple[str, list[str]]:
    """The example with every hole filled, and what went into the holes."""
    lot = random.Random(f"{seed} {example}")
    values: list[str] = []

    def fill(hole: re.Match[str]) -> str:
        if hole[1] not in ALPHABETS and hole[1] not in MAKERS:
            return hole[0]
        values.append(MAKERS[hole[1]](lot, hole[2] or "") if hole[1] in MAKERS else drawn(lot, hole[1], int(hole[2])))
        return values[-1]

    return _HOLE.sub(fill, example), values


def drawn(lot: random.Random, kind: str, size: int) -> str:
    """Letters of an alphabet; of the mixed ones always a digit, a small and a capital letter."""
    letters = ALPHABETS[kind]
    made = [lot.choice(letters) for _ in range(size)]
    if kind in ("alnum", "b64", "b64url") and size >= 4:
        made[:4] = [lot.choice(string.ascii_lowercase), "7", lot.choice(string.ascii_uppercase), "4"]
        made[-1] = lot.choice(string.ascii_letters)
    return "".join(made)


def word(lot: random.Random, size: str) -> str:
    return "".join(lot.choice((_CONSONANTS, _VOWELS)[place % 2]) for place in range(int(size)))


def password(lot: random.Random, size: str) -> str:
    return f"{lot.choice('KQZ')}{lot.randint(2, 9)}!" + drawn(lot, "alnum", int(size) - 3)


def uuid(lot: random.Random, _: str) -> str:
    return "-".join(drawn(lot, "hex", size) for size in (8, 4, 4, 4, 12))


def jwt(lot: random.Random, _: str) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': drawn(lot, 'digit', 10)})}.{drawn(lot, 'b64url', 43)}"


def basic(lot: random.Random, _: str) -> str:
    return base64.b64encode(f"admin:{drawn(lot, 'alnum', 14)}".encode()).decode()


def encoded(lot: random.Random, text: str) -> str:
    return base64.b64encode(f"{text}{drawn(lot, 'alnum', 40)}".encode()).decode()


def luhn(lot: random.Random, wanted: str) -> str:
    prefix, size = wanted.split(",")
    number = prefix + drawn(lot, "digit", int(size) - len(prefix) - 1)
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (2 - place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return number + str(-total % 10)


def card_in_groups(lot: random.Random, wanted: str) -> str:
    number = luhn(lot, wanted)
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def iban(lot: random.Random, country: str) -> str:
    body = "WEST" + drawn(lot, "digit", 14) if country == "GB" else drawn(lot, "digit", 18)
    check = 98 - int("".join(str(int(letter, 36)) for letter in f"{body}{country}00")) % 97
    return f"{country}{check:02d}{body}"


def iban_in_groups(lot: random.Random, country: str) -> str:
    number = iban(lot, country)
    return " ".join(number[place : place + 4] for place in range(0, len(number), 4))


def nie(lot: random.Random, _: str) -> str:
    number = drawn(lot, "digit", 7)
    return f"X{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[int('0' + number) % 23]}"


def hetu(lot: random.Random, _: str) -> str:
    born, number = f"{lot.randint(10, 28)}0{lot.randint(1, 9)}{lot.randint(50, 79)}", f"{lot.randint(100, 899)}"
    return f"{born}-{number}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(born + number) % 31]}"


def cpf(lot: random.Random, _: str) -> str:
    digits = [int(digit) for digit in drawn(lot, "digit", 9)]
    for size in (10, 11):
        rest = sum(digit * (size - place) for place, digit in enumerate(digits)) * 10 % 11 % 10
        digits.append(rest)
    text = "".join(map(str, digits))
    return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"


def rrn(lot: random.Random, _: str) -> str:
    digits = f"{lot.randint(50, 79)}0{lot.randint(1, 9)}{lot.randint(10, 28)}1" + drawn(lot, "digit", 5)
    check = (
        11 - sum(int(digit) * weight for digit, weight in zip(digits, [*range(2, 10), *range(2, 6)], strict=True)) % 11
    ) % 10
    return f"{digits[:6]}-{digits[6:]}{check}"


def ahv(lot: random.Random, _: str) -> str:
    digits = "756" + drawn(lot, "digit", 9)
    check = -sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    return f"756.{digits[3:7]}.{digits[7:11]}.{digits[11:]}{check}"


def ric(lot: random.Random, _: str) -> str:
    digits = f"110101{lot.randint(1950, 1999)}0{lot.randint(1, 9)}{lot.randint(10, 28)}" + drawn(lot, "digit", 3)
    total = sum(int(digit) * (2 ** (17 - place) % 11) for place, digit in enumerate(digits))
    return digits + "10X98765432"[total % 11]


def pesel(lot: random.Random, _: str) -> str:
    digits = f"{lot.randint(50, 79)}0{lot.randint(1, 9)}{lot.randint(10, 28)}" + drawn(lot, "digit", 4)
    total = sum(int(digit) * weight for digit, weight in zip(digits, [1, 3, 7, 9] * 2 + [1, 3], strict=True))
    return f"{digits}{-total % 10}"


def codice_fiscale(lot: random.Random, _: str) -> str:
    weights = "1 0 5 7 9 13 15 17 19 21 1 0 5 7 9 13 15 17 19 21 2 4 18 20 11 3 6 8 12 14 16 10 22 25 24 23".split()
    odd = dict(zip(string.digits + string.ascii_uppercase, map(int, weights), strict=True))
    even = {letter: int(letter, 36) % 10 if letter.isdigit() else ord(letter) - 65 for letter in odd}
    body = f"RSSMRA{lot.randint(50, 79)}A{lot.randint(10, 28)}H{lot.randint(500, 599)}"
    total = sum((even if place % 2 else odd)[letter] for place, letter in enumerate(body))
    return body + string.ascii_uppercase[total % 26]


MAKERS = {
    "word": word,
    "pass": password,
    "uuid": uuid,
    "jwt": jwt,
    "basic": basic,
    "base64": encoded,
    "luhn": luhn,
    "cardspaced": card_in_groups,
    "iban": iban,
    "ibanspaced": iban_in_groups,
    "nie": nie,
    "hetu": hetu,
    "cpf": cpf,
    "rrn": rrn,
    "ahv": ahv,
    "ric": ric,
    "pesel": pesel,
    "codicefiscale": codice_fiscale,
}
