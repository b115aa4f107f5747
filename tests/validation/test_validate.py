"""Every check fires on its own breach and on nothing else; no JSON makes the validator fall
over."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import open_token
from helpers.minimal_example import MINIMAL
from open_token.integrity.merkle import MerkleTree
from open_token.jsontools.canonical import hash_document, hash_events
from open_token.validation.validate import CHECKS, Problem, validate, validate_bytes, validate_lines

ROOT = Path(__file__).resolve().parents[2]

Document = dict[str, Any]


def event(number: int, kind: str, actor: int, **more: Any) -> Document:
    made: Document = {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": kind,
        "actor_id": f"act_{actor:03d}",
    }
    return made | {"visibility": "internal"} | more


def text(words: str) -> Document:
    return {"mime": "text/plain", "text": words}


def data(value: Any) -> Document:
    return {"mime": "application/json", "data": value}


def sound() -> Document:
    """A document that uses everything the format has, without a fault."""
    call = {"tool_name": "sum", "arguments": {"a": 1, "b": [2, 3.5]}}
    mark = "[REDACTED:api_key:0a1b2c3d]"
    cut = {
        "mime": "text/plain",
        "text": "start…end",
        "data": {"truncated": True, "original_length": 5000},
    }
    first, second = {"call_id": "call_000001"}, {"call_id": "call_000002", "span_id": "span_000001"}
    return {
        "open_token_version": "0.1",
        "exported_at": "2026-01-31T00:00:00Z",
        "conversation": {
            "id": "conv_20260131_ab12cd34",
            "title": "sums",
            "started_at": "2026-01-30T23:00:00.5+01:00",
            "timezone": "Europe/Berlin",
            "source_runtime": "cli",
            "provider": "other",
            "internal_availability": "available",
            "redaction": {"mode": "secrets", "strategy": "mask", "notes": ["1 api key masked"]},
        },
        "participants": [
            {"actor_id": "act_001", "kind": "system", "name": "system"},
            {"actor_id": "act_002", "kind": "human", "name": "user"},
            {
                "actor_id": "act_003",
                "kind": "model",
                "name": "helper",
                "provider": "other",
                "model": "m",
                "instance_id": "1",
            },
            {"actor_id": "act_004", "kind": "tool", "name": "sum"},
        ],
        "events": [
            event(1, "message", 1, role="system", content=text("Be exact.")),
            event(
                2,
                "message",
                2,
                role="user",
                visibility="public",
                content=text(f"use {mark}"),
                ts="2026-01-30T22:00:01Z",
            ),
            event(
                3,
                "message",
                3,
                role="assistant_thought",
                content=text("Sum it."),
                links={"replies_to": "evt_000002"},
            ),
            event(
                4,
                "tool_use",
                3,
                role="assistant",
                content=data(call),
                links=first,
                usage={"input_tokens": 5},
            ),
            event(5, "tool_result", 4, role="tool", content=cut, links=first),
            event(
                6,
                "annotation",
                4,
                visibility="metadata",
                content=data({"exit": 0}),
                links={"parent_id": "evt_000005"},
            ),
            event(
                7,
                "span_start",
                3,
                content=data({"spawn_reason": "more"}),
                links={"span_id": "span_000001"},
            ),
            event(8, "tool_use", 3, role="assistant", content=data(call), links=second),
            event(
                9,
                "tool_result",
                4,
                role="tool",
                content=data({"missing_result": True}),
                links=second,
            ),
            event(10, "span_end", 3, links={"span_id": "span_000001"}),
            event(11, "message", 3, role="assistant", visibility="public", content=text("Done.")),
        ],
    }


def seal(document: Document) -> Document:
    digest = hash_events(document["events"])
    tree = MerkleTree()
    for item in document["events"]:
        tree.add(rfc8785.dumps(item))
    document["integrity"] = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": digest,
        "c14n": "rfc8785",
        "event_count": len(document["events"]),
        "document_hash": hash_document(document, digest),
        "tree": {
            "alg": "rfc9162-sha256",
            "size": len(document["events"]),
            "root": tree.root().hex(),
        },
        "coercions": [{"seq": 1, "ptr": "/content/data/n", "was": "integer"}],
    }
    return document


def ids(problems: list[Problem]) -> set[str]:
    return {problem.id for problem in problems}


def at(*path: str | int) -> Callable[[Document, Any], None]:
    """Sets the value at a path."""

    def change(document: Document, value: Any) -> None:
        target: Any = document
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


EVENTS = "events"
PEOPLE = sound()["participants"]
DEEP = json.loads("[" * 125 + "]" * 125)

# id, place of the problem, path in the sound document (events counted from 0), value that breaks
# the rule
BREACHES: list[tuple[str, str, tuple[str | int, ...], Any]] = [
    ("OT004", "events[5].content.data.exit", (EVENTS, 5, "content", "data", "exit"), float("nan")),
    ("OT004", "conversation.title[0]", ("conversation", "title"), [float("inf")]),
    ("OT005", "events[10].content.text", (EVENTS, 10, "content", "text"), "half \ud83d"),
    ("OT006", "events[5].content.data" + "[0]" * 124, (EVENTS, 5, "content", "data"), DEEP),
    ("OT007", "events[5].content.data.exit", (EVENTS, 5, "content", "data", "exit"), 2**53),
    ("OT008", "events[5].content.data.exit", (EVENTS, 5, "content", "data", "exit"), (1, 2)),
    ("OT008", "events[5].content.data", (EVENTS, 5, "content", "data"), {1: 2}),
    ("OT102", "open_token_version", ("open_token_version",), "0.2"),
    ("OT102", "open_token_version", ("open_token_version",), 0.1),
    ("OT103", "comment", ("comment",), "hello"),
    ("OT104", "events[4].seq", (EVENTS, 4, "seq"), "5"),
    ("OT104", "events[0].seq", (EVENTS, 0, "seq"), 0),
    ("OT104", "events[3].seq", (EVENTS, 3, "seq"), True),
    ("OT105", "exported_at", ("exported_at",), "2026-01-31T00:00:00+01:00"),
    ("OT105", "exported_at", ("exported_at",), "2026-02-30T00:00:00Z"),
    ("OT106", "conversation", ("conversation",), []),
    ("OT107", "participants", ("participants",), {}),
    ("OT201", "conversation.id", ("conversation", "id"), ""),
    ("OT202", "conversation.title", ("conversation", "title"), 1),
    ("OT202", "conversation.provider", ("conversation", "provider"), None),
    ("OT203", "conversation.started_at", ("conversation", "started_at"), "2026-01-30 23:00"),
    ("OT204", "conversation.source_runtime", ("conversation", "source_runtime"), "unknown"),
    ("OT205", "conversation.provider", ("conversation", "provider"), "unknown"),
    ("OT206", "conversation.internal_availability", ("conversation", "internal_availability"), "maybe"),
    ("OT208", "conversation.redaction", ("conversation", "redaction"), "secrets"),
    ("OT208", "conversation.redaction.mode", ("conversation", "redaction", "mode"), "some"),
    ("OT209", "conversation.redaction.strategy", ("conversation", "redaction", "strategy"), "blur"),
    ("OT210", "conversation.redaction.notes", ("conversation", "redaction", "notes"), "masked"),
    ("OT211", "conversation.mood", ("conversation", "mood"), "good"),
    ("OT212", "events[2].content", ("conversation", "internal_availability"), "unavailable"),
    ("OT302", "participants[4].actor_id", ("participants",), [*PEOPLE, {"actor_id": "5", "kind": "tool", "name": "x"}]),
    ("OT303", "participants[4].actor_id", ("participants",), [*PEOPLE, PEOPLE[3]]),
    ("OT301", "participants[4]", ("participants",), [*PEOPLE, "act_005"]),
    ("OT304", "participants[1].kind", ("participants", 1, "kind"), "person"),
    ("OT305", "participants[1].name", ("participants", 1, "name"), ""),
    ("OT306", "participants[2].model", ("participants", 2, "model"), 4),
    ("OT307", "participants[1].mail", ("participants", 1, "mail"), "x"),
    ("OT402", "events[10].id", (EVENTS, 10, "id"), "event-11"),
    ("OT403", "events[10].id", (EVENTS, 10, "id"), "evt_000001"),
    ("OT404", "events[1].ts", (EVENTS, 1, "ts"), "yesterday"),
    ("OT404", "events[1].ts", (EVENTS, 1, "ts"), "2026-01-30T22:00:01+02:00"),
    ("OT405", "events[10].type", (EVENTS, 10, "type"), "note"),
    ("OT406", "events[10].actor_id", (EVENTS, 10, "actor_id"), 3),
    ("OT407", "events[10].actor_id", (EVENTS, 10, "actor_id"), "act_009"),
    ("OT408", "events[10].visibility", (EVENTS, 10, "visibility"), "secret"),
    ("OT409", "events[0].role", (EVENTS, 0, "role"), "boss"),
    ("OT411", "events[0].role", (EVENTS, 0, "role"), "tool"),
    ("OT412", "events[0].colour", (EVENTS, 0, "colour"), "red"),
    ("OT413", "events[0].role", (EVENTS, 0, "role"), "assistant"),
    ("OT414", "events[2].visibility", (EVENTS, 2, "visibility"), "public"),
    ("OT414", "events[3].visibility", (EVENTS, 3, "visibility"), "public"),
    ("OT421", "events[0].content", (EVENTS, 0, "content"), "Be exact."),
    ("OT422", "events[0].content.html", (EVENTS, 0, "content", "html"), "x"),
    ("OT423", "events[0].content.mime", (EVENTS, 0, "content", "mime"), "text/html"),
    ("OT424", "events[0].content.text", (EVENTS, 0, "content", "text"), ["a"]),
    ("OT425", "events[0].content.mime", (EVENTS, 0, "content", "mime"), "application/json"),
    ("OT426", "events[5].content.mime", (EVENTS, 5, "content", "mime"), "text/plain"),
    ("OT427", "events[0].content", (EVENTS, 0, "content"), {"mime": "text/plain"}),
    ("OT431", "events[3].usage", (EVENTS, 3, "usage"), 7),
    ("OT431", "events[3].usage.input_tokens", (EVENTS, 3, "usage", "input_tokens"), -1),
    ("OT431", "events[3].usage.input_tokens", (EVENTS, 3, "usage", "input_tokens"), True),
    ("OT502", "events[3].content.data.tool_name", (EVENTS, 3, "content", "data", "tool_name"), None),
    ("OT503", "events[3].content.data.arguments", (EVENTS, 3, "content", "data", "arguments"), "a=1"),
    ("OT510", "events[4].content", (EVENTS, 4, "content"), {"mime": "text/plain"}),
    ("OT510", "events[4].content", (EVENTS, 4, "content", "data"), {"exit_code": 1}),
    ("OT511", "events[8].content", (EVENTS, 8, "content", "data", "why"), "stopped"),
    ("OT601", "events[9].links.span_id", (EVENTS, 9, "links"), {}),
    ("OT701", "events[0].links", (EVENTS, 0, "links"), ["evt_000002"]),
    ("OT701", "events[0].links.parent_id", (EVENTS, 0, "links"), {"parent_id": 2}),
    ("OT702", "events[2].links.replies_to", (EVENTS, 2, "links", "replies_to"), "evt_000099"),
    ("OT703", "events[5].links.parent_id", (EVENTS, 5, "links", "parent_id"), "five"),
    ("OT704", "events[5].links.friend", (EVENTS, 5, "links", "friend"), "evt_000001"),
    ("OT801", "events[4].content.data.original_length", (EVENTS, 4, "content", "data", "original_length"), "many"),
    ("OT801", "events[4].content.data.original_length", (EVENTS, 4, "content", "data", "original_length"), 3),
    ("OT801", "events[4].content.text", (EVENTS, 4, "content", "text"), "start end"),
    ("OT802", "events[10].content", (EVENTS, 10, "content", "text"), "key [REDACTED:api_key]"),
    ("OT901", "integrity", ("integrity",), "none"),
    ("OT901", "integrity.events_hash", ("integrity", "events_hash"), None),
    ("OT902", "integrity.hash_alg", ("integrity", "hash_alg"), "md5"),
    ("OT903", "integrity.canonicalization", ("integrity", "canonicalization"), "mine"),
    ("OT903", "integrity.c14n", ("integrity", "c14n"), "olpc"),
    ("OT904", "integrity.events_hash", ("integrity", "events_hash"), "abc"),
    ("OT905", "integrity.events_hash", (EVENTS, 10, "content", "text"), "Done!"),
    ("OT906", "integrity.document_hash", ("conversation", "title"), "other sums"),
    ("OT907", "integrity.event_count", ("integrity", "event_count"), 12),
    ("OT908", "integrity.tree.root", ("integrity", "tree", "root"), "0" * 64),
    ("OT908", "integrity.tree.size", ("integrity", "tree", "size"), 3),
    ("OT908", "integrity.tree.alg", ("integrity", "tree", "alg"), "other"),
    ("OT909", "integrity.coercions", ("integrity", "coercions"), 1),
    ("OT909", "integrity.coercions[0]", ("integrity", "coercions"), [{"seq": 1}]),
    ("OT910", "integrity.signatures", ("integrity", "signatures"), {}),
    ("OT910", "integrity.signatures[0]", ("integrity", "signatures"), [{"scheme": "sshsig", "sig": ""}]),
    ("OT911", "integrity.signatures[0]", ("integrity", "signatures"), [{"scheme": "a", "keyid": "b", "sig": "c"}]),
    ("OT911", "integrity.signatures[0]", ("integrity", "signatures"), [{"scheme": "sshsig", "keyid": "b", "sig": "c"}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "place", "path", "value"),
    BREACHES,
    ids=[f"{row[0]}-{row[1][-40:]}" for row in BREACHES],
)
def test_a_breach_is_found_at_its_place(
    check: str, place: str, path: tuple[str | int, ...], value: Any
) -> None:
    document = seal(sound())
    at(*path)(document, value)
    found = validate(document)
    assert (check, place) in {(problem.id, problem.place) for problem in found}
    for problem in found:
        assert problem.severity == CHECKS[problem.id].severity
        assert problem.help == CHECKS[problem.id].help


def test_a_document_hash_that_was_removed_is_found() -> None:
    document = seal(sound())
    del document["integrity"]["document_hash"]
    assert validate(document) == []
    document["integrity"]["profile"] = "ot-int/1"
    assert [(problem.id, problem.place) for problem in validate(document)] == [
        ("OT906", "integrity.document_hash")
    ]


def test_a_sound_document_has_no_problems() -> None:
    assert validate(sound()) == []
    assert validate(seal(sound())) == []
    assert validate_bytes(json.dumps(seal(sound()), indent=2).encode()) == []
    assert validate_bytes(json.dumps(seal(sound()), ensure_ascii=False).encode() + b"\n") == []


def test_the_minimal_example_has_warnings_only() -> None:
    assert {(problem.id, problem.severity) for problem in validate(json.loads(MINIMAL))} == {
        ("OT204", "warning"),
        ("OT205", "warning"),
    }


def test_the_example_of_the_spec_has_warnings_only() -> None:
    spec = ROOT.parent / "shared" / "spec" / "open-token-0.1.md"
    if not spec.is_file():
        pytest.skip("the spec is not beside this checkout")
    example = re.findall(r"```json\n(.*?)```", spec.read_text(encoding="utf-8"), re.DOTALL)[-1]
    assert ids(validate_bytes(example.encode())) == {"OT204", "OT205"}


@pytest.mark.parametrize("name", ["open_token_version", "conversation", "participants", "events"])
def test_what_must_be_there_is_missed(name: str) -> None:
    document = sound()
    del document[name]
    wanted = {
        "open_token_version": "OT102",
        "conversation": "OT106",
        "participants": "OT107",
        "events": "OT108",
    }
    assert wanted[name] in ids(validate(document))


def test_redaction_may_be_absent_with_a_warning() -> None:
    document = sound()
    del document["conversation"]["redaction"]
    assert ids(validate(document)) == {"OT207"}
    document["conversation"]["redaction"] = {"mode": "none"}
    assert validate(document) == []


def test_roles_may_be_absent_on_spans_and_annotations_only() -> None:
    document = sound()
    del document["events"][0]["role"]
    assert ids(validate(document)) == {"OT410"}


def test_a_gap_in_seq_is_reported_once() -> None:
    document = sound()
    for item in document["events"][5:]:
        item["seq"] += 3
    (problem,) = validate(document)
    assert (problem.id, problem.place) == ("OT104", "events[5].seq")
    assert problem.message == "9 follows 5; 6 was expected"


def test_events_that_step_back_are_found() -> None:
    document = sound()
    document["events"][1], document["events"][0] = document["events"][0], document["events"][1]
    assert [problem.place for problem in validate(document)] == [
        f"events[{n}].seq" for n in (0, 1, 2)
    ]


def only(document: Document, *places: int) -> Document:
    """The document with these events (from 0), numbered anew."""
    document["events"] = [copy.deepcopy(document["events"][place]) for place in places]
    for number, item in enumerate(document["events"], 1):
        item["seq"] = number
    return document


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((0, 3), {"OT506"}),
        ((0, 4, 5), {"OT508"}),
        ((0, 4), {"OT509"}),
        ((0, 4, 3), {"OT507"}),
        ((3, 4, 4), {"OT505", "OT403"}),
        ((3, 3, 4), {"OT504", "OT403"}),
        ((6, 7, 8), {"OT604"}),
        ((6, 9, 6, 9), {"OT602", "OT403"}),
        ((9,), {"OT603"}),
        ((7, 8, 6, 9), {"OT605"}),
        ((6, 9, 7, 8), {"OT606"}),
    ],
)
def test_calls_and_spans(places: tuple[int, ...], expected: set[str]) -> None:
    assert ids(validate(only(sound(), *places))) == expected


def test_a_call_without_an_id_is_found() -> None:
    document = sound()
    document["events"][3]["links"] = {}
    assert ids(validate(document)) == {"OT501", "OT508"}


def test_an_array_is_no_event() -> None:
    document = sound()
    document["events"].append([])
    assert ids(validate(document)) == {"OT401"}


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_an_export_is_an_object(value: Any) -> None:
    assert ids(validate(value)) == {"OT101"}
    assert ids(validate_bytes(json.dumps(value).encode())) == {"OT101"}


# --- bytes ---


@pytest.mark.parametrize(
    ("raw", "check", "place"),
    [
        (b'{"open_token_version": "0.1",}', "OT002", "line 1, column 30"),
        (b"", "OT002", "line 1, column 1"),
        (b'{"a":"\xff"}', "OT001", "line 1, column 7"),
        (b'\xef\xbb\xbf{"open_token_version":"0.1"}', "OT001", "document"),
        (b'{"open_token_version":"0.1","open_token_version":"0.1"}', "OT003", "open_token_version"),
        (b'{"events":[{"content":{"data":NaN}}]}', "OT004", "events[0].content.data"),
        (b'{"events":[{"content":{"data":1e999}}]}', "OT004", "events[0].content.data"),
        (b'{"events":[{"content":{"text":"\\ud800"}}]}', "OT005", "events[0].content.text"),
        (b'{"events":[{"seq":9007199254740993}]}', "OT007", "events[0].seq"),
        (
            b'{"events":[{"content":{"data":123456789012345678901234567890}}]}',
            "OT007",
            "events[0].content.data",
        ),
        (b'{"a":' + b"[" * 128 + b"]" * 128 + b"}", "OT006", "a" + "[0]" * 127),
    ],
)
def test_bytes_are_read_strictly(raw: bytes, check: str, place: str) -> None:
    assert (check, place) in {(problem.id, problem.place) for problem in validate_bytes(raw)}


def flat(item: Document) -> Document:
    return {
        "type": "event",
        "event_type": item["type"],
        **{name: value for name, value in item.items() if name != "type"},
    }


def nested(item: Document) -> Document:
    return {"type": "event", "event": item}


def spread(item: Document) -> Document:
    return item


SHAPES = [flat, nested, spread]


def stream(document: Document, shape: Callable[[Document], Document] = flat) -> list[Document]:
    header = {
        name: value for name, value in document.items() if name not in ("events", "integrity")
    }
    footer = {
        "type": "footer",
        **({"integrity": document["integrity"]} if "integrity" in document else {}),
    }
    return [{"type": "header", **header}, *map(shape, document["events"]), footer]


def raw_of(records: list[Document]) -> bytes:
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_three_line_shapes_are_read(shape: Callable[[Document], Document]) -> None:
    assert validate_bytes(raw_of(stream(seal(sound()), shape))) == []
    document = seal(sound())
    document["events"][10]["content"]["text"] = "Done!"
    assert ids(validate_bytes(raw_of(stream(document, shape)))) == {"OT905", "OT908"}


@pytest.mark.parametrize("shape", SHAPES)
def test_strict_places_in_lines_are_those_of_the_event(
    shape: Callable[[Document], Document],
) -> None:
    lines = raw_of(stream(sound(), shape)).split(b"\n")
    lines[11] = lines[11].replace(b'"Done."', b'"Done.\\ud800"')
    assert ("OT005", "events[10].content.text") in {
        (p.id, p.place) for p in validate_bytes(b"\n".join(lines))
    }


def test_streams_keep_their_order() -> None:
    records = stream(sound())
    assert ids(validate_bytes(raw_of(records[:-1]))) == {"OT015"}
    assert ids(validate_bytes(raw_of(records[1:]))) == {"OT011"}
    assert ids(validate_bytes(raw_of([records[0], *records]))) == {"OT012"}
    assert ids(validate_bytes(raw_of([*records, {"type": "footer"}]))) == {"OT014"}
    assert ids(validate_bytes(raw_of([*records[:-1], {"type": "ping"}, records[-1]]))) == {"OT013"}
    assert ids(
        validate_bytes(raw_of([*records[:-1], {"type": "event", "event": {}, "x": 1}, records[-1]]))
    ) >= {"OT013"}


def test_a_header_as_the_spec_shows_it_is_enough() -> None:
    records = stream(sound())
    records[0] = {
        "type": "header",
        "open_token_version": "0.1",
        "exported_at": "2026-01-31T00:00:00Z",
    }
    assert ids(validate_bytes(raw_of(records))) == {"OT016"}


def test_participants_may_come_with_the_footer() -> None:
    records = stream(sound())
    people = records[0]["participants"]
    records[0]["participants"], records[-1]["participants"] = people[:2], people
    assert validate_bytes(raw_of(records)) == []


def test_a_broken_line_is_named_and_the_rest_is_read() -> None:
    lines = raw_of(stream(sound())).splitlines()
    lines[3] = lines[3][:20]
    lines.insert(1, b"")
    found = validate_lines(lines)
    assert [(p.id, p.place) for p in found if p.id == "OT002"] == [
        ("OT002", "line 2, column 1"),
        ("OT002", "line 5, column 17"),
    ]
    assert "OT104" in ids(found)


def test_half_a_last_line_is_found() -> None:
    raw = raw_of(stream(sound()))[:-20]
    assert ids(validate_bytes(raw)) == {"OT002", "OT015"}


# --- manners ---


def test_messages_never_show_content() -> None:
    secret = "pass" + "word hunter2 " * 3
    document = seal(sound())
    for problem_path in {row[2] for row in BREACHES}:
        broken = copy.deepcopy(document)
        at(*problem_path)(broken, secret)
        assert all("hunter2" not in str(problem) for problem in validate(broken))
    document[secret] = document["events"][0][secret] = document["conversation"][secret] = 1
    assert all("hunter2" not in str(problem) for problem in validate(document))


def test_many_problems_of_one_kind_are_counted() -> None:
    document = sound()
    document["events"] = [
        event(n, "message", 9, role="boss", content=text("x")) for n in range(1, 1001)
    ]
    found = validate(document)
    assert len([problem for problem in found if problem.id == "OT409"]) == 101
    assert Problem("OT409", "error", "", "900 more of this kind", CHECKS["OT409"].help) in found


def test_the_same_document_gives_the_same_problems() -> None:
    document = sound() | {f"key{n}": n for n in range(20)}
    assert [problem.place for problem in validate(document)] == [f"key{n}" for n in range(20)]


def test_the_package_offers_the_function() -> None:
    assert open_token.validate(sound()) == []
    assert open_token.validate(sound()) == []


# Checks that only bytes or whole streams can breach have tests of their own above.
ELSEWHERE = {
    *(
        "OT001",
        "OT002",
        "OT003",
        "OT011",
        "OT012",
        "OT013",
        "OT014",
        "OT015",
        "OT016",
        "OT101",
        "OT108",
        "OT207",
    ),
    *("OT401", "OT410", "OT501", "OT504", "OT505", "OT506", "OT507", "OT508", "OT509"),
    *("OT602", "OT603", "OT604", "OT605", "OT606"),
}


def test_every_check_has_a_breach() -> None:
    assert {row[0] for row in BREACHES} | ELSEWHERE == set(CHECKS)


def test_the_reference_lists_every_check() -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    rows = {
        row[0]: row
        for row in re.findall(
            r"^\| (OT\d{3}) \| (\w+) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE
        )
    }
    for name, check in CHECKS.items():
        assert rows.pop(name) == (
            name,
            check.severity,
            check.title,
            check.why,
            check.help.replace("|", "\\|"),
        )
    assert rows == {}


# --- no JSON makes it fall over ---

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
)
WORDS = st.sampled_from(
    "open_token_version exported_at conversation participants events integrity id seq ts type actor_id visibility role "
    "content links usage mime text data call_id span_id parent_id hash_alg canonicalization events_hash tree redaction "
    "mode notes kind name truncated original_length coercions event event_type".split()
)
VALUES = SCALARS | st.sampled_from(
    "0.1 message tool_use tool_result span_start span_end header event footer call_000001 evt_000001 act_001 assistant "
    "tool text/plain application/json sha256 [REDACTED:x".split()
)
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner),
)


@given(JSON)
def test_any_json_is_judged(value: Any) -> None:
    for problem in validate(value):
        assert problem.id in CHECKS


@given(st.sampled_from([row[2] for row in BREACHES]), JSON)
def test_any_part_may_be_anything(path: tuple[str | int, ...], value: Any) -> None:
    document = seal(sound())
    at(*path)(document, value)
    for problem in validate(document):
        assert problem.id in CHECKS
    raw = json.dumps(document).encode()
    for problem in validate_bytes(raw):
        assert problem.id in CHECKS


@given(st.lists(JSON, max_size=6))
def test_any_lines_are_judged(records: list[Any]) -> None:
    raw = b"\n".join(json.dumps(record).encode() for record in records)
    for problem in validate_bytes(raw) + validate_lines(raw.split(b"\n")):
        assert problem.id in CHECKS


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\n\\u01dE-', max_size=60).map(str.encode))
def test_any_bytes_are_judged(raw: bytes) -> None:
    for problem in validate_bytes(raw):
        assert problem.id in CHECKS
