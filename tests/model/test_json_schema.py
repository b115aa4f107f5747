"""The schemas are schemas, take what is right and refuse what is wrong."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from open_token.model.json_schema import build_document_schema, build_record_schema

ROOT = Path(__file__).resolve().parents[2]

Document = dict[str, Any]
DOCUMENT = jsonschema.Draft202012Validator(build_document_schema())
RECORD = jsonschema.Draft202012Validator(build_record_schema())


def message(number: int, role: str, words: str) -> Document:
    return {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": role,
        "content": {"mime": "text/plain", "text": words},
    }


def minimal() -> Document:
    return {
        "open_token_version": "0.1",
        "conversation": {"id": "conv_20260131_ab12cd34", "provider": "unknown"},
        "participants": [{"actor_id": "act_001", "kind": "human", "name": "user"}],
        "events": [message(1, "user", "hello")],
    }


def larger() -> Document:
    document = minimal()
    call = {"tool_name": "sum", "arguments": [1, 2]}
    document["exported_at"] = "2026-01-31T00:00:00.123Z"
    document["conversation"] |= {
        "started_at": "2026-01-31T00:00:00+01:00",
        "redaction": {"mode": "pii", "strategy": "mask", "notes": []},
    }
    use = {**message(2, "assistant", ""), "type": "tool_use", "links": {"call_id": "call_000001"}}
    use["content"] = {"mime": "application/json", "data": call}
    result = {**message(3, "tool", "3"), "type": "tool_result", "links": {"call_id": "call_000001"}}
    result["content"]["data"] = {"truncated": True, "original_length": 9000}
    start = {
        **message(4, "assistant", ""),
        "type": "span_start",
        "links": {"span_id": "span_000001"},
    }
    end = {**start, "id": "evt_000005", "seq": 5, "type": "span_end"}
    note = {
        **message(6, "user", ""),
        "type": "annotation",
        "visibility": "metadata",
        "usage": {"cache_read_tokens": 3},
    }
    for event in (start, end, note):
        del event["role"], event["content"]
    document["events"] += [use, result, start, end, note]
    document["integrity"] = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": "0" * 64,
        "event_count": 6,
        "tree": {"alg": "rfc9162-sha256", "size": 6, "root": "f" * 64},
        "coercions": [{"seq": 2, "ptr": "/content/data/arguments/0", "was": "integer"}],
    }
    return document


def lines(document: Document) -> list[Document]:
    header = {
        name: value for name, value in document.items() if name not in ("events", "integrity")
    }
    events = [
        {**event, "type": "event", "event_type": event["type"]} for event in document["events"]
    ]
    return [
        {"type": "header", **header},
        *events,
        {"type": "footer", "integrity": document["integrity"]},
    ]


@pytest.mark.parametrize(
    "schema", [build_document_schema(), build_record_schema()], ids=["document", "record"]
)
def test_the_schema_is_a_schema(schema: Document) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$id"]
    assert schema["title"]
    assert json.loads(json.dumps(schema)) == schema


def test_every_field_is_described() -> None:
    for definition in build_document_schema()["$defs"].values():
        assert definition["title"]
        assert definition["description"]
        for field in definition["properties"].values():
            assert "description" in field or "$ref" in field


def test_right_documents_pass() -> None:
    DOCUMENT.validate(minimal())
    DOCUMENT.validate(larger())
    for line in lines(larger()):
        RECORD.validate(line)


def test_a_header_as_the_spec_shows_it_passes() -> None:
    RECORD.validate(
        {"type": "header", "open_token_version": "0.1", "exported_at": "2026-01-31T00:00:00Z"}
    )
    RECORD.validate({"type": "footer"})


def test_the_example_of_the_spec_passes() -> None:
    spec = ROOT.parent / "shared" / "spec" / "open-token-0.1.md"
    if not spec.is_file():
        pytest.skip("the spec is not beside this checkout")
    DOCUMENT.validate(
        json.loads(spec.read_text(encoding="utf-8").split("```json\n")[-1].partition("```")[0])
    )


BREACHES: list[Callable[[Document], Any]] = [
    lambda d: d.update(extra=1),
    lambda d: d.update(open_token_version="0.2"),
    lambda d: d.update(exported_at="2026-01-31"),
    lambda d: d.pop("conversation"),
    lambda d: d["conversation"].pop("id"),
    lambda d: d["conversation"]["redaction"].pop("notes"),
    lambda d: d["conversation"]["redaction"].update(mode="all"),
    lambda d: d["participants"][0].update(kind="person"),
    lambda d: d["participants"][0].update(actor_id="1"),
    lambda d: d["events"][0].update(seq=0),
    lambda d: d["events"][0].update(id="1"),
    lambda d: d["events"][0].update(ts="now"),
    lambda d: d["events"][0].update(type="note"),
    lambda d: d["events"][0].update(role="tool"),
    lambda d: d["events"][0].pop("role"),
    lambda d: d["events"][0].pop("content"),
    lambda d: d["events"][0].pop("visibility"),
    lambda d: d["events"][0]["content"].update(html=""),
    lambda d: d["events"][0]["content"].pop("mime"),
    lambda d: d["events"][0].update(usage={"input_tokens": -1}),
    lambda d: d["events"][1]["content"]["data"].update(arguments="x"),
    lambda d: d["events"][1]["content"]["data"].pop("tool_name"),
    lambda d: d["events"][1].pop("links"),
    lambda d: d["events"][1].update(role="user"),
    lambda d: d["events"][2].update(content={"mime": "text/plain"}),
    lambda d: d["events"][3].update(links={}),
    lambda d: d["integrity"].update(events_hash="abc"),
    lambda d: d["integrity"].pop("hash_alg"),
    lambda d: d["integrity"]["tree"].pop("root"),
]


@pytest.mark.parametrize("breach", BREACHES)
def test_wrong_documents_do_not_pass(breach: Callable[[Document], Any]) -> None:
    document = larger()
    breach(document)
    assert not DOCUMENT.is_valid(document)
    if "conversation" in document:
        assert not all(RECORD.is_valid(line) for line in lines(document))


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"type": "ping"},
        {"type": "event"},
        {"type": "header"},
        {"type": "footer", "events": []},
        [],
        "x",
    ],
)
def test_wrong_records_do_not_pass(line: Any) -> None:
    assert not RECORD.is_valid(line)


def test_nobody_can_change_the_schema_of_another() -> None:
    before = copy.deepcopy(build_document_schema())
    build_document_schema()["$defs"]["usage"]["properties"]["input_tokens"]["minimum"] = 5
    assert build_document_schema() == before
