"""The directory names that Claude Code and Qwen Code derive from the path of a project."""

import re

_MAX_LENGTH = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def encode_project_path(cwd: str) -> str:
    """Return a path with a dash for each character that is no ASCII letter or digit.

    A long name is cut and gets a hash of the whole path.
    """
    name = re.sub(r"[^A-Za-z0-9]", "-", cwd)
    if len(name) <= _MAX_LENGTH:
        return name
    return f"{name[:_MAX_LENGTH]}-{_to_base36(abs(_compute_hash(cwd)))}"


def _compute_hash(text: str) -> int:
    """Compute the usual JavaScript string hash: 31 * hash + code unit, as a signed 32-bit int."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(units), 2):
        unit = int.from_bytes(units[position : position + 2], "little")
        value = (31 * value + unit) & 0xFFFFFFFF
    if value >= 1 << 31:
        return value - (1 << 32)
    return value


def _to_base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
