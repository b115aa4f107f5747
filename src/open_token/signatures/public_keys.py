"""Public keys as OpenSSH writes them: the blob, its type, its fingerprint, and the raw bytes of an
Ed25519 key."""

import re
from base64 import b64decode, b64encode
from hashlib import sha256

ED25519 = "ssh-ed25519"

KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9-]+(?:@[a-z.]+)?")
_SPKI = bytes.fromhex("302a300506032b6570032100")


def fingerprint(key: bytes) -> str:
    """The name of a key, as ssh-keygen -l shows it."""
    return "SHA256:" + b64encode(sha256(key).digest()).decode().rstrip("=")


def strings(blob: bytes) -> list[bytes] | None:
    """The length-prefixed strings that a blob consists of; None when it does not."""
    found = []
    place = 0
    while place < len(blob):
        start = place + 4
        place = start + int.from_bytes(blob[place:start], "big")
        if start > len(blob) or place > len(blob):
            return None
        found.append(blob[start:place])
    return found


def string(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return len(data).to_bytes(4, "big") + data


def key_of(kind: str, text: str) -> bytes | None:
    """The blob of a public key by its type and its base64; None when they are no key."""
    blob = exact_base64(text)
    return (
        blob
        if blob and blob.startswith(string(kind.encode())) and KEY_TYPE.fullmatch(kind)
        else None
    )


def key_in(text: object) -> bytes | None:
    """The blob of a public key that is written on one line, as in a file that ends in .pub; None
    when it is none."""
    words = text.split(" ") if isinstance(text, str) else []
    return key_of(words[0], words[1]) if len(words) == 2 else None


def as_text(key: bytes) -> str:
    """The key on one line."""
    kind = (strings(key[: 4 + int.from_bytes(key[:4], "big")]) or [b""])[0]
    return f"{kind.decode()} {b64encode(key).decode()}"


def raw_ed25519(key: bytes) -> bytes | None:
    """The 32 bytes of an Ed25519 key; None when it is of another type."""
    parts = strings(key)
    is_one = (
        parts is not None
        and len(parts) == 2
        and parts[0] == ED25519.encode()
        and len(parts[1]) == 32
    )
    return parts[1] if parts is not None and is_one else None


def of_raw_ed25519(raw: bytes) -> bytes:
    """The blob of an Ed25519 key."""
    return string(ED25519.encode()) + string(raw)


def of_pem(text: str) -> bytes | None:
    """The blob of an Ed25519 key in PEM, as openssl writes it; None when it is something else."""
    found = re.search(
        r"-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=]+)\s+-----END PUBLIC KEY-----", text
    )
    der = exact_base64(found[1]) if found else None
    return of_raw_ed25519(der[12:]) if der and len(der) == 44 and der.startswith(_SPKI) else None


def exact_base64(text: str) -> bytes | None:
    """The bytes of a text that is base64 in the one way they can be written; None else."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == text else None
