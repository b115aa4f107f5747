"""The statement that a signature covers: an in-toto Statement derived from the export itself."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from open_token.jsontools.canonical import CanonicalError, encode_canonical, hash_document

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:open-token:export-statement:1"
TREE = "rfc9162-sha256"


def build_statement(
    head: Mapping[str, Any], integrity: Mapping[str, Any], events_hash: str, size: int, root: str
) -> bytes:
    """Return the RFC 8785 bytes of the statement; raise CanonicalError if there are none.

    `events_hash`, `size` and `root` must be computed from the events, never copied from
    `integrity`. Size and root are always bound, so that an export without its last events does not
    verify. The rest of `integrity`, except the signatures, is bound through its hash.
    """
    conversation = head.get("conversation")
    name = conversation.get("id") if isinstance(conversation, dict) else None
    if not isinstance(name, str) or not name:
        raise CanonicalError("the conversation has no id")
    rest = {key: value for key, value in head.items() if key not in ("events", "integrity")}
    # Signatures are left out, so that a second signer signs the same statement as the first.
    bound_integrity = encode_canonical(without_signatures(integrity))
    predicate: dict[str, Any] = {
        "document_hash": hash_document(rest, events_hash),
        "event_count": size,
        "integrity_hash": sha256(bound_integrity).hexdigest(),
        "tree": {"alg": TREE, "size": size, "root": root},
    }
    source = integrity.get("source")
    if isinstance(source, dict):
        # Already bound by the hash above; here whoever reads the statement alone sees the root.
        predicate["source"] = {key: source[key] for key in ("alg", "size", "root") if key in source}
    statement = {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {"sha256": events_hash}}],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }
    return encode_canonical(statement)


def without_signatures(integrity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the integrity object without its signatures."""
    return {key: value for key, value in integrity.items() if key != "signatures"}
