"""Compressed native annotations: passes see them plain, and only whole ones are trusted."""

import gzip
import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from helpers.native_data import expand_document
from open_token.api import export
from open_token.model.document import Event, Record
from open_token.native.compression import (
    ExpansionError,
    ExpansionLimit,
    compress_data,
    compress_native,
    expand_data,
    expand_event,
)

PLAIN = {
    "kind": "native",
    "reader": "x",
    "file": "a.jsonl",
    "record": 1,
    "value": {"b": 1, "a": "ä"},
    "more": [{"$int": "7"}],
}


def annotation(data: Any) -> Event:
    return {
        "id": "evt_000001",
        "type": "annotation",
        "content": {"mime": "application/json", "data": data},
    }


def test_there_and_back() -> None:
    packed = compress_data(PLAIN)
    assert json.dumps(expand_data(packed)) == json.dumps(PLAIN)


def test_the_same_input_gives_the_same_bytes_without_time_or_system() -> None:
    raw = b64decode(compress_data(PLAIN)["base64"])
    assert raw == b64decode(compress_data(dict(PLAIN))["base64"])
    assert raw[:10] == bytes.fromhex("1f8b08000000000000ff")
    assert json.loads(gzip.decompress(raw))["value"] == PLAIN["value"]


def damaged() -> list[dict[str, Any]]:
    whole = compress_data(PLAIN)
    raw = b64decode(whole["base64"])
    changed = [
        raw[:-1],
        raw + b"more",
        raw + raw,
        raw[:40] + b"\0" + raw[41:],
        gzip.compress(b"[1]"),
        gzip.compress(b"{}"),
        gzip.compress(b"no json"),
    ]
    return [
        *({**whole, "base64": b64encode(item).decode()} for item in changed),
        {**whole, "base64": "*" + whole["base64"]},
        {**whole, "base64": 7},
        {**whole, "compression": "zip"},
    ]


@pytest.mark.parametrize("data", damaged())
def test_damaged_data_is_dropped_since_no_pass_can_see_into_it(data: dict[str, Any]) -> None:
    assert expand_data(data) is None
    left = expand_event(annotation(data))["content"]["data"]
    assert left == {"kind": "native", "reader": "x", "damaged": True}


def test_other_events_stay_as_they_are() -> None:
    for data in ("text", None, {"kind": "native"}, {"kind": "other", "base64": "x"}):
        event = annotation(data)
        assert expand_event(event) is event


def test_the_limit_counts_what_all_events_expand_to() -> None:
    packed = compress_data({**PLAIN, "value": "x" * 1000})
    limit = ExpansionLimit(2500)
    assert expand_data(packed, limit)
    assert expand_data(packed, limit)
    with pytest.raises(ExpansionError):
        expand_data(packed, limit)


def test_the_check_after_redaction_sees_plain_values() -> None:
    seen: list[bytes] = []
    record = Record({"id": "c"}, [], [annotation(PLAIN)])
    (event,) = compress_native(record, lambda events, lines: seen.append(lines)).events
    assert "value" not in event["content"]["data"]
    assert json.loads(seen[0])["content"]["data"] == PLAIN


def test_an_export_that_is_exported_again_is_redacted_inside() -> None:
    secret = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
    record = {
        "type": "user",
        "uuid": "u",
        "sessionId": "s",
        "slug": secret,
        "message": {"role": "user", "content": "x"},
    }
    once = export(json.dumps(record).encode() + b"\n", native="full", redact="none")
    assert secret in json.dumps(expand_document(once))
    again = export(json.dumps(once).encode(), redact="secrets")
    assert secret not in json.dumps(expand_document(again))
    assert "[REDACTED:" in json.dumps(expand_document(again))
