"""Numbers that states give to people, told from other numbers by their form and their check
digits."""

import functools
import importlib
import re
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from open_token.passes._late import late


class Kind(NamedTuple):
    """A kind of id: what it looks like, and what its digits must add up to."""

    form: re.Pattern[str]
    fits: Callable[[str], bool]


def _kind(form: str, *fits: str | Callable[[str], bool]) -> Kind:
    checks = [_registered(fit) if isinstance(fit, str) else fit for fit in fits]
    return Kind(late(form), lambda text: all(check(text) for check in checks))


def _registered(module: str) -> Callable[[str], bool]:
    """The check of an id that python-stdnum knows; loaded when the first of its kind is met."""
    return lambda text: bool(_checker(module).is_valid(text))


@functools.cache
def _checker(module: str) -> Any:
    return importlib.import_module(f"stdnum.{module}")


def compact(text: str) -> str:
    """The letters and digits alone, in capitals."""
    return re.sub(r"[^0-9A-Za-z]", "", text).upper()


def _is_day(year: str, month: str, day: str) -> bool:
    """Whether such a day was in the last or in this century."""
    for century in ("20", "19"):
        try:
            if date(int((century + year)[-4:]), int(month), int(day)) <= date(2100, 1, 1):
                return True
        except ValueError:
            continue
    return False


def _born(*parts: int) -> Callable[[str], bool]:
    """A check that year, month and day, each of two digits from these places on, are a day."""
    year, month, day = parts
    return lambda text: _is_day(*(compact(text)[place : place + 2] for place in (year, month, day)))


def _digit_sum(number: int) -> int:
    return sum(map(int, str(number)))


def _letter_as_digits(text: str) -> str:
    """Each letter as its place in the alphabet, of two digits."""
    return "".join(letter if letter.isdigit() else f"{ord(letter) - 64:02d}" for letter in text)


def _german_health(text: str) -> bool:
    digits = _letter_as_digits(compact(text))
    total = sum(_digit_sum(int(digit) * (1 + place % 2)) for place, digit in enumerate(digits[:10]))
    return total % 10 == int(digits[10])


