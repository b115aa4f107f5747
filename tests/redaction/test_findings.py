"""Lists of findings say rule, places and context, but no values."""

import json
from typing import Any

from open_token.context import AllowEntry, Context, RedactionOverrides
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.findings import (
    compute_allow_hash,
    list_record_findings,
    list_text_findings,
    to_json,
)
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.text_stream import redact_text
from open_token.redaction.user_detector import hash_value

KEY = bytes(range(32))
GITHUB = fill_placeholders("ghp_{alnum:36}", "findings")[0]
OTHER = fill_placeholders("ghp_{alnum:36}", "another")[0]
PASSWORD = fill_placeholders("{pass:14}", "findings")[0]
PEM = fill_placeholders(
    "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----", "findings"
)[0]


def context(redact: str = "secrets", **rest: Any) -> Context:
    return Context(ExportOptions.of({"redact": redact}), key=rest.pop("key", KEY), **rest)


def record(*contents: Any, **rest: Any) -> Record:
    events = []
    for number, content in enumerate(contents, 1):
        body = (
            {"mime": "text/plain", "text": content}
            if isinstance(content, str)
            else {"mime": "x", "data": content}
        )
        facts = {"type": "message", "actor_id": "act_001", "visibility": "public", "role": "user"}
        events.append({"id": f"evt_{number:06d}", "seq": number, **facts, "content": body})
    return Record(conversation={"id": "c", **rest}, participants=[], events=events)  # type: ignore[arg-type,typeddict-item]


def test_each_value_once_with_its_rule_and_all_places() -> None:
    session = record(
        f"see {GITHUB} and {OTHER}", {"key": [f"x {GITHUB}"], OTHER: 1}, title=f"about {GITHUB}"
    )
    first, second = list_record_findings(session, context())
    assert (first.type, first.rule, first.level, first.count) == (
        "github_token",
        "github-token",
        "secrets",
        3,
    )
    assert [place.where for place in first.places] == [
        "conversation /title",
        "evt_000001 /content/text",
        "evt_000002 /content/data/key/0",
    ]
    assert first.places[1].before == "see "
    assert first.places[1].after == " and [github_token]"
    assert second.count == 2
    assert (first.value, second.value) == (GITHUB, OTHER)


def test_they_are_those_of_the_export() -> None:
    session = record(f"{GITHUB} {PASSWORD}", f"password={PASSWORD}", {"t": f"a {GITHUB}"})
    result = list_record_findings(session, context())
    notes = redact(session, context()).conversation["redaction"]["notes"]
    assert sorted(f"masked {item.count} {item.type}" for item in result) == [
        note.partition(" (")[0] for note in notes
    ]


def test_nothing_is_found_where_nothing_is_or_nothing_is_wanted() -> None:
    assert list_record_findings(record("hello"), context()) == []
    assert list_record_findings(record(GITHUB), context("none")) == []
    allowed = RedactionOverrides(allowed=(AllowEntry(rule="github-token"),))
    assert list_record_findings(record(GITHUB), context(screen=allowed)) == []


def test_whole_texts_of_strict_are_reported_as_such() -> None:
    session = record("be kind")
    session.events[0]["role"] = "system"  # type: ignore[index]
    (result,) = list_record_findings(session, context("strict"))
    assert (result.type, result.rule, result.level) == ("system_prompt", "system-prompt", "strict")


def test_nothing_of_a_value_is_reported() -> None:
    session = record(f"see {GITHUB} and password={PASSWORD}", {GITHUB: PASSWORD, "x": PEM})
    result = list_record_findings(session, context("pii"))
    said = f"{result!r} {json.dumps(to_json(result))} {[item.shape for item in result]}"
    for secret in (GITHUB, PASSWORD, *PEM.split("\n")[1:3]):
        assert secret not in said
        assert secret[4:12] not in said


def test_the_shape_says_length_and_letters() -> None:
    (result,) = list_record_findings(record(GITHUB), context())
    assert result.shape == "40 characters: small letters, capitals, digits, signs"


def test_marks_that_were_there_are_no_finds() -> None:
    session = record(f"[REDACTED:github_token:f0000000] and {GITHUB} [REDACTED:email:f0000000]")
    result = list_record_findings(session, context())
    assert sum(item.count for item in result if item.type == "email") == 0


def in_text(text: str, **rest: Any) -> list[Any]:
    walk = redact_text([text.encode()], context(**rest), "x")
    assert b"".join(walk)
    return list_text_findings([text.encode()], context(**rest), walk.found)


def test_places_in_a_text_are_lines_also_behind_a_key_of_several() -> None:
    result = in_text(f"a\n{PEM} x\nb {GITHUB}\n{GITHUB}")
    places = {item.type: [place.where for place in item.places] for item in result}
    assert places == {"private_key": ["line 2"], "github_token": ["line 6", "line 7"]}


def test_the_hash_for_an_allow_list() -> None:
    (result,) = in_text(f"x {GITHUB}")
    assert compute_allow_hash(result, KEY) == hash_value(KEY, "github_token", GITHUB)
    screen = RedactionOverrides(allowed=(AllowEntry(value=compute_allow_hash(result, KEY)),))
    assert in_text(f"x {GITHUB}", screen=screen) == []
