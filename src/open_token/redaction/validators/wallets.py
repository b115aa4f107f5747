"""Recognize wallet keys by the checksums that they contain."""

import hashlib
import re

_BASE58_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_VALUES = {letter: value for value, letter in enumerate(_BASE58_ALPHABET)}
_WIF_SIZES = (37, 38)
_PHRASE_SIZES = (12, 15, 18, 21, 24)
# No list of seed words has these, and hardly a sentence of twelve words is without them.
_NOT_IN_PHRASES = frozenset(
    "the and are for not with was were which from your must has but when its".split()
)


def is_wif(text: str) -> bool:
    """Return whether a text is a Bitcoin private key in wallet import format."""
    number = 0
    for letter in text:
        number = number * 58 + _BASE58_VALUES[letter]
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if len(raw) not in _WIF_SIZES:
        return False
    checksum = hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4]
    return checksum == raw[-4:]


def is_seed_phrase(text: str) -> bool:
    """Return whether a text has as many words as a seed phrase, and none that only sentences have."""
    words = re.findall("[a-z]+", text)
    distinct = set(words)
    if len(words) not in _PHRASE_SIZES or len(distinct) <= len(words) / 2:
        return False
    return not _NOT_IN_PHRASES & distinct
