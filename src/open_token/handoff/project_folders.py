"""How agents name a folder of their own after a project's."""

import re

_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def dashed(cwd: str) -> str:
    """The path with a dash for everything that is no letter of ASCII; a long one is cut and told
    apart by a number."""
    plain = re.sub(r"[^A-Za-z0-9]", "-", cwd)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}-{_base36(abs(_hash(cwd)))}"


def _hash(text: str) -> int:
    """31 times what was before and the next unit of UTF-16, in 32 bits with a sign."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for place in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[place : place + 2], "little")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
