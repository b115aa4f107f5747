"""Ed25519 by the package cryptography, which is not needed for anything else and may be missing."""

import hashlib
from pathlib import Path
from typing import Any

from open_token.errors import SigningError
from open_token.storage.files import read_if_there


def holds(public: bytes, signature: bytes, data: bytes) -> bool | None:
    """Whether it is a signature of the data; None without the package."""
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


def digest(name: str, data: bytes) -> bytes:
    """The hash of the data."""
    return hashlib.new(name, data).digest()


def private_key(path: str) -> Any:
    """The private key of a file, OpenSSH's form or PEM, without a passphrase."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            load_pem_private_key,
            load_ssh_private_key,
        )
    except ImportError:
        raise SigningError(
            "dsse-ed25519 needs the package cryptography",
            help="install `open-token[sign]`, or sign with the scheme sshsig, which needs ssh-keygen alone",
            code="sign.package",
        ) from None
    raw = read_if_there(Path(path)) or b""
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in raw else load_pem_private_key
    try:
        key = load(raw, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(
            "this is no Ed25519 private key without a passphrase",
            where=path,
            help="the scheme sshsig takes every SSH key, also one with a passphrase or in an agent",
            code="sign.key",
        )
    return key
