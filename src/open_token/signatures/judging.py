"""Says of each signature of an export whether it holds, and whether it is by somebody whom the
reader trusts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.signatures import dsse, sshsig
from open_token.signatures.public_keys import fingerprint
from open_token.signatures.trust import Trust

TRUSTED, UNKNOWN, INVALID, UNCHECKED = "trusted", "unknown", "invalid", "unchecked"
_SCHEMES: dict[str, Any] = {sshsig.SCHEME: sshsig, dsse.SCHEME: dsse}
_PARTS = {"scheme", "keyid", "key", "sig"}
MOST = 16
"""How many signatures are looked at: each takes a process, and a file may hold as many as its maker
likes."""


class Judged(NamedTuple):
    """One signature: how it was made, by which key, and what is to be thought of it."""

    scheme: str
    keyid: str
    """The fingerprint of the key, computed anew; empty when there is none."""
    state: str
    by: str = ""
    """Who made it, by the reader's own list."""
    detail: str = ""


def judge(entries: Any, statement: bytes, trust: Trust | None) -> Iterator[Judged]:
    """Each signature in turn. Without a statement, an export that no one can have signed, none of
    them holds."""
    if not isinstance(entries, list):
        yield Judged("", "", INVALID, detail="signatures is not a list")
        return
    for entry in entries[:MOST]:
        yield _judged(entry, statement, trust)
    if len(entries) > MOST:
        yield Judged("", "", UNCHECKED, detail=f"{len(entries) - MOST:,} more were not looked at")


def problem_of(entry: dict[str, Any]) -> str:
    """What is wrong with the form of a signature; empty when it could hold."""
    looked_at = _looked_at(entry)
    return looked_at.detail if isinstance(looked_at, Judged) else ""


def is_one(entry: Any) -> bool:
    """Whether it could be a signature and is nothing beside: what is no signature is not carried
    from file to file."""
    return isinstance(entry, dict) and entry.keys() <= _PARTS and not problem_of(entry)


def holds_more(entries: Any) -> bool:
    """Whether something stands beside the parts of a signature, where anyone can have put it."""
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and entry.keys() - _PARTS for entry in entries
    )


def _looked_at(entry: Any) -> Judged | bytes:
    """The key of a signature, or why it cannot be one."""
    scheme = entry.get("scheme") if isinstance(entry, dict) else None
    if not isinstance(scheme, str):
        return Judged("", "", INVALID, detail="it says no scheme")
    if scheme not in _SCHEMES:
        return Judged(scheme[:40], "", UNCHECKED, detail="this scheme is not known here")
    key: bytes | None = _SCHEMES[scheme].public_key(entry)
    if key is None:
        return Judged(
            scheme, "", INVALID, detail="it is damaged, or made for something else than an export"
        )
    if entry.get("keyid") != fingerprint(key):
        return Judged(scheme, fingerprint(key), INVALID, detail="keyid names another key")
    return key


def _judged(entry: Any, statement: bytes, trust: Trust | None) -> Judged:
    key = _looked_at(entry)
    if isinstance(key, Judged):
        return key
    scheme, name = entry["scheme"], fingerprint(key)
    if not statement:
        return Judged(scheme, name, INVALID, detail="no signature can cover all of this export")
    holds = _SCHEMES[scheme].holds(entry, statement)
    if holds is None:
        return Judged(scheme, name, UNCHECKED, detail=_MISSING[scheme])
    if not holds:
        return Judged(scheme, name, INVALID, detail="this is not what was signed")
    return _by_whom(Judged(scheme, name, UNKNOWN), entry, key, statement, trust)


_MISSING = {
    sshsig.SCHEME: "install OpenSSH: ssh-keygen checks it (for Ed25519 keys `open-token[sign]` will do)",
    dsse.SCHEME: "install `open-token[sign]` to check it",
}


def _by_whom(
    made: Judged, entry: dict[str, Any], key: bytes, statement: bytes, trust: Trust | None
) -> Judged:
    """A key that came with the file proves nothing: it must stand in the reader's own list, and be
    valid there."""
    if trust is None:
        return made
    for signer in trust.signers():
        if signer.key != key:
            continue
        if reason := signer.refusal(trust.now):
            made = made._replace(detail=f"the key of {signer.names[0]}, but {reason}")
            continue
        is_accepted = made.scheme != sshsig.SCHEME or sshsig.is_accepted(signer, entry, statement)
        if is_accepted:
            return made._replace(state=TRUSTED, by=", ".join(signer.names), detail="")
        made = made._replace(
            detail=f"the key of {signer.names[0]}, but ssh-keygen does not accept it"
        )
    return made
