"""The scheme dsse-ed25519: a bare Ed25519 signature over the statement in the envelope encoding of
DSSE."""

from base64 import b64encode
from typing import Any

from open_token.signatures import ed25519
from open_token.signatures.public_keys import (
    as_text,
    exact_base64,
    fingerprint,
    key_in,
    of_raw_ed25519,
    raw_ed25519,
)

SCHEME = "dsse-ed25519"
PAYLOAD_TYPE = b"application/vnd.in-toto+json"


def encoded(statement: bytes) -> bytes:
    """What is signed: the type and the statement, each with its length before it."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE, len(statement), statement)


def sign(statement: bytes, key: str) -> dict[str, str]:
    """An entry of `signatures`, made with a key file."""
    private = ed25519.private_key(key)
    public = of_raw_ed25519(private.public_key().public_bytes_raw())
    made = b64encode(private.sign(encoded(statement))).decode()
    return {"scheme": SCHEME, "keyid": fingerprint(public), "key": as_text(public), "sig": made}


def public_key(entry: dict[str, Any]) -> bytes | None:
    """The key with which an entry says that it was made; None when it is no such signature."""
    key = key_in(entry.get("key"))
    is_one = key is not None and raw_ed25519(key) is not None and len(_signature(entry)) == 64
    return key if is_one else None


def holds(entry: dict[str, Any], statement: bytes) -> bool | None:
    """Whether the entry is a signature of the statement; None when nothing here can tell."""
    key = public_key(entry)
    raw = raw_ed25519(key) if key else None
    return False if raw is None else ed25519.holds(raw, _signature(entry), encoded(statement))


def _signature(entry: dict[str, Any]) -> bytes:
    text = entry.get("sig")
    return (exact_base64(text) if isinstance(text, str) and len(text) < 100 else None) or b""
