"""The signature scheme sshsig: armored SSH signatures, made and checked by ssh-keygen.

ssh-keygen runs with fixed arguments and a time limit. Data is passed through pipes only, and its
output is not shown, except for one line when it refuses a key.
"""

import hashlib
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from open_token.errors import SigningError
from open_token.integrity.signatures.keys import (
    compute_fingerprint,
    encode_ssh_string,
    parse_ssh_strings,
    to_raw_ed25519,
    verify_ed25519,
)
from open_token.integrity.signatures.trust import NAMESPACE, Signer

SCHEME = "sshsig"
# A signature must fit into a pipe that nobody reads yet.
MAX_SIGNATURE = 16384

_COMMAND = "ssh-keygen"
_SIGN_TIMEOUT = 180
_CHECK_TIMEOUT = 60
_MAX_PRINCIPALS = 8

_MAGIC = b"SSHSIG\x00\x00\x00\x01"
_BEGIN = "-----BEGIN SSH SIGNATURE-----\n"
_END = "-----END SSH SIGNATURE-----\n"
_LINE_WIDTH = 70
_HASH_ALGORITHMS = (b"sha256", b"sha512")


class Signature(NamedTuple):
    """The fields of an SSH signature blob."""

    key: bytes
    namespace: bytes
    reserved: bytes
    hash_alg: bytes
    signature: bytes


class KeygenMissing(Exception):
    """ssh-keygen is not installed or cannot be run."""


def sign(statement: bytes, key: str, *, is_alone: bool = False) -> dict[str, str]:
    """Sign a statement with a key file or ssh-agent and return the entry for `signatures`."""
    armored = sign_with_keygen(key, statement, is_alone=is_alone)
    signature = parse_armored(armored)
    assert signature is not None, "ssh-keygen wrote a signature that it would not accept"
    return {"scheme": SCHEME, "keyid": compute_fingerprint(signature.key), "sig": armored}


def parse_armored(armored: Any) -> Signature | None:
    """Parse an armored signature; None unless it is written exactly as ssh-keygen writes it."""
    if not isinstance(armored, str) or len(armored) > MAX_SIGNATURE:
        return None
    if not armored.startswith(_BEGIN):
        return None
    body = armored.removeprefix(_BEGIN).removesuffix(_END).replace("\n", "")
    try:
        blob = b64decode(body, validate=True)
    except ValueError:
        return None
    # Only one spelling is accepted, so that a signature cannot be altered and stay valid.
    if not blob.startswith(_MAGIC) or format_armored(blob) != armored:
        return None
    parts = parse_ssh_strings(blob.removeprefix(_MAGIC))
    if parts is None or len(parts) != 5 or not parse_ssh_strings(parts[0]):
        return None
    return Signature(*parts)


def format_armored(blob: bytes) -> str:
    """Return a signature blob as armored text."""
    text = b64encode(blob).decode()
    parts = [_BEGIN]
    for start in range(0, len(text), _LINE_WIDTH):
        parts.append(text[start : start + _LINE_WIDTH])
        parts.append("\n")
    parts.append(_END)
    return "".join(parts)


def read_public_key(entry: dict[str, Any]) -> bytes | None:
    """Return the key inside an entry, or None if it is not a signature of an export."""
    signature = parse_armored(entry.get("sig"))
    if signature is None or signature.reserved or signature.namespace != NAMESPACE.encode():
        return None
    return signature.key


def check_signature(entry: dict[str, Any], statement: bytes) -> bool | None:
    """Return whether an entry signs the statement; None if it cannot be checked here."""
    try:
        return check_with_keygen(entry["sig"], statement)
    except KeygenMissing:
        return _check_without_keygen(entry, statement)


def _check_without_keygen(entry: dict[str, Any], statement: bytes) -> bool | None:
    """Check an Ed25519 signature in Python; None for other key types."""
    signature = parse_armored(entry["sig"])
    raw_key = to_raw_ed25519(signature.key) if signature else None
    if signature is None or raw_key is None:
        return None
    if signature.hash_alg not in _HASH_ALGORITHMS:
        return False
    parts = parse_ssh_strings(signature.signature)
    if parts is None or len(parts) != 2 or parts[0] != b"ssh-ed25519":
        return False
    digest = hashlib.new(signature.hash_alg.decode(), statement).digest()
    fields = (signature.namespace, signature.reserved, signature.hash_alg, digest)
    signed_data = b"SSHSIG" + b"".join(map(encode_ssh_string, fields))
    return verify_ed25519(raw_key, parts[1], signed_data)


