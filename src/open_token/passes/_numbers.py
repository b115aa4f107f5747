"""Numbers that name a person, told from others by checksums and ranges: cards, accounts, phones,
addresses, ids."""

import functools
import re
from typing import Any

from open_token.passes._late import late

_ISSUERS = (
    (r"4\d{12}(?:\d{3}){0,2}", "visa"),
    (r"(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}", "mastercard"),
    (r"3[47]\d{13}", "amex"),
    (r"3(?:0[0-59]|[689]\d)\d{11,16}", "diners"),
    (r"6(?:011|4[4-9]\d|5\d{2})\d{12,15}", "discover"),
    (r"(?:2131|1800)\d{11}|35(?:2[89]|[3-8]\d)\d{12,15}", "jcb"),
    (r"62\d{14,17}|81\d{14,17}", "unionpay"),
    (r"(?:5018|5020|5038|5893|6304|6759|676[1-3]|50\d\d|5[6-9]\d\d|6\d{3})\d{8,15}", "maestro"),
)
_CARD = late("|".join(f"(?:{pattern})" for pattern, _ in _ISSUERS))
_REGIONS = (
    "US",
    "GB",
    "DE",
    "FR",
    "IN",
    "IL",
    "BR",
    "ES",
    "IT",
    "AU",
    "JP",
    "NL",
    "CH",
    "PH",
    "MX",
)
# Where numbers at home begin with 0; the others would only cost time.
_WITH_ZERO = tuple("GB DE FR IN IL IT AU JP NL CH PH BE AT SE FI ZA TR KR CN TH".split())
_NOBODYS = (
    "0.0.0.0/8",
    "127.0.0.0/8",
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "::/128",
    "::1/128",
    "2001:db8::/32",
    "3fff::/20",
)
# Ones and then zeros, which say how large a network is; all ones may be the broadcast address as
# well.
_NETMASKS = frozenset(
    f"255.{rest}"
    for ending in (0, 128, 192, 224, 240, 248, 252, 254)
    for rest in (f"{ending}.0.0", f"255.{ending}.0", f"255.255.{ending}")
)


def digits_of(text: str) -> str:
    return re.sub(r"\D", "", text)


def is_luhn(number: str) -> bool:
    """The check digit that cards and some ids carry."""
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def is_card(text: str, *, of_any_issuer: bool = False) -> bool:
    """In the range of an issuer, with the right check digit."""
    number = digits_of(text)
    return (
        bool(of_any_issuer or _CARD.fullmatch(number)) and len(set(number)) > 1 and is_luhn(number)
    )


def is_iban(text: str) -> bool:
    """Mod 97 of the account number is 1."""
    number = re.sub(r"[\s-]", "", text).upper()
    if not 15 <= len(number) <= 34 or not number.isascii() or not number.isalnum():
        return False
    return int("".join(str(int(letter, 36)) for letter in number[4:] + number[:4])) % 97 == 1


def is_personal_ip(text: str) -> bool:
    """An address of some machine or of several: not this one, not nobody's, not one of those kept
    for documents."""
    import ipaddress

    plain = re.split("[%/]", text)[0]
    if plain in _NETMASKS:
        return False
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    return not any(address.version == net.version and address in net for net in _nobodys())


@functools.cache
def _nobodys() -> tuple[Any, ...]:
    import ipaddress

    return tuple(ipaddress.ip_network(net) for net in _NOBODYS)


def is_ssn(text: str) -> bool:
    """A number of the United States that can have been given out."""
    number = digits_of(text)
    if (
        len(number) != 9
        or number in ("123456789", "987654321", "078051120")
        or len(set(number)) == 1
    ):
        return False
    return (
        number[:3] not in ("000", "666")
        and number[0] != "9"
        and number[3:5] != "00"
        and number[5:] != "0000"
    )


def is_phone(text: str, regions: tuple[str, ...] = _REGIONS) -> bool:
    """A number that can be dialled, in the whole world with a plus sign, else in one of the
    regions."""
    return _parsed(text, regions) is not None


def is_possible_phone(text: str) -> bool:
    """Has the length of the numbers of the country that its prefix names, whether or not it was
    given out."""
    import phonenumbers

    try:
        return bool(phonenumbers.is_possible_number(phonenumbers.parse(text, None)))
    except phonenumbers.NumberParseException:
        return False


def is_national_phone(text: str) -> bool:
    """Can be dialled in a country where numbers begin with 0."""
    return is_phone(text, _WITH_ZERO)


def e164(text: str) -> str:
    """The number as it is dialled from anywhere; the digits alone when that cannot be told."""
    parsed = _parsed(text, _REGIONS)
    if parsed is None:
        return digits_of(text)
    import phonenumbers

    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))


@functools.lru_cache(maxsize=4096)
def _parsed(text: str, regions: tuple[str, ...]) -> Any:
    import phonenumbers

    text = re.sub(r"^00(?=[1-9])", "+", text)
    for region in (None,) if text.lstrip("( ").startswith("+") else regions:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return number
    return None


def is_hetu(text: str) -> bool:
    """The Finnish id: a day, a sign for the century, a number and a check letter; also the signs
    added in 2023."""
    number, check = text[:6] + text[7:10], text[10:].upper()
    day, month = int(text[:2]), int(text[2:4])
    return (
        1 <= day <= 31
        and 1 <= month <= 12
        and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(number) % 31] == check
    )