def _german_pension(text: str) -> bool:
    digits, weights = _letter_as_digits(compact(text)), (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(
        _digit_sum(int(digit) * weight) for digit, weight in zip(digits, weights, strict=False)
    )
    return total % 10 == int(digits[12])


def _german_physician(text: str) -> bool:
    digits = compact(text)
    total = sum(int(digit) * (9 if place % 2 else 4) for place, digit in enumerate(digits[:6]))
    return -total % 10 == int(digits[6])


def _travel_document(text: str) -> bool:
    """The check digit that machines read in passports, as the last digit."""
    value = compact(text)
    total = sum(int(letter, 36) * (7, 3, 1)[place % 3] for place, letter in enumerate(value[:-1]))
    return value[-1] == str(total % 10)


def _singapore(text: str) -> bool:
    value = compact(text)
    total = sum(
        int(digit) * weight for digit, weight in zip(value[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True)
    )
    total += {"T": 4, "G": 4, "M": 3}.get(value[0], 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "XWUTRQPNJLK"}.get(
        value[0], "XWUTRQPNMLK"
    )
    return value[8] == letters[total % 11]


def _taiwan(text: str) -> bool:
    value = compact(text)
    first = 10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(value[0])
    total = first // 10 + first % 10 * 9
    total += sum(
        int(digit) * weight
        for digit, weight in zip(value[1:], (8, 7, 6, 5, 4, 3, 2, 1, 1), strict=True)
    )
    return total % 10 == 0


def _hong_kong(text: str) -> bool:
    value = compact(text).rjust(9)
    total = sum(
        (36 if letter == " " else int(letter, 36)) * weight
        for letter, weight in zip(value, range(9, 0, -1), strict=True)
    )
    return total % 11 == 0


def _snils(text: str) -> bool:
    value = compact(text)
    total = sum(int(digit) * (9 - place) for place, digit in enumerate(value[:9])) % 101 % 100
    return total == int(value[9:])


def _provider(text: str) -> bool:
    """The number of an American provider of care: Luhn with the prefix of its kind."""
    return bool(_checker("luhn").is_valid("80840" + compact(text)))


def _licence_of_britain(text: str) -> bool:
    value = compact(text)
    month = int(value[6:8])
    return _is_day(value[5] + value[10], f"{month - 50 if month > 50 else month:02d}", value[8:10])


# The letters of an American Medicare number.
_MBI = "[AC-HJKMNP-RT-Y]"
# What looks like nothing else, wherever it stands.
DISTINCT = (
    _kind(r"[XYZ]\d{7}-?[A-Z]", "es.nie"),
    _kind(r"[STFGM]\d{7}[A-Z]", _singapore),
    _kind(r"\d{6}-[1-4]\d{6}", _born(0, 2, 4)),
    _kind(r"\d{6}-[5-8]\d{6}", "kr.rrn"),
    _kind(r"(?:1[1-9]|2[0-8])([- ])\d\d\1\d{6}\1\d\d", lambda text: True),
    _kind(r"[A-Z9]{5}\d{6}[A-Z9]{2}[0-9A-Z][A-Z]{2}", _licence_of_britain),
    _kind(
        rf"[1-9]{_MBI}[0-9{_MBI[1:]}\d-?{_MBI}[0-9{_MBI[1:]}\d-?{_MBI}{{2}}\d\d", lambda text: True
    ),
    _kind(r"\d\d ?\d{6} ?[A-Z] ?\d\d ?\d", _german_pension, _born(6, 4, 2)),
    _kind(r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d", "mx.curp"),
    _kind(r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", "in_.pan"),
    _kind(r"\d{6}/\d{3,4}", "cz.rc"),
    _kind(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]", "cl.rut"),
    _kind(r"[A-Z]{1,2}\d{6}\([0-9A]\)", _hong_kong),
    _kind(r"\d{3}-\d{3}-\d{3} \d\d", _snils),
    _kind(r"\d{6}-\d\d-\d{4}", "my.nric"),
    _kind(r"\d-\d{4}-\d{5}-\d\d-\d", "th.pin"),
    _kind(r"9\d\d([- ])\d\d\1\d{4}", "us.itin"),
    _kind(
        r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d\d){3} ?[A-D]",
        lambda text: True,
    ),
    _kind(r"[12] \d\d \d\d \d\d \d{3} \d{3} \d\d", "fr.nir"),
    _kind(r"\d{3}([- ])\d{3}\1\d{4}", "gb.nhs"),
    _kind(r"[2-9]\d{3}([- ])\d{4}\1\d{4}", "in_.aadhaar"),
    _kind(r"[12]\d{3}([- ])\d{3}\1\d{3}", _provider),
    _kind(r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", "be.nn"),
    _kind(r"\d{3}\.\d{3}\.\d{3}-\d\d", "br.cpf"),
    _kind(r"756\.\d{4}\.\d{4}\.\d\d", "ch.ssn"),
)
# What may be some other number, unless it is all that is said, or stands behind a word for it.
CHECKED = (
    _kind(r"[A-Z][12]\d{8}", _taiwan),
    _kind(r"(?:19|20)?\d{6}[-+]?\d{4}", "se.personnummer"),
    _kind(r"[A-Z]\d{9}", _german_health),
    _kind(r"[CFGHJKLMNPRTVWXYZ][0-9CFGHJKLMNPRTVWXYZ]{7}\d", _travel_document),
    _kind(r"[A-Z]{2}\d{7}[A-Z]|U1[0-9A-Z]{7}[A-Z]", lambda text: True),
    _kind(r"\d{8}-?[A-Z]", "es.dni"),
    _kind(r"(?!1[5-8])\d{13}", "th.pin"),
    _kind(r"(?!1[5-8])\d{13}", "za.idnr"),
    _kind(r"(?!1[5-8])\d{6}[1-4]\d{6}", _born(0, 2, 4)),
    _kind(r"9\d\d[- ]?\d\d[- ]?\d{4}", "us.itin"),
    _kind(r"\d{11}", "pl.pesel"),
    _kind(r"[047]\d{9}|6\d{9}", "gb.nhs"),
    _kind(r"\d{15}", "fr.nir"),
)


def is_distinct(text: str) -> bool:
    """An id that its form and its check digits tell from everything else."""
    return _is_one_of(DISTINCT, text)


def is_checked(text: str) -> bool:
    """An id whose check digits are right; other numbers may be so by chance."""
    return _is_one_of(DISTINCT, text) or _is_one_of(CHECKED, text)


def is_registered(text: str, modules: tuple[str, ...]) -> bool:
    """Fits the form and the check digits of one of these kinds."""
    return any(_checker(module).is_valid(text) for module in modules)


def _is_one_of(kinds: tuple[Kind, ...], text: str) -> bool:
    upper = text.upper()
    return any(kind.form.fullmatch(upper) and kind.fits(upper) for kind in kinds)
