"""Recognize national and other ids of people by their form and their check digits."""

import functools
import importlib
import re
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from open_token.redaction.lazy_patterns import lazy_compile

Check = Callable[[str], bool]


class IdKind(NamedTuple):
    """A kind of id: its form, and the check of its digits."""

    form: re.Pattern[str]
    is_valid: Check


def _build_kind(form: str, *checks: str | Check) -> IdKind:
    """Return a kind of id; a check may be the name of a module of python-stdnum."""
    functions = [_build_stdnum_check(item) if isinstance(item, str) else item for item in checks]
    return IdKind(lazy_compile(form), lambda text: all(check(text) for check in functions))


def _build_stdnum_check(module: str) -> Check:
    return lambda text: bool(_load_stdnum(module).is_valid(text))


@functools.cache
def _load_stdnum(module: str) -> Any:
    return importlib.import_module(f"stdnum.{module}")


def _accept_any(text: str) -> bool:
    return True


def _strip_separators(text: str) -> str:
    """Return the letters and digits of a text, in upper case."""
    return re.sub(r"[^0-9A-Za-z]", "", text).upper()


def _is_date(year: str, month: str, day: str) -> bool:
    """Return whether there is such a day in this or the last century."""
    for century in ("20", "19"):
        try:
            if date(int((century + year)[-4:]), int(month), int(day)) <= date(2100, 1, 1):
                return True
        except ValueError:
            continue
    return False


def _has_birth_date(year: int, month: int, day: int) -> Check:
    """Return a check that the two digits at each of these positions make a date."""

    def check(text: str) -> bool:
        value = _strip_separators(text)
        return _is_date(value[year : year + 2], value[month : month + 2], value[day : day + 2])

    return check


def _sum_digits(number: int) -> int:
    return sum(map(int, str(number)))


