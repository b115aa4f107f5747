"""Makes marks, keyed so that nobody can try values out: the same value has the same mark wherever
it stands."""

import functools
import hmac
from collections.abc import Callable
from hashlib import sha256

from open_token.passes._late import late
from open_token.passes._marks import MARK
from open_token.passes._numbers import e164

_PURPOSE = b"open-token/redact/v1|"
_NOTHING = "00000000"
_NOT_ALNUM = late(r"[\W_]")


def canonical(type: str, value: str) -> str:
    """Equal things alike, however they are written."""
    if type == "email":
        return value.lower()
    if type == "phone":
        return e164(value)
    if type in ("card", "iban") or type.endswith("ssn") or type == "national_id":
        return _NOT_ALNUM.sub("", value).upper()
    return value


class Marker:
    """Makes the mark of a value: the same value always has the same hash8, whatever rule found
    it."""

    def __init__(self, hash8: Callable[[str], str]) -> None:
        self._hash8 = hash8

    def mark(self, type: str, value: str) -> str:
        return f"[REDACTED:{type}:{self._hash8(canonical(type, value))}]"


def keyed(key: bytes, scope: str) -> Marker:
    """Marks under a key, for one conversation or, with an empty scope, for all."""
    derived = _hkdf(key, _PURPOSE + scope.encode("utf-8", "surrogatepass"))

    @functools.lru_cache(maxsize=4096)
    def hash8(value: str) -> str:
        return hmac.new(derived, value.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:8]

    return Marker(hash8)


def dropped() -> Marker:
    """Marks that tell nothing of the value."""
    return Marker(lambda value: _NOTHING)


class Numbers:
    """Numbers in order of first use, where no key may be kept; those of marks in the text are not
    used again."""

    def __init__(self) -> None:
        self._highest = 0

    def pass_over(self, text: str) -> None:
        """Leave out the numbers of the marks in a text."""
        if "[REDACTED:" not in text:
            return
        for found in MARK.finditer(text):
            number = found[0][-9:-1]
            if number.isdecimal() and number[0] == "0":
                self._highest = max(self._highest, int(number))

    def marker(self) -> Marker:
        numbers: dict[str, str] = {}

        def number(value: str) -> str:
            return numbers.setdefault(value, f"{self._highest + len(numbers) + 1:08d}")

        return Marker(number)


def _hkdf(key: bytes, info: bytes) -> bytes:
    """HKDF-SHA-256 without salt (RFC 5869), one block."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")
