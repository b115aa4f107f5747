"""Check the signatures of an export and match them with the keys that the reader trusts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.integrity.signatures import dsse, sshsig
from open_token.integrity.signatures.keys import compute_fingerprint
from open_token.integrity.signatures.trust import Signer, Trust

TRUSTED = "trusted"
UNKNOWN = "unknown"
INVALID = "invalid"
UNCHECKED = "unchecked"

# Checking a signature takes a process, and a file may hold any number of them.
MAX_SIGNATURES = 16

_SCHEMES: dict[str, Any] = {sshsig.SCHEME: sshsig, dsse.SCHEME: dsse}
_FIELDS = {"scheme", "keyid", "key", "sig"}
_MISSING_TOOL = {
    sshsig.SCHEME: "install OpenSSH to check it with ssh-keygen (`open-token-cli[sign]` suffices for Ed25519 keys)",
    dsse.SCHEME: "install `open-token-cli[sign]` to check it",
}


class SignatureResult(NamedTuple):
    """The result for one signature.

    `keyid` is the recomputed fingerprint of the key, or empty; `by` is the signer's name in the
    reader's own list.
    """

    scheme: str
    keyid: str
    state: str
    by: str = ""
    detail: str = ""


def check_signatures(
    entries: Any, statement: bytes, trust: Trust | None
) -> Iterator[SignatureResult]:
    """Yield a result for each signature; with an empty statement none of them is valid."""
    if not isinstance(entries, list):
        yield SignatureResult("", "", INVALID, detail="signatures is not a list")
        return
    for entry in entries[:MAX_SIGNATURES]:
        yield _check_entry(entry, statement, trust)
    ignored = len(entries) - MAX_SIGNATURES
    if ignored > 0:
        yield SignatureResult("", "", UNCHECKED, detail=f"{ignored:,} more were not checked")


def find_problem(entry: dict[str, Any]) -> str:
    """Return what is wrong with the form of a signature; empty if it may be valid."""
    key = _read_key(entry)
    return key.detail if isinstance(key, SignatureResult) else ""


def is_plain_signature(entry: Any) -> bool:
    """Return whether an entry has the form of a signature and no other fields."""
    return isinstance(entry, dict) and entry.keys() <= _FIELDS and not find_problem(entry)


def has_unsigned_fields(entries: Any) -> bool:
    """Return whether an entry has fields besides those of a signature; anyone can add those."""
    if not isinstance(entries, list):
        return False
    return any(isinstance(entry, dict) and entry.keys() - _FIELDS for entry in entries)


def _read_key(entry: Any) -> SignatureResult | bytes:
    """Return the key of a signature, or the result if it cannot be valid."""
    scheme = entry.get("scheme") if isinstance(entry, dict) else None
    if not isinstance(scheme, str):
        return SignatureResult("", "", INVALID, detail="it has no scheme")
    if scheme not in _SCHEMES:
        return SignatureResult(scheme[:40], "", UNCHECKED, detail="unknown scheme")
    key: bytes | None = _SCHEMES[scheme].read_public_key(entry)
    if key is None:
        detail = "it is malformed, or made for something other than an export"
        return SignatureResult(scheme, "", INVALID, detail=detail)
    keyid = compute_fingerprint(key)
    if entry.get("keyid") != keyid:
        return SignatureResult(scheme, keyid, INVALID, detail="keyid names another key")
    return key


def _check_entry(entry: Any, statement: bytes, trust: Trust | None) -> SignatureResult:
    key = _read_key(entry)
    if isinstance(key, SignatureResult):
        return key
    scheme = entry["scheme"]
    keyid = compute_fingerprint(key)
    if not statement:
        detail = "no signature can cover all of this export"
        return SignatureResult(scheme, keyid, INVALID, detail=detail)
    is_valid = _SCHEMES[scheme].check_signature(entry, statement)
    if is_valid is None:
        return SignatureResult(scheme, keyid, UNCHECKED, detail=_MISSING_TOOL[scheme])
    if not is_valid:
        return SignatureResult(scheme, keyid, INVALID, detail="it does not match this export")
    result = SignatureResult(scheme, keyid, UNKNOWN)
    return _identify_signer(result, entry, key, statement, trust)


def _identify_signer(
    result: SignatureResult,
    entry: dict[str, Any],
    key: bytes,
    statement: bytes,
    trust: Trust | None,
) -> SignatureResult:
    """Look the key up in the reader's own list: a key that comes with the file proves nothing."""
    if trust is None:
        return result
    for signer in trust.signers():
        if signer.key != key:
            continue
        reason = signer.refusal(trust.now)
        if not reason and not _is_accepted(signer, entry, statement):
            reason = "ssh-keygen does not accept it"
        if not reason:
            return result._replace(state=TRUSTED, by=", ".join(signer.names), detail="")
        result = result._replace(detail=f"the key of {signer.names[0]}, but {reason}")
    return result


def _is_accepted(signer: Signer, entry: dict[str, Any], statement: bytes) -> bool:
    if entry["scheme"] != sshsig.SCHEME:
        return True
    return sshsig.is_accepted_for(signer, entry, statement)
