"""What a signature of an export is made over: an in-toto Statement that anyone can derive from the
export itself."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from open_token.canonical import CanonicalError, document_hash, dumps

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:open-token:export-statement:1"
TREE = "rfc9162-sha256"


def statement(
    head: Mapping[str, Any], integrity: Mapping[str, Any], events_hash: str, size: int, root: str
) -> bytes:
    """The RFC 8785 bytes of the statement; CanonicalError where an export has none.

    The events come in by what was computed of them, never by what integrity says. Number and root
    are always bound, so that an export without its last events is another one; so is all that
    integrity says, but for the signatures."""
    conversation = head.get("conversation")
    name = conversation.get("id") if isinstance(conversation, dict) else None
    if not isinstance(name, str) or not name:
        raise CanonicalError("the conversation has no id")
    rest = {key: value for key, value in head.items() if key not in ("events", "integrity")}
    predicate: dict[str, Any] = {
        "document_hash": document_hash(rest, events_hash),
        "event_count": size,
        "integrity_hash": sha256(dumps(unsigned(integrity))).hexdigest(),
        "tree": {"alg": TREE, "size": size, "root": root},
    }
    if isinstance(source := integrity.get("source"), dict):
        predicate["source"] = {key: source[key] for key in ("alg", "size", "root") if key in source}
    subject = {"name": name, "digest": {"sha256": events_hash}}
    return dumps(
        {"_type": TYPE, "subject": [subject], "predicateType": PREDICATE, "predicate": predicate}
    )


def unsigned(integrity: Mapping[str, Any]) -> dict[str, Any]:
    """What integrity says, without the signatures over it."""
    return {key: value for key, value in integrity.items() if key != "signatures"}
