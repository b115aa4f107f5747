"""The scheme sshsig: the armoured signature that ssh-keygen makes, with the public key inside."""

from base64 import b64decode, b64encode
from typing import Any, NamedTuple

from open_token.signatures import ed25519, keygen
from open_token.signatures.public_keys import fingerprint, raw_ed25519, string, strings
from open_token.signatures.trust import NAMESPACE, Signer

SCHEME = "sshsig"

_MAGIC = b"SSHSIG\x00\x00\x00\x01"
_HEAD, _TAIL = "-----BEGIN SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n"
_WIDTH = 70
_HASHES = (b"sha256", b"sha512")


class Signature(NamedTuple):
    """What stands in the armour."""

    key: bytes
    namespace: bytes
    reserved: bytes
    hash_alg: bytes
    signature: bytes


def sign(statement: bytes, key: str, *, is_alone: bool = False) -> dict[str, str]:
    """An entry of `signatures`, made by ssh-keygen with a key file or with what an agent holds for
    it."""
    armoured = keygen.made_with(key, statement, is_alone=is_alone)
    made = parse(armoured)
    assert made is not None, "ssh-keygen wrote another form than the one that it reads"
    return {"scheme": SCHEME, "keyid": fingerprint(made.key), "sig": armoured}


def parse(armoured: Any) -> Signature | None:
    """The parts of a signature; None when it is not written in just the way in which ssh-keygen
    writes it."""
    if (
        not isinstance(armoured, str)
        or len(armoured) > keygen.LONGEST
        or not armoured.startswith(_HEAD)
    ):
        return None
    try:
        blob = b64decode(
            armoured.removeprefix(_HEAD).removesuffix(_TAIL).replace("\n", ""), validate=True
        )
    except ValueError:
        return None
    parts = strings(blob.removeprefix(_MAGIC)) if blob.startswith(_MAGIC) else None
    if parts is None or len(parts) != 5 or armour(blob) != armoured or not strings(parts[0]):
        return None
    return Signature(*parts)


def armour(blob: bytes) -> str:
    """A signature as text."""
    text = b64encode(blob).decode()
    lines = [text[place : place + _WIDTH] + "\n" for place in range(0, len(text), _WIDTH)]
    return "".join((_HEAD, *lines, _TAIL))


def public_key(entry: dict[str, Any]) -> bytes | None:
    """The key with which an entry says that it was made; None when it is no signature of an
    export."""
    made = parse(entry.get("sig"))
    return made.key if made and made.namespace == NAMESPACE.encode() and not made.reserved else None


def holds(entry: dict[str, Any], statement: bytes) -> bool | None:
    """Whether the entry is a signature of the statement; None when nothing here can tell."""
    try:
        return keygen.holds(entry["sig"], statement)
    except keygen.NoKeygen:
        return _holds_without(entry, statement)


def _holds_without(entry: dict[str, Any], statement: bytes) -> bool | None:
    """The same without ssh-keygen, for Ed25519 keys."""
    made = parse(entry["sig"])
    raw = raw_ed25519(made.key) if made else None
    if made is None or raw is None:
        return None
    kind = strings(made.signature)
    if kind is None or len(kind) != 2 or kind[0] != b"ssh-ed25519" or made.hash_alg not in _HASHES:
        return False
    digest = ed25519.digest(made.hash_alg.decode(), statement)
    signed = b"SSHSIG" + b"".join(
        map(string, (made.namespace, made.reserved, made.hash_alg, digest))
    )
    return ed25519.holds(raw, kind[1], signed)


def is_accepted(signer: Signer, entry: dict[str, Any], statement: bytes) -> bool:
    """Whether the entry is the signer's; ssh-keygen has the last word where it is installed."""
    try:
        return keygen.accepts(signer, entry["sig"], statement)
    except keygen.NoKeygen:
        return True
