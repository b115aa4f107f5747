"""OT901 to OT911: the integrity object, and whether its hashes are those of the export."""

import re
from typing import Any

from open_token.checking._findings import Add, Check, shown
from open_token.checking._reckoning import ALGORITHM, C14N, CANONICALIZATION, MISMATCH, Reckoning
from open_token.signatures.judging import problem_of
from open_token.signatures.statement import TREE

CHECKS = {
    "OT901": Check(
        "error",
        "integrity is an object with hash_alg, canonicalization and events_hash",
        "with one of them missing nothing can be verified",
        "export again, or leave integrity out",
    ),
    "OT902": Check(
        "warning",
        "hash_alg is sha256",
        "the spec names no other; this program cannot check another",
        "export again with sha256",
    ),
    "OT903": Check(
        "warning",
        "canonicalization is json-c14n-like, and c14n is rfc8785 where it is given",
        "another name means other bytes, which this program cannot check",
        "export again, or verify with the program that wrote it",
    ),
    "OT904": Check(
        "error",
        "Hashes are 64 lower-case hex digits",
        "verifiers compare them letter by letter",
        "write the SHA-256 in lower-case hex",
    ),
    "OT905": Check(
        "error",
        "events_hash is the hash of the events",
        "an event was changed, added, moved or removed after the export, or the hash was made in another way",
        "run `open-token verify`; trust the file no further than its events can be checked",
    ),
    "OT906": Check(
        "error",
        "document_hash is the hash of the rest of the document",
        "conversation, participants or exported_at were changed after the export",
        "run `open-token verify`; compare the file with its original",
    ),
    "OT907": Check(
        "error",
        "event_count is the number of events",
        "events were added or removed after the export",
        "compare the file with its original",
    ),
    "OT908": Check(
        "error",
        "tree holds the root and the size of the RFC 9162 tree over the events",
        "proofs about single events rest on it",
        "export again with integrity=tree",
    ),
    "OT909": Check(
        "warning",
        "coercions tell a place and what the value was",
        "a reader restores values by them",
        'write each as {"seq": n, "ptr": "/content/data/...", "was": "integer"}',
    ),
    "OT910": Check(
        "error",
        "signatures is a list of objects with scheme, keyid and sig, as strings",
        "a signature that nobody can read vouches for nothing",
        "sign with `open-token sign`, or leave signatures out",
    ),
    "OT911": Check(
        "warning",
        "A signature is of the scheme sshsig or dsse-ed25519, in the form of that scheme and of the key it names",
        "this program cannot check another; whether a signature holds is for `open-token verify` to say",
        "sign again with `open-token sign`",
    ),
}

_OF_A_SIGNATURE = ("scheme", "keyid", "sig")
_HASH = re.compile(r"[0-9a-f]{64}")
_PARTS = {
    "events_hash": "OT905",
    "document_hash": "OT906",
    "event_count": "OT907",
    "tree.root": "OT908",
    "tree.size": "OT908",
}
_SAYINGS = {
    "events_hash": "the events are not those that were hashed",
    "document_hash": "the document around the events is not the one that was hashed",
}


def check_integrity(document: dict[str, Any], reckoning: Reckoning, add: Add) -> None:
    """Only where there is one; the spec lets it be left out."""
    if "integrity" not in document:
        return
    integrity = document["integrity"]
    if not isinstance(integrity, dict):
        add("OT901", "integrity", f"{shown(integrity)} is not an object")
        return
    _check_keys(integrity, add)
    _check_coercions(integrity.get("coercions", []), add)
    _check_signatures(integrity.get("signatures", []), add)
    if integrity.get("hash_alg") != ALGORITHM:
        return
    for part in reckoning.compare(integrity, document):
        if part.state == MISMATCH:
            saying = _SAYINGS.get(part.name, "not what the events give")
            add(_PARTS[part.name], f"integrity.{part.name}", saying)


def _check_keys(integrity: dict[str, Any], add: Add) -> None:
    for name in ("hash_alg", "canonicalization", "events_hash"):
        if not isinstance(integrity.get(name), str):
            add("OT901", f"integrity.{name}", f"{shown(integrity.get(name))} is not a string")
    if isinstance(said := integrity.get("hash_alg"), str) and said != ALGORITHM:
        add("OT902", "integrity.hash_alg", f"{shown(said)} cannot be checked")
    for key, usual in (("canonicalization", CANONICALIZATION), ("c14n", C14N)):
        if isinstance(said := integrity.get(key), str) and said != usual:
            add("OT903", f"integrity.{key}", f"{shown(said)} is not {usual}")
    for key in ("events_hash", "document_hash"):
        if isinstance(digest := integrity.get(key), str) and not _HASH.fullmatch(digest):
            add("OT904", f"integrity.{key}", "not 64 lower-case hex digits")
    if isinstance(tree := integrity.get("tree"), dict) and tree.get("alg") != TREE:
        add("OT908", "integrity.tree.alg", f"{shown(tree.get('alg'))} is not {TREE}")


def _check_coercions(coercions: Any, add: Add) -> None:
    if not isinstance(coercions, list):
        add("OT909", "integrity.coercions", f"{shown(coercions)} is not an array")
        return
    for number, item in enumerate(coercions):
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("ptr"), str)
            or not isinstance(item.get("was"), str)
        ):
            add("OT909", f"integrity.coercions[{number}]", "no ptr or no was")


def _check_signatures(signatures: Any, add: Add) -> None:
    """Their form only: to check what they say takes a statement and another program."""
    if not isinstance(signatures, list):
        add("OT910", "integrity.signatures", f"{shown(signatures)} is not an array")
        return
    for number, item in enumerate(signatures):
        place = f"integrity.signatures[{number}]"
        if not isinstance(item, dict) or not all(
            isinstance(item.get(part), str) for part in _OF_A_SIGNATURE
        ):
            add("OT910", place, "no scheme, no keyid or no sig")
        elif problem := problem_of(item):
            add("OT911", place, problem)