def is_accepted_for(signer: Signer, entry: dict[str, Any], statement: bytes) -> bool:
    """Return whether ssh-keygen accepts an entry as the signer's, where it is installed."""
    try:
        return accepts_signer(signer, entry["sig"], statement)
    except KeygenMissing:
        return True


def require_keygen() -> None:
    """Raise SigningError if ssh-keygen is not installed."""
    if shutil.which(_COMMAND) is None:
        raise _keygen_missing_error()


def _keygen_missing_error() -> SigningError:
    return SigningError(
        "ssh-keygen is not installed",
        help="install OpenSSH, or sign with an Ed25519 key and the scheme dsse-ed25519",
        code="sign.tool",
    )


def sign_with_keygen(key: str, statement: bytes, *, is_alone: bool = False) -> str:
    """Return the armored signature of a statement.

    `key` is a private key file, or the public key of one that ssh-agent holds. With `is_alone`,
    nobody is asked for a passphrase, so a key that needs one cannot sign.
    """
    arguments = ["sign", "-n", NAMESPACE, "-f", key]
    try:
        result = _run_keygen(arguments, statement, (), _SIGN_TIMEOUT, is_alone)
    except KeygenMissing:
        raise _keygen_missing_error() from None
    except subprocess.TimeoutExpired:
        raise SigningError(
            "timed out waiting for the key",
            where=key,
            help="unlock the key, or touch it if it asks for that; nothing was written",
            code="sign.key",
        ) from None
    if result.returncode and b"UNPROTECTED PRIVATE KEY" in result.stderr:
        raise SigningError(
            "permissions on this key file are too open; ssh-keygen refuses to use it",
            where=key,
            help="restrict it with chmod 600, and consider who may have read it",
            code="sign.key",
        )
    if result.returncode:
        raise SigningError(
            f"this key cannot sign: {_read_last_line(result.stderr)}",
            where=key,
            help="give a private SSH key, or the .pub file of a key that ssh-agent holds",
            code="sign.key",
        )
    return result.stdout.decode("ascii", "replace")


def check_with_keygen(armored: str, statement: bytes) -> bool:
    """Return whether a signature is valid for the statement, whatever key it names."""
    with _open_pipes(armored.encode()) as (signature,):
        arguments = ["check-novalidate", "-n", NAMESPACE, "-s", _descriptor_path(signature)]
        return _keygen_succeeds(arguments, statement, (signature,))


def accepts_signer(signer: Signer, armored: str, statement: bytes) -> bool:
    """Return whether ssh-keygen accepts a signature under one of the signer's first names."""
    for name in signer.names[:_MAX_PRINCIPALS]:
        with _open_pipes(armored.encode(), signer.line.encode()) as (signature, allowed):
            arguments = ["verify", "-n", NAMESPACE, "-s", _descriptor_path(signature)]
            arguments += ["-f", _descriptor_path(allowed), "-I", name]
            if _keygen_succeeds(arguments, statement, (signature, allowed)):
                return True
    return False


def _keygen_succeeds(arguments: list[str], statement: bytes, pipes: Iterable[int]) -> bool:
    try:
        return _run_keygen(arguments, statement, pipes, _CHECK_TIMEOUT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _run_keygen(
    arguments: list[str], data: bytes, pipes: Iterable[int], seconds: int, is_alone: bool = True
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [_COMMAND, "-Y", *arguments],
            input=data,
            capture_output=True,
            pass_fds=tuple(pipes),
            timeout=seconds,
            # A new session has no terminal, so ssh-keygen cannot prompt.
            start_new_session=is_alone,
        )
    except OSError:
        raise KeygenMissing from None


@contextmanager
def _open_pipes(*texts: bytes) -> Iterator[list[int]]:
    """Yield descriptors from which the texts can be read, so that nothing is written to disk."""
    with ExitStack() as stack:
        readers = []
        for text in texts:
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            with os.fdopen(writer, "wb") as out:
                out.write(text)
            readers.append(reader)
        yield readers


def _descriptor_path(descriptor: int) -> str:
    return f"/dev/fd/{descriptor}"


def _read_last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return "ssh-keygen gives no reason"
    return lines[-1][:200]
