"""The signature scheme dsse-ed25519: an Ed25519 signature over a DSSE pre-authentication encoding."""

from base64 import b64encode
from typing import Any

from open_token.integrity.signatures.keys import (
    compute_fingerprint,
    decode_exact_base64,
    find_public_key,
    format_public_key,
    from_raw_ed25519,
    load_private_key,
    to_raw_ed25519,
    verify_ed25519,
)

SCHEME = "dsse-ed25519"
PAYLOAD_TYPE = b"application/vnd.in-toto+json"

_SIGNATURE_LENGTH = 64
_MAX_ENCODED_SIGNATURE = 100


def encode_payload(statement: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding (PAE) of a statement."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE, len(statement), statement)


def sign(statement: bytes, key: str) -> dict[str, str]:
    """Sign a statement with a key file and return the entry for `signatures`."""
    private = load_private_key(key)
    public = from_raw_ed25519(private.public_key().public_bytes_raw())
    signature = private.sign(encode_payload(statement))
    return {
        "scheme": SCHEME,
        "keyid": compute_fingerprint(public),
        "key": format_public_key(public),
        "sig": b64encode(signature).decode(),
    }


def read_public_key(entry: dict[str, Any]) -> bytes | None:
    """Return the key that an entry names, or None if the entry is malformed."""
    key = find_public_key(entry.get("key"))
    if key is None or to_raw_ed25519(key) is None:
        return None
    if len(_decode_signature(entry)) != _SIGNATURE_LENGTH:
        return None
    return key


def check_signature(entry: dict[str, Any], statement: bytes) -> bool | None:
    """Return whether an entry signs the statement; None if it cannot be checked here."""
    key = read_public_key(entry)
    raw = to_raw_ed25519(key) if key else None
    if raw is None:
        return False
    return verify_ed25519(raw, _decode_signature(entry), encode_payload(statement))


def _decode_signature(entry: dict[str, Any]) -> bytes:
    encoded = entry.get("sig")
    if not isinstance(encoded, str) or len(encoded) >= _MAX_ENCODED_SIGNATURE:
        return b""
    return decode_exact_base64(encoded) or b""
