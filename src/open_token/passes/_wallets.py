"""Keys of wallets, told from other letters by the checksum that they carry."""

import base64
import binascii
import hashlib
import re

_BASE58 = {
    letter: value
    for value, letter in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
}
_WIF_SIZES = (37, 38)
_SEED_VERSION = 18 << 3
_PHRASE_SIZES = (12, 15, 18, 21, 24)
# No list of seed words has these, and hardly a sentence of twelve words is without them.
_NOT_IN_PHRASES = frozenset(
    "the and are for not with was were which from your must has but when its".split()
)


def is_wif(text: str) -> bool:
    """A private key of Bitcoin in the form in which wallets give it out."""
    number = 0
    for letter in text:
        number = number * 58 + _BASE58[letter]
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    body, check = raw[:-4], raw[-4:]
    return (
        len(raw) in _WIF_SIZES
        and hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == check
    )


def is_stellar_seed(text: str) -> bool:
    """A secret seed of Stellar: its version, 32 bytes, and their checksum."""
    raw = base64.b32decode(text)
    return raw[0] == _SEED_VERSION and binascii.crc_hqx(raw[:-2], 0) == int.from_bytes(
        raw[-2:], "little"
    )


def is_seed_phrase(text: str) -> bool:
    """As many words as such a phrase has, none of them a word that only sentences have."""
    words = re.findall("[a-z]+", text)
    return (
        len(words) in _PHRASE_SIZES
        and len(set(words)) > len(words) / 2
        and not _NOT_IN_PHRASES & set(words)
    )
