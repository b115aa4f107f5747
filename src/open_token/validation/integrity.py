"""OT901 to OT911: the integrity object, and whether its hashes are those of the export."""

import re
from typing import Any

from open_token.integrity.signatures.results import find_problem
from open_token.integrity.signatures.statement import TREE
from open_token.integrity.strict_reader import ReportProblem
from open_token.integrity.verify import (
    ALGORITHM,
    C14N,
    CANONICALIZATION,
    MISMATCH,
    HashChecker,
    lacks_document_hash,
)
from open_token.jsontools.strict import describe_value
from open_token.validation.findings import Check

CHECKS = {
    "OT901": Check(
        "error",
        "integrity is an object with hash_alg, canonicalization and events_hash",
        "if one of them is missing, nothing can be verified",
        "export again, or omit integrity",
    ),
    "OT902": Check(
        "warning",
        "hash_alg is sha256",
        "the specification defines no other; this program cannot check others",
        "export again with sha256",
    ),
    "OT903": Check(
        "warning",
        "canonicalization is json-c14n-like, and c14n, if present, is rfc8785",
        "another name means other bytes, which this program cannot check",
        "export again, or verify with the program that wrote it",
    ),
    "OT904": Check(
        "error",
        "Hashes are 64 lower-case hex digits",
        "verifiers compare them character by character",
        "write the SHA-256 in lower-case hex",
    ),
    "OT905": Check(
        "error",
        "events_hash is the hash of the events",
        "an event was changed, added, moved or removed after the export, or the hash was computed differently",
        "run `open-token verify`; do not rely on events that cannot be checked",
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
        "tree contains the root and the size of the RFC 9162 tree over the events",
        "proofs about single events depend on it",
        "export again with integrity=tree",
    ),
    "OT909": Check(
        "warning",
        "coercions state a position and the original type of the value",
        "readers restore values with them",
        'write each as {"seq": n, "ptr": "/content/data/...", "was": "integer"}',
    ),
    "OT910": Check(
        "error",
        "signatures is a list of objects with scheme, keyid and sig, as strings",
        "a signature that cannot be parsed proves nothing",
        "sign with `open-token sign`, or omit signatures",
    ),
    "OT911": Check(
        "warning",
        "A signature has the scheme sshsig or dsse-ed25519, in the form of that scheme and of its key",
        "this program cannot check other schemes; `open-token verify` checks whether a signature is valid",
        "sign again with `open-token sign`",
    ),
}

_SIGNATURE_FIELDS = ("scheme", "keyid", "sig")
_HASH = re.compile(r"[0-9a-f]{64}")
_PARTS = {
    "events_hash": "OT905",
    "document_hash": "OT906",
    "event_count": "OT907",
    "tree.root": "OT908",
    "tree.size": "OT908",
}
_MESSAGES = {
    "events_hash": "the events are not those that were hashed",
    "document_hash": "the document around the events is not the one that was hashed",
}


def check_integrity(document: dict[str, Any], hashes: HashChecker, report: ReportProblem) -> None:
    """Check the integrity object, which the spec allows to be absent."""
    if "integrity" not in document:
        return
    integrity = document["integrity"]
    if not isinstance(integrity, dict):
        report("OT901", "integrity", f"{describe_value(integrity)} is not an object")
        return
    _check_keys(integrity, report)
    _check_coercions(integrity.get("coercions", []), report)
    _check_signatures(integrity.get("signatures", []), report)
    if integrity.get("hash_alg") != ALGORITHM:
        return
    if lacks_document_hash(integrity):
        report("OT906", "integrity.document_hash", "it was removed")
    for part in hashes.compare(integrity, document):
        if part.state == MISMATCH:
            message = _MESSAGES.get(part.name, "not what the events give")
            report(_PARTS[part.name], f"integrity.{part.name}", message)


def _check_keys(integrity: dict[str, Any], report: ReportProblem) -> None:
    for name in ("hash_alg", "canonicalization", "events_hash"):
        if not isinstance(integrity.get(name), str):
            report(
                "OT901",
                f"integrity.{name}",
                f"{describe_value(integrity.get(name))} is not a string",
            )
    algorithm = integrity.get("hash_alg")
    if isinstance(algorithm, str) and algorithm != ALGORITHM:
        report("OT902", "integrity.hash_alg", f"{describe_value(algorithm)} cannot be checked")
    for key, expected in (("canonicalization", CANONICALIZATION), ("c14n", C14N)):
        claimed = integrity.get(key)
        if isinstance(claimed, str) and claimed != expected:
            report("OT903", f"integrity.{key}", f"{describe_value(claimed)} is not {expected}")
    for key in ("events_hash", "document_hash"):
        digest = integrity.get(key)
        if isinstance(digest, str) and not _HASH.fullmatch(digest):
            report("OT904", f"integrity.{key}", "not 64 lower-case hex digits")
    tree = integrity.get("tree")
    if isinstance(tree, dict) and tree.get("alg") != TREE:
        report("OT908", "integrity.tree.alg", f"{describe_value(tree.get('alg'))} is not {TREE}")


def _check_coercions(coercions: Any, report: ReportProblem) -> None:
    if not isinstance(coercions, list):
        report("OT909", "integrity.coercions", f"{describe_value(coercions)} is not an array")
        return
    for number, item in enumerate(coercions):
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("ptr"), str)
            or not isinstance(item.get("was"), str)
        ):
            report("OT909", f"integrity.coercions[{number}]", "no ptr or no was")


def _check_signatures(signatures: Any, report: ReportProblem) -> None:
    """Their form only: to check what they say takes a statement and another program."""
    if not isinstance(signatures, list):
        report("OT910", "integrity.signatures", f"{describe_value(signatures)} is not an array")
        return
    for number, item in enumerate(signatures):
        place = f"integrity.signatures[{number}]"
        if not isinstance(item, dict) or not all(
            isinstance(item.get(part), str) for part in _SIGNATURE_FIELDS
        ):
            report("OT910", place, "no scheme, no keyid or no sig")
        elif problem := find_problem(item):
            report("OT911", place, problem)
