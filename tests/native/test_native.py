"""native=full: the source is stored after the events, which stay the same."""

import gzip
import json
from base64 import b64decode
from typing import Any

import pytest

from helpers.native_data import expand_document
from open_token.api import export

LONG = "A sentence that is long enough to be worth a reference."
RECORDS: list[Any] = [
    {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s",
        "cwd": "/work",
        "message": {"role": "user", "content": LONG},
    },
    {
        "type": "user",
        "uuid": "u2",
        "sessionId": "s",
        "cwd": "/work",
        "message": {"role": "user", "content": "more"},
    },
    {"type": "strange", "value": 2**70, "$ref": LONG},
]
DATA = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)
FULL = {"include": "include-internal", "internal": "full", "redact": "none"}


def kept(document: Any) -> list[Any]:
    data = [event["content"].get("data") for event in expand_document(document)["events"]]
    return [item for item in data if isinstance(item, dict) and item.get("kind") == "native"]


def test_the_events_are_the_same_as_without() -> None:
    plain, full = export(DATA, **FULL), export(DATA, native="full", **FULL)
    assert full["events"][: len(plain["events"])] == plain["events"]
    assert all(
        event["visibility"] == "metadata" for event in full["events"][len(plain["events"]) :]
    )


def test_what_is_embedded() -> None:
    (records,) = kept(export(DATA, native="full", **FULL))
    assert (records["record"], records["reader"]) == (1, "claude_code")
    assert records["about"] == {"shape": "lines", "name": "<bytes>"}
    assert records["value"] == RECORDS[0]
    assert records["more"][0] == RECORDS[1]
    assert records["more"][1] == {**RECORDS[2], "value": {"$int": str(2**70)}}


def test_native_data_is_compressed() -> None:
    document = export(DATA, native="full", **FULL)
    data = document["events"][-1]["content"]["data"]
    assert set(data) == {"kind", "reader", "compression", "encoding", "base64"}
    assert LONG not in json.dumps(data)
    assert json.loads(gzip.decompress(b64decode(data["base64"])))["record"] == 1


@pytest.mark.parametrize("mode", ["visible-only", "include-internal"])
def test_hidden_reasoning_stays_hidden(mode: str) -> None:
    block = {
        "type": "thinking",
        "thinking": f"{LONG} Nobody shall read it.",
        "signature": "c2VhbA==",
    }
    answer = {
        "type": "assistant",
        "uuid": "u3",
        "sessionId": "s",
        "message": {"role": "assistant", "content": [block]},
    }
    data = DATA + json.dumps(answer).encode() + b"\n"
    assert "Nobody shall read" not in json.dumps(
        expand_document(export(data, native="full", include=mode))
    )
    assert "Nobody shall read" in json.dumps(expand_document(export(data, native="full", **FULL)))


def test_an_export_of_an_export_is_the_same_again() -> None:
    once = export(DATA, native="full", exported_at="omit", **FULL)
    again = export(json.dumps(once).encode(), native="full", exported_at="omit", **FULL)
    assert again == once


def test_strict_masks_all_of_the_source() -> None:
    """Only the first record of an annotation was masked; what tools gave out stood in those that
    follow."""
    side = "what only the source has"
    records = [
        *RECORDS,
        {"type": "user", "uuid": "u4", "sessionId": "s", "toolUseResult": {"stdout": side}},
    ]
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    assert side in json.dumps(expand_document(export(data, native="full")))
    document = export(data, native="full", redact="strict")
    assert side not in json.dumps(expand_document(document))
    assert [set(item) for item in kept(document)] == [{"kind", "reader", "record", "value"}]
