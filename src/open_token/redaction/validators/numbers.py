"""Check numbers that identify a person by checksums and ranges: cards, accounts, phones, IPs."""

import functools
import re
from typing import Any

from open_token.redaction.lazy_patterns import lazy_compile

_CARD_PATTERNS = (
    r"4\d{12}(?:\d{3}){0,2}",  # Visa
    r"(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}",  # Mastercard
    r"3[47]\d{13}",  # American Express
    r"3(?:0[0-59]|[689]\d)\d{11,16}",  # Diners Club
    r"6(?:011|4[4-9]\d|5\d{2})\d{12,15}",  # Discover
    r"(?:2131|1800)\d{11}|35(?:2[89]|[3-8]\d)\d{12,15}",  # JCB
    r"62\d{14,17}|81\d{14,17}",  # UnionPay
    r"(?:5018|5020|5038|5893|6304|6759|676[1-3]|50\d\d|5[6-9]\d\d|6\d{3})\d{8,15}",  # Maestro
)
_CARD = lazy_compile("|".join(f"(?:{pattern})" for pattern in _CARD_PATTERNS))
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
# Where domestic numbers begin with 0.
_REGIONS_WITH_ZERO = tuple("GB DE FR IN IL IT AU JP NL CH PH BE AT SE FI ZA TR KR CN TH".split())
_UNASSIGNED_NETWORKS = (
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
# All ones is not among them: it may be the broadcast address as well.
_NETMASKS = frozenset(
    f"255.{rest}"
    for ending in (0, 128, 192, 224, 240, 248, 252, 254)
    for rest in (f"{ending}.0.0", f"255.{ending}.0", f"255.255.{ending}")
)


def extract_digits(text: str) -> str:
    """Return the digits of a text."""
    return re.sub(r"\D", "", text)


def is_luhn(number: str) -> bool:
    """Return whether the Luhn check digit of cards and some ids is right."""
    total = 0
    for position, digit in enumerate(reversed(number)):
        doubled = int(digit) * (1 + position % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def is_card(text: str, *, of_any_issuer: bool = False) -> bool:
    """Return whether a number is in the range of an issuer and has the right check digit."""
    number = extract_digits(text)
    if not of_any_issuer and not _CARD.fullmatch(number):
        return False
    return len(set(number)) > 1 and is_luhn(number)


def is_iban(text: str) -> bool:
    """Return whether a text is an IBAN: its number modulo 97 is 1."""
    number = re.sub(r"[\s-]", "", text).upper()
    if not 15 <= len(number) <= 34 or not number.isascii() or not number.isalnum():
        return False
    digits = "".join(str(int(letter, 36)) for letter in number[4:] + number[:4])
    return int(digits) % 97 == 1


def is_personal_ip(text: str) -> bool:
    """Return whether an IP address is that of a host, not loopback or for documentation."""
    import ipaddress

    plain = re.split("[%/]", text)[0]
    if plain in _NETMASKS:
        return False
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    return not any(
        address.version == network.version and address in network
        for network in _parse_unassigned_networks()
    )


@functools.cache
def _parse_unassigned_networks() -> tuple[Any, ...]:
    import ipaddress

    return tuple(ipaddress.ip_network(network) for network in _UNASSIGNED_NETWORKS)


def is_ssn(text: str) -> bool:
    """Return whether a US social security number may have been issued."""
    number = extract_digits(text)
    if len(number) != 9 or len(set(number)) == 1:
        return False
    if number in ("123456789", "987654321", "078051120"):
        return False
    area = number[:3]
    group = number[3:5]
    serial = number[5:]
    if area in ("000", "666") or area[0] == "9":
        return False
    return group != "00" and serial != "0000"


def is_phone(text: str, regions: tuple[str, ...] = _REGIONS) -> bool:
    """Return whether a number is valid: internationally with a plus, else in one of the regions."""
    return _parse_phone(text, regions) is not None


def is_possible_phone(text: str) -> bool:
    """Return whether a number has a length that its country code permits."""
    import phonenumbers

    try:
        return bool(phonenumbers.is_possible_number(phonenumbers.parse(text, None)))
    except phonenumbers.NumberParseException:
        return False


def is_national_phone(text: str) -> bool:
    """Return whether a number is valid in a country where numbers begin with 0."""
    return is_phone(text, _REGIONS_WITH_ZERO)


def to_e164(text: str) -> str:
    """Return a phone number in international form; only its digits if it has no valid one."""
    parsed = _parse_phone(text, _REGIONS)
    if parsed is None:
        return extract_digits(text)
    import phonenumbers

    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))


@functools.lru_cache(maxsize=4096)
def _parse_phone(text: str, regions: tuple[str, ...]) -> Any:
    import phonenumbers

    text = re.sub(r"^00(?=[1-9])", "+", text)
    is_international = text.lstrip("( ").startswith("+")
    for region in (None,) if is_international else regions:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return number
    return None


def is_hetu(text: str) -> bool:
    """Return whether a text is a Finnish personal identity code, also with the signs of 2023."""
    day = int(text[:2])
    month = int(text[2:4])
    if not 1 <= day <= 31 or not 1 <= month <= 12:
        return False
    number = int(text[:6] + text[7:10])
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[number % 31] == text[10:].upper()