def _sum_products(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _letters_to_digits(text: str) -> str:
    """Return each letter as its number in the alphabet, with two digits."""
    return "".join(letter if letter.isdigit() else f"{ord(letter) - 64:02d}" for letter in text)


def _is_german_health(text: str) -> bool:
    digits = _letters_to_digits(_strip_separators(text))
    total = 0
    for position, digit in enumerate(digits[:10]):
        total += _sum_digits(int(digit) * (1 + position % 2))
    return total % 10 == int(digits[10])


def _is_german_pension(text: str) -> bool:
    digits = _letters_to_digits(_strip_separators(text))
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = 0
    for digit, weight in zip(digits, weights, strict=False):
        total += _sum_digits(int(digit) * weight)
    return total % 10 == int(digits[12])


def _is_travel_document(text: str) -> bool:
    """Check the machine-readable check digit of passports, which is the last digit."""
    value = _strip_separators(text)
    total = 0
    for position, letter in enumerate(value[:-1]):
        total += int(letter, 36) * (7, 3, 1)[position % 3]
    return value[-1] == str(total % 10)


def _is_singaporean(text: str) -> bool:
    value = _strip_separators(text)
    prefix = value[0]
    total = _sum_products(value[1:8], (2, 7, 6, 5, 4, 3, 2))
    total += {"T": 4, "G": 4, "M": 3}.get(prefix, 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "XWUTRQPNJLK"}
    return value[8] == letters.get(prefix, "XWUTRQPNMLK")[total % 11]


def _is_taiwanese(text: str) -> bool:
    value = _strip_separators(text)
    first = 10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(value[0])
    total = first // 10 + first % 10 * 9
    total += _sum_products(value[1:], (8, 7, 6, 5, 4, 3, 2, 1, 1))
    return total % 10 == 0


def _is_hong_kong(text: str) -> bool:
    value = _strip_separators(text).rjust(9)
    total = 0
    for letter, weight in zip(value, range(9, 0, -1), strict=True):
        total += weight * (36 if letter == " " else int(letter, 36))
    return total % 11 == 0


def _is_snils(text: str) -> bool:
    value = _strip_separators(text)
    total = _sum_products(value[:9], (9, 8, 7, 6, 5, 4, 3, 2, 1))
    return total % 101 % 100 == int(value[9:])


def _is_us_provider(text: str) -> bool:
    """Check a US National Provider Identifier: Luhn with a fixed prefix."""
    return bool(_load_stdnum("luhn").is_valid("80840" + _strip_separators(text)))


def _is_british_licence(text: str) -> bool:
    value = _strip_separators(text)
    month = int(value[6:8])
    if month > 50:
        month -= 50
    return _is_date(value[5] + value[10], f"{month:02d}", value[8:10])


# The letters of a US Medicare number.
_MBI = "[AC-HJKMNP-RT-Y]"
# Ids whose form is like nothing else.
DISTINCT = (
    _build_kind(r"[XYZ]\d{7}-?[A-Z]", "es.nie"),
    _build_kind(r"[STFGM]\d{7}[A-Z]", _is_singaporean),
    _build_kind(r"\d{6}-[1-4]\d{6}", _has_birth_date(0, 2, 4)),
    _build_kind(r"\d{6}-[5-8]\d{6}", "kr.rrn"),
    _build_kind(r"(?:1[1-9]|2[0-8])([- ])\d\d\1\d{6}\1\d\d", _accept_any),
    _build_kind(r"[A-Z9]{5}\d{6}[A-Z9]{2}[0-9A-Z][A-Z]{2}", _is_british_licence),
    _build_kind(
        rf"[1-9]{_MBI}[0-9{_MBI[1:]}\d-?{_MBI}[0-9{_MBI[1:]}\d-?{_MBI}{{2}}\d\d", _accept_any
    ),
    _build_kind(r"\d\d ?\d{6} ?[A-Z] ?\d\d ?\d", _is_german_pension, _has_birth_date(6, 4, 2)),
    _build_kind(r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d", "mx.curp"),
    _build_kind(r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", "in_.pan"),
    _build_kind(r"\d{6}/\d{3,4}", "cz.rc"),
    _build_kind(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]", "cl.rut"),
    _build_kind(r"[A-Z]{1,2}\d{6}\([0-9A]\)", _is_hong_kong),
    _build_kind(r"\d{3}-\d{3}-\d{3} \d\d", _is_snils),
    _build_kind(r"\d{6}-\d\d-\d{4}", "my.nric"),
    _build_kind(r"\d-\d{4}-\d{5}-\d\d-\d", "th.pin"),
    _build_kind(r"9\d\d([- ])\d\d\1\d{4}", "us.itin"),
    _build_kind(
        r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d\d){3} ?[A-D]",
        _accept_any,
    ),
    _build_kind(r"[12] \d\d \d\d \d\d \d{3} \d{3} \d\d", "fr.nir"),
    _build_kind(r"\d{3}([- ])\d{3}\1\d{4}", "gb.nhs"),
    _build_kind(r"[2-9]\d{3}([- ])\d{4}\1\d{4}", "in_.aadhaar"),
    _build_kind(r"[12]\d{3}([- ])\d{3}\1\d{3}", _is_us_provider),
    _build_kind(r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", "be.nn"),
    _build_kind(r"\d{3}\.\d{3}\.\d{3}-\d\d", "br.cpf"),
    _build_kind(r"756\.\d{4}\.\d{4}\.\d\d", "ch.ssn"),
)
# Ids that may be some other number, unless nothing else is there or a word for it precedes.
CHECKED = (
    _build_kind(r"[A-Z][12]\d{8}", _is_taiwanese),
    _build_kind(r"(?:19|20)?\d{6}[-+]?\d{4}", "se.personnummer"),
    _build_kind(r"[A-Z]\d{9}", _is_german_health),
    _build_kind(r"[CFGHJKLMNPRTVWXYZ][0-9CFGHJKLMNPRTVWXYZ]{7}\d", _is_travel_document),
    _build_kind(r"[A-Z]{2}\d{7}[A-Z]|U1[0-9A-Z]{7}[A-Z]", _accept_any),
    _build_kind(r"\d{8}-?[A-Z]", "es.dni"),
    _build_kind(r"(?!1[5-8])\d{13}", "th.pin"),
    _build_kind(r"(?!1[5-8])\d{13}", "za.idnr"),
    _build_kind(r"(?!1[5-8])\d{6}[1-4]\d{6}", _has_birth_date(0, 2, 4)),
    _build_kind(r"9\d\d[- ]?\d\d[- ]?\d{4}", "us.itin"),
    _build_kind(r"\d{11}", "pl.pesel"),
    _build_kind(r"[047]\d{9}|6\d{9}", "gb.nhs"),
    _build_kind(r"\d{15}", "fr.nir"),
)


def is_distinct(text: str) -> bool:
    """Return whether a text is an id whose form and check digits are like nothing else."""
    return _is_one_of(DISTINCT, text)


def is_checked(text: str) -> bool:
    """Return whether a text is an id with right check digits; other numbers may be by chance."""
    return _is_one_of(DISTINCT, text) or _is_one_of(CHECKED, text)


def is_registered(text: str, modules: tuple[str, ...]) -> bool:
    """Return whether one of these modules of python-stdnum accepts a text."""
    return any(_load_stdnum(module).is_valid(text) for module in modules)


def _is_one_of(kinds: tuple[IdKind, ...], text: str) -> bool:
    upper = text.upper()
    return any(kind.form.fullmatch(upper) and kind.is_valid(upper) for kind in kinds)
