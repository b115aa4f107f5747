"""API keys and share tokens: generation, checksums against typos, and hashing for storage."""

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
_CHECKSUM_LENGTH = 6


def generate_random_word(length: int) -> str:
    """Return random letters and digits, with just under six bits of entropy each."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def generate_key() -> tuple[str, str]:
    """Return the id of a new API key, and the key itself."""
    word = generate_random_word(12)
    body = f"{PREFIX}{word}_{generate_random_word(32)}"
    return f"key_{word}", body + _compute_checksum(body)


def parse_key_id(plaintext: str) -> str | None:
    """Return the id inside an API key; None if the key is malformed or mistyped."""
    match = _KEY.fullmatch(plaintext)
    if match is None or _compute_checksum(plaintext[:-_CHECKSUM_LENGTH]) != match[2]:
        return None
    return f"key_{match[1]}"


def mask_key(last: str) -> str:
    """Return how a key is displayed in a list."""
    return f"{PREFIX}...{last}"


def generate_share_token() -> str:
    """Return a token of 256 random bits that grants read access to one session."""
    return generate_random_word(43)


def hash_secret(pepper: bytes, secret: str) -> bytes:
    """Return what is stored of a secret: useless without the pepper, which is not stored."""
    keyed = _start_hmac(pepper).copy()
    keyed.update(secret.encode("utf-8", "surrogatepass"))
    return keyed.digest()


@functools.lru_cache(maxsize=8)
def _start_hmac(pepper: bytes) -> hmac.HMAC:
    # Keying is half of the work of a short HMAC, and it is the same for every secret.
    return hmac.new(pepper, digestmod=hashlib.sha256)


def hash_pepper(pepper: bytes) -> str:
    """Return a fingerprint that identifies a pepper without revealing it."""
    return hmac.new(pepper, b"open-token pepper", hashlib.sha256).hexdigest()[:16]


def _compute_checksum(text: str) -> str:
    value = zlib.crc32(text.encode())
    characters = ""
    for _ in range(_CHECKSUM_LENGTH):
        value, index = divmod(value, len(ALPHABET))
        characters += ALPHABET[index]
    return characters
