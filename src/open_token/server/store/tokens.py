"""Secrets that are shown once: how API keys and share tokens are made, checked for typing errors,
and kept."""

import functools
import hashlib
import hmac
import re
import secrets
import string
import zlib

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
PREFIX = "sk-ot-v1-"
_KEY = re.compile(rf"{PREFIX}([0-9A-Za-z]{{12}})_[0-9A-Za-z]{{32}}([0-9A-Za-z]{{6}})", re.ASCII)


def random_word(length: int) -> str:
    """Letters and digits, just under six bits each."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def new_key() -> tuple[str, str]:
    """The id of a new API key, and the key itself."""
    word = random_word(12)
    bare = f"{PREFIX}{word}_{random_word(32)}"
    return f"key_{word}", bare + _checksum(bare)


def key_id(plaintext: str) -> str | None:
    """The id inside an API key; None when it cannot be a key of ours, or was not typed as it was
    shown."""
    found = _KEY.fullmatch(plaintext)
    if not found or _checksum(plaintext[:-6]) != found[2]:
        return None
    return f"key_{found[1]}"


def masked(last: str) -> str:
    """How a key looks in a list."""
    return f"{PREFIX}...{last}"


def new_share() -> str:
    """A token that opens one session for reading: 256 random bits."""
    return random_word(43)


def digest(pepper: bytes, secret: str) -> bytes:
    """What is kept of a secret: useless without the pepper, which is not in the database."""
    made = _keyed(pepper).copy()
    made.update(secret.encode("utf-8", "surrogatepass"))
    return made.digest()


@functools.lru_cache(maxsize=8)
def _keyed(pepper: bytes) -> hmac.HMAC:
    """The work that is the same for every secret, which is half of it."""
    return hmac.new(pepper, digestmod=hashlib.sha256)


def fingerprint(pepper: bytes) -> str:
    """Tells one pepper from another without giving it away."""
    return hmac.new(pepper, b"open-token pepper", hashlib.sha256).hexdigest()[:16]


def _checksum(text: str) -> str:
    value, signs = zlib.crc32(text.encode()), ""
    for _ in range(6):
        value, place = divmod(value, len(ALPHABET))
        signs += ALPHABET[place]
    return signs
