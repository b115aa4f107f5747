"""SSH public keys (blob, type, fingerprint) and Ed25519 operations.

Ed25519 signing and checking need the optional package `cryptography`.
"""

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from open_token.errors import SigningError
from open_token.storage.files import read_existing

ED25519 = "ssh-ed25519"
KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9-]+(?:@[a-z.]+)?")

_ED25519_LENGTH = 32
_PEM_PUBLIC_KEY = re.compile(
    r"-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=]+)\s+-----END PUBLIC KEY-----"
)
# DER prefix of a SubjectPublicKeyInfo that holds an Ed25519 key.
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")


def compute_fingerprint(key: bytes) -> str:
    """Return the SHA-256 fingerprint of a key, as `ssh-keygen -l` prints it."""
    return "SHA256:" + b64encode(sha256(key).digest()).decode().rstrip("=")


def parse_ssh_strings(blob: bytes) -> list[bytes] | None:
    """Return the length-prefixed strings of a blob, or None if the blob is malformed."""
    parts = []
    position = 0
    while position < len(blob):
        start = position + 4
        position = start + int.from_bytes(blob[position:start], "big")
        if start > len(blob) or position > len(blob):
            return None
        parts.append(blob[start:position])
    return parts


def encode_ssh_string(data: bytes) -> bytes:
    """Return the bytes with their length as a 32-bit prefix."""
    return len(data).to_bytes(4, "big") + data


def parse_public_key(key_type: str, encoded: str) -> bytes | None:
    """Return the blob of a public key given by type and base64, or None if it is not a key."""
    blob = decode_exact_base64(encoded)
    if not blob or not KEY_TYPE.fullmatch(key_type):
        return None
    if not blob.startswith(encode_ssh_string(key_type.encode())):
        return None
    return blob


def find_public_key(line: object) -> bytes | None:
    """Return the blob of a public key written as `type base64`, or None."""
    if not isinstance(line, str):
        return None
    words = line.split(" ")
    if len(words) != 2:
        return None
    return parse_public_key(words[0], words[1])


def format_public_key(key: bytes) -> str:
    """Return a key as `type base64`."""
    # A blob begins with its type as an SSH string: four bytes of length, then the name.
    type_end = 4 + int.from_bytes(key[:4], "big")
    parts = parse_ssh_strings(key[:type_end]) or [b""]
    key_type = parts[0].decode()
    encoded = b64encode(key).decode()
    return f"{key_type} {encoded}"


def to_raw_ed25519(key: bytes) -> bytes | None:
    """Return the 32 raw bytes of an Ed25519 key blob, or None for another type."""
    parts = parse_ssh_strings(key)
    if parts is None or len(parts) != 2:
        return None
    key_type, raw = parts
    if key_type != ED25519.encode() or len(raw) != _ED25519_LENGTH:
        return None
    return raw


def from_raw_ed25519(raw: bytes) -> bytes:
    """Return the key blob for 32 raw bytes."""
    return encode_ssh_string(ED25519.encode()) + encode_ssh_string(raw)


def from_pem(text: str) -> bytes | None:
    """Return the blob of an Ed25519 public key in PEM, or None if it is something else."""
    match = _PEM_PUBLIC_KEY.search(text)
    if match is None:
        return None
    der = decode_exact_base64(match[1]) or b""
    raw = der.removeprefix(_SPKI_PREFIX)
    if not der.startswith(_SPKI_PREFIX) or len(raw) != _ED25519_LENGTH:
        return None
    return from_raw_ed25519(raw)


def decode_exact_base64(text: str) -> bytes | None:
    """Decode base64 that is written in its only canonical form; None for anything else."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == text else None


def verify_ed25519(public: bytes, signature: bytes, data: bytes) -> bool | None:
    """Return whether a signature is valid; None if `cryptography` is not installed."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_private_key(path: str) -> Any:
    """Load an unencrypted Ed25519 private key, in OpenSSH format or PEM."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            load_pem_private_key,
            load_ssh_private_key,
        )
    except ImportError:
        raise SigningError(
            "dsse-ed25519 requires the cryptography package",
            help="install `open-token-cli[sign]`, or use the scheme sshsig, which needs only ssh-keygen",
            code="sign.package",
        ) from None
    raw = read_existing(Path(path)) or b""
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in raw else load_pem_private_key
    try:
        key = load(raw, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(
            "not an unencrypted Ed25519 private key",
            where=path,
            help="the scheme sshsig supports every SSH key, including encrypted keys and ssh-agent",
            code="sign.key",
        )
    return key
