"""native=full: the source stands behind the events, which are told as without it."""

import json
from typing import Any

import pytest

from open_token.library import export

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
    data = [event["content"].get("data") for event in document["events"]]
    return [item for item in data if isinstance(item, dict) and item.get("kind") == "native"]


def test_the_events_are_the_same_as_without() -> None:
    plain, full = export(DATA, **FULL), export(DATA, native="full", **FULL)
    assert full["events"][: len(plain["events"])] == plain["events"]
    assert all(
        event["visibility"] == "metadata" for event in full["events"][len(plain["events"]) :]
    )


def test_what_stands_there() -> None:
    document = export(DATA, native="full", **FULL)
    ref = next(event["id"] for event in document["events"] if event["content"].get("text") == LONG)
    (records,) = kept(document)
    assert (records["record"], records["reader"]) == (1, "claude_code")
    assert records["about"] == {"shape": "lines", "name": "<bytes>"}
    assert records["value"]["message"] == {
        "role": "user",
        "content": {"$ref": f"{ref}#/content/text"},
    }
    assert records["more"][0] == {
        "$like": [0, {"uuid": "u2", "message": {"$in": {"content": "more"}}}]
    }
    assert records["more"][1]["value"] == {"$int": str(2**70)}


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
    assert "Nobody shall read" not in json.dumps(export(data, native="full", include=mode))
    assert "Nobody shall read" in json.dumps(export(data, native="full", **FULL))


def test_an_export_of_an_export_is_the_same_again() -> None:
    once = export(DATA, native="full", exported_at="omit", **FULL)
    again = export(json.dumps(once).encode(), native="full", exported_at="omit", **FULL)
    assert again == once


def test_dropped_branches_leave_no_references_behind() -> None:
    document = export(DATA, native="full", **FULL)
    names = {event["id"] for event in document["events"]}
    for reference in _references(kept(document)):
        assert reference.split("#")[0] in names


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if set(value) == {"$ref"} else []
        return own + [found for item in value.values() for found in _references(item)]
    return (
        [found for item in value for found in _references(item)] if isinstance(value, list) else []
    )


def test_strict_masks_all_of_the_source() -> None:
    """Only the first record of an annotation was masked; what tools gave out stood in those that
    follow."""
    side = "what only the source has"
    records = [
        *RECORDS,
        {"type": "user", "uuid": "u4", "sessionId": "s", "toolUseResult": {"stdout": side}},
    ]
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    assert side in json.dumps(export(data, native="full"))
    document = export(data, native="full", redact="strict")
    assert side not in json.dumps(document)
    assert [set(item) for item in kept(document)] == [{"kind", "reader", "record", "value"}]
