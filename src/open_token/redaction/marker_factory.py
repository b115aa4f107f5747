"""Build markers for values: keyed hashes, zeros, or numbers in order of first use.

The hash is keyed so that nobody can find a value by trying candidates. Equal values have equal
hashes wherever they occur.
"""

import functools
import hmac
from collections.abc import Callable
from hashlib import sha256

from open_token.context import Context
from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.markers import MARKER, MARKER_START, format_marker
from open_token.redaction.validators.numbers import to_e164

_PURPOSE = b"open-token/redact/v1|"
_ZEROS = "00000000"
_NOT_ALPHANUMERIC = lazy_compile(r"[\W_]")


def canonicalize_value(type: str, value: str) -> str:
    """Return the form that all spellings of the same email address, number and so on share."""
    if type == "email":
        return value.lower()
    if type == "phone":
        return to_e164(value)
    if type in ("card", "iban", "national_id") or type.endswith("ssn"):
        return _NOT_ALPHANUMERIC.sub("", value).upper()
    return value


class MarkerFactory:
    """Build the marker of a value; its hash does not depend on the rule that found it."""

    def __init__(self, compute_hash: Callable[[str], str]) -> None:
        self._compute_hash = compute_hash

    def build_marker(self, type: str, value: str) -> str:
        """Return the marker of a value."""
        return format_marker(type, self._compute_hash(canonicalize_value(type, value)))


def build_factory(context: Context, scope: str, numbering: "MarkerNumbering") -> MarkerFactory:
    """Return the factory that the strategy and the keys of a context ask for."""
    strategy = context.options.strategy
    if strategy == "drop":
        return build_drop_factory()
    key = get_marker_key(context)
    if key is None:
        return numbering.build_factory()
    return build_keyed_factory(key, "" if strategy == "hash" else scope)


def get_marker_key(context: Context) -> bytes | None:
    """Return the key of marker hashes; the team's where values are compared across conversations."""
    if context.options.strategy == "hash":
        return context.team_key or context.key
    return context.key


def build_keyed_factory(key: bytes, scope: str) -> MarkerFactory:
    """Return a factory of keyed hashes for one conversation, or for all with an empty scope."""
    derived = _derive_key(key, _PURPOSE + scope.encode("utf-8", "surrogatepass"))

    @functools.lru_cache(maxsize=4096)
    def compute_hash(value: str) -> str:
        return hmac.new(derived, value.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:8]

    return MarkerFactory(compute_hash)


def build_drop_factory() -> MarkerFactory:
    """Return a factory of markers that say nothing about the value."""
    return MarkerFactory(lambda value: _ZEROS)


class MarkerNumbering:
    """Number values in order of first use, where there is no key."""

    def __init__(self) -> None:
        self._highest = 0

    def reserve_numbers(self, text: str) -> None:
        """Do not use the numbers of markers that the text already has."""
        if MARKER_START not in text:
            return
        for match in MARKER.finditer(text):
            number = match["hash"]
            if number.isdecimal() and number[0] == "0":
                self._highest = max(self._highest, int(number))

    def build_factory(self) -> MarkerFactory:
        """Return a factory that counts from the highest reserved number."""
        numbers: dict[str, str] = {}

        def assign_number(value: str) -> str:
            return numbers.setdefault(value, f"{self._highest + len(numbers) + 1:08d}")

        return MarkerFactory(assign_number)


def _derive_key(key: bytes, info: bytes) -> bytes:
    """Return one block of HKDF-SHA-256 without salt (RFC 5869)."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")
