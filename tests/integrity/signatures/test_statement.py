"""What a signature is made over: derivable by anybody, and another one for every other export."""

import copy
import hashlib
from typing import Any

import pytest
import rfc8785

import open_token
from helpers.signers import CHAT
from open_token.integrity.signatures.statement import build_statement
from open_token.integrity.verify import verify
from open_token.jsontools.canonical import CanonicalError


def root(leaves: list[bytes]) -> bytes:
    """The tree by its definition in RFC 9162."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root(leaves[:split]) + root(leaves[split:])).digest()


def digest(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def as_the_page_says(document: dict[str, Any]) -> bytes:
    """The statement made after docs/reference/integrity.md, with nothing of ours."""
    events, integrity = document["events"], dict(document["integrity"])
    integrity.pop("signatures", None)
    rest = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    predicate: dict[str, Any] = {
        "document_hash": digest({**rest, "events": digest(events)}),
        "event_count": len(events),
        "integrity_hash": digest(integrity),
        "tree": {
            "alg": "rfc9162-sha256",
            "size": len(events),
            "root": root([rfc8785.dumps(e) for e in events]).hex(),
        },
    }
    if "source" in integrity:
        predicate["source"] = {name: integrity["source"][name] for name in ("alg", "size", "root")}
    made = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": document["conversation"]["id"], "digest": {"sha256": digest(events)}}],
        "predicateType": "urn:open-token:export-statement:1",
        "predicate": predicate,
    }
    return rfc8785.dumps(made)


@pytest.mark.parametrize("integrity", ["hash", "tree", "source"])
def test_anyone_can_derive_it(integrity: str) -> None:
    document = open_token.export(CHAT, redact="none", integrity=integrity)
    assert verify(document).statement.encode() == as_the_page_says(dict(document))


def test_signatures_do_not_change_it() -> None:
    document = dict(open_token.export(CHAT, redact="none"))
    plain = verify(document).statement
    document["integrity"] = {**document["integrity"], "signatures": [{"scheme": "other"}]}
    assert verify(document).statement == plain


def test_everything_else_does() -> None:
    document = dict(open_token.export(CHAT, redact="none", integrity="source"))
    seen = {verify(document).statement}

    def other(change: Any) -> None:
        made = copy.deepcopy(document)
        change(made)
        seen.add(verify(made).statement)

    other(lambda made: made["conversation"].update(id="conv_other"))
    other(lambda made: made["participants"].reverse())
    other(lambda made: made["events"].pop())
    other(lambda made: made["integrity"].update(profile="another"))
    other(lambda made: made["integrity"]["source"].update(root="0" * 64))
    other(
        lambda made: made["integrity"].update(coercions=[{"seq": 1, "ptr": "/x", "was": "integer"}])
    )
    assert len(seen) == 7


@pytest.mark.parametrize("conversation", [None, {}, {"id": ""}, {"id": 7}, "conv"])
def test_without_a_conversation_there_is_none(conversation: Any) -> None:
    with pytest.raises(CanonicalError):
        build_statement({"conversation": conversation}, {}, "0" * 64, 0, "0" * 64)


def test_what_readers_round_has_none() -> None:
    document = dict(open_token.export(CHAT, redact="none"))
    document["events"][0]["content"]["data"] = 2**53
    assert verify(document).statement == ""
