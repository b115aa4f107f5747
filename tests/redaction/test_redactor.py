"""The redaction pass reaches everything, breaks nothing, is idempotent, and counts correctly."""

import copy
import json
import re
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.context import AllowEntry, Context, Policy, RedactionOverrides
from open_token.errors import OpenTokenError
from open_token.jsontools.walk import (
    collect_named_strings,
    iter_strings,
    prefix_name,
    rewrite_named_strings,
)
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.redaction import found_values, masker, propagation
from open_token.redaction.markers import MARKER, MARKER_PATTERN
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.traversal import Batch, KeyTreatments

KEY = bytes(range(32))


def drawn(hole: str, seed: str = "redact") -> str:
    return fill_placeholders(hole, seed)[0]


GITHUB = drawn("ghp_{alnum:36}")
PASSWORD = drawn("{pass:12}")
IMAGE = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()
EMAIL = drawn("{word:5}.{word:7}@mail.test")


@pytest.fixture(scope="module", autouse=True)
def rule_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One folder for compiled rules, so that they are compiled once."""
    CACHES.append(tmp_path_factory.mktemp("rules"))


CACHES: list[Path] = []


def context(
    redact: str = "secrets", key: bytes | None = KEY, policy: Policy | None = None, **rest: Any
) -> Context:
    team_key = rest.pop("team_key", None)
    options = ExportOptions.of({"redact": redact, **rest})
    return Context(
        options, key=key, team_key=team_key, policy=policy or Policy(), rule_cache=CACHES[-1]
    )


def event(content: Any, number: int = 1, **rest: Any) -> Event:
    body = (
        {"mime": "text/plain", "text": content}
        if isinstance(content, str)
        else {"mime": "application/json", "data": content}
    )
    made: dict[str, Any] = {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": body,
    }
    return {**made, **rest}  # type: ignore[typeddict-item]


def record(*contents: Any, **rest: Any) -> Record:
    events = [
        item if isinstance(item, dict) and "seq" in item else event(item, place)
        for place, item in enumerate(contents, 1)
    ]
    return Record(
        conversation=rest.pop("conversation", {"id": "conv_1"}),
        participants=rest.pop(
            "participants", [{"actor_id": "act_001", "kind": "human", "name": "user"}]
        ),
        events=events,
        **rest,
    )


def dump(made: Record) -> str:
    return json.dumps(
        [made.conversation, made.participants, list(made.events), made.coercions],
        ensure_ascii=False,
    )


def texts(made: Record) -> list[Any]:
    return [item["content"].get("text", item["content"].get("data")) for item in made.events]


# --- the account ---


def test_without_findings_events_are_unchanged_and_the_level_is_recorded() -> None:
    before = record("hello", {"tool_name": "x", "arguments": {}})
    after = redact(before, context())
    assert after.events is before.events
    assert after.conversation == {
        "id": "conv_1",
        "redaction": {"mode": "secrets", "strategy": "mask", "notes": []},
    }


def test_none_leaves_the_record() -> None:
    before = record(GITHUB)
    assert redact(before, context("none")) is before


def test_notes_count_marks_and_values_by_type() -> None:
    other = drawn("ghp_{alnum:36}", "other")
    after = redact(record(f"{GITHUB} {GITHUB}", f"password={PASSWORD}", other), context())
    assert after.conversation["redaction"]["notes"] == [
        "masked 3 github_token (2 distinct values)",
        "masked 1 password (1 distinct value)",
    ]


def test_an_export_keeps_its_notes_and_the_stronger_mode() -> None:
    record_search = {
        "mode": "pii",
        "strategy": "hash",
        "notes": ["masked 2 email (2 distinct values)", "by hand"],
    }
    before = record(
        "hello", conversation={"id": "conv_1", "redaction": record_search}, is_export=True
    )
    assert redact(before, context()).conversation["redaction"] == record_search
    again = replace(before, events=[event(f"{GITHUB} {EMAIL}")])
    after = redact(again, context("pii")).conversation["redaction"]
    assert after == {
        "mode": "pii",
        "strategy": "mask",
        "notes": [
            "masked 3 email (3 distinct values)",
            "by hand",
            "masked 1 github_token (1 distinct value)",
        ],
    }


# --- policy, strategies and keys ---


def test_private_keys_never_leave_where_policy_forbids_it() -> None:
    key, values = fill_placeholders(
        "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----", "redact"
    )
    before = record(f"{key} and {GITHUB}")
    after = redact(before, context("none", policy=Policy(never_export_private_keys=True)))
    assert values[0] not in dump(after)
    assert GITHUB in dump(after)
    assert after.conversation["redaction"]["mode"] == "none"
    assert after.conversation["redaction"]["notes"] == ["masked 1 private_key (1 distinct value)"]
    clean = record("hello")
    assert redact(clean, context("none", policy=Policy(never_export_private_keys=True))) is clean


def test_policy_raises_the_level() -> None:
    after = redact(record(EMAIL), context("none", policy=Policy(min_redact="pii")))
    assert EMAIL not in dump(after)
    assert after.conversation["redaction"]["mode"] == "pii"


def test_strategies() -> None:
    here, there = record(GITHUB), record(GITHUB, conversation={"id": "conv_2"})

    def mark(made: Record, **options: Any) -> str:
        return str(texts(redact(made, context(**options)))[0])

    assert mark(here) != mark(there)
    assert mark(here, strategy="hash", team_key=b"team") == mark(
        there, strategy="hash", team_key=b"team"
    )
    assert mark(here, strategy="hash") == mark(there, strategy="hash")
    assert mark(here, strategy="drop") == "[REDACTED:github_token:00000000]"


def test_without_a_team_key_the_notes_say_so() -> None:
    notes = redact(record(GITHUB), context(strategy="hash")).conversation["redaction"]["notes"]
    assert notes[-1] == "no team key is set: markers match across exports of this user only"
    notes = redact(record(GITHUB), context(strategy="hash", team_key=b"team")).conversation[
        "redaction"
    ]["notes"]
    assert len(notes) == 1


def test_without_a_key_marks_are_numbered() -> None:
    after = redact(record(f"{PASSWORD} later", f"password={PASSWORD} {GITHUB}"), context(key=None))
    assert texts(after) == [
        "[REDACTED:password:00000001] later",
        "password=[REDACTED:password:00000001] [REDACTED:github_token:00000002]",
    ]
    more = redact(
        replace(after, events=[*after.events, event(drawn("glpat-{alnum:20}"))]), context(key=None)
    )
    assert texts(more)[2] == "[REDACTED:gitlab_token:00000003]"


# --- everything is reached ---

PLACES: dict[str, Any] = {
    "text": lambda value: record(f"see {value} there"),
    "argument": lambda value: record({"tool_name": "x", "arguments": {"a": [{"b": f"x {value}"}]}}),
    "key": lambda value: record({"tool_name": "x", "arguments": {value: 1}}),
    "title": lambda value: record("x", conversation={"id": "c", "title": f"about {value}"}),
    "name": lambda value: record(
        "x", participants=[{"actor_id": "act_001", "kind": "human", "name": value}]
    ),
    "annotation": lambda value: record(
        event({"kind": "note", "say": value}, type="annotation", visibility="metadata")
    ),
    "json in a string": lambda value: record(json.dumps({"a": json.dumps({"b": [f"\n{value}"]})})),
    "json without escapes": lambda value: record(json.dumps({"a": value})),
    "broken json": lambda value: record(json.dumps({"a": f"\n{value}"})[:-1]),
    "unicode escapes": lambda value: record(
        '{"a":"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"}'
    ),
    "beside a truncation": lambda value: record(
        event("x") | {"content": {"mime": "text/plain", "text": value, "data": {"truncated": True}}}
    ),
    "a foreign key": lambda value: record(event("x") | {"x_note": {"deep": value}}, is_export=True),
    "a foreign link": lambda value: record(
        event("x") | {"links": {"parent_id": "evt_000001", "note": f"n {value}"}}, is_export=True
    ),
    "a foreign count": lambda value: record(
        event("x") | {"usage": {"input_tokens": 1, value: value}}, is_export=True
    ),
    "a timezone": lambda value: record(
        "x", conversation={"id": "c", "timezone": value, "provider": value}
    ),
    "a model": lambda value: record(
        "x",
        participants=[
            {"actor_id": "act_001", "kind": "model", "name": "x", "model": value, "provider": value}
        ],
    ),
    "a pointer": lambda value: record(
        {value: 1},
        coercions=[{"id": "evt_000001", "ptr": f"/content/data/{value}", "was": "integer"}],
    ),
}


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("value", [GITHUB, EMAIL], ids=["token", "email"])
@pytest.mark.parametrize("place", PLACES)
def test_every_place_is_reached(place: str, value: str, engine: str) -> None:
    after = redact(PLACES[place](value), context("pii"), engine)
    assert value not in dump(after)
    assert value not in json.loads(json.dumps(dump(after)))
    assert MARKER.search(dump(after))


def test_what_names_a_model_or_a_service_stays() -> None:
    who = {
        "actor_id": "act_001",
        "kind": "model",
        "name": "x",
        "model": "claude-opus-4-1-20250805",
        "provider": "x",
    }
    about = {
        "id": "c",
        "timezone": "Europe/Athens",
        "source_runtime": "claude_code",
        "provider": "anthropic",
    }
    after = redact(
        record(f"see {GITHUB}", conversation=about, participants=[who]), context("strict")
    )
    assert after.participants == [who]
    assert {key: after.conversation.get(key) for key in about} == about


@pytest.mark.parametrize(
    "data",
    [
        {"password": "sesame"},
        {"DB_PASSWORD": PASSWORD},
        {"api_key": drawn("{hex:32}")},
        {"apiKey": drawn("{alnum:20}")},
        {"X-Api-Key": drawn("{alnum:20}")},
        {"headers": {"Authorization": "Bearer " + drawn("{alnum:30}")}},
        {"headers": [["Authorization", "Token " + drawn("{hex:40}")]]},
        {"headers": [{"name": "Cookie", "value": "sid=" + drawn("{alnum:30}")}]},
        {"env": [{"name": "GITHUB_TOKEN", "value": drawn("{alnum:30}")}]},
        {"env": {"CLIENT_SECRET": drawn("{b64:30}")}},
        {"args": ["--token", drawn("{alnum:20}")]},
        {"argv": ["--password=" + PASSWORD]},
        {"credentials": {"refresh_token": drawn("{alnum:40}")}},
        {"connection_string": "Server=db;Pwd=" + PASSWORD + ";"},
        {"private_key": drawn("{b64:64}")},
    ],
)
def test_values_under_secret_keys_are_masked(data: dict[str, Any]) -> None:
    secret = (
        list(iter_strings(data))[-1]
        .removeprefix("Bearer ")
        .removeprefix("Token ")
        .removeprefix("sid=")
        .removeprefix("--password=")
    )
    after = dump(redact(record({"tool_name": "x", "arguments": data}), context()))
    assert secret not in after
    assert MARKER.search(after)


@pytest.mark.parametrize(
    "data",
    [
        {"password": "${DB_PASSWORD}"},
        {"password": "<password>"},
        {"token": "import", "type": "token"},
        {"token_count": 123456789012, "max_tokens": 4096},
        {"api_key": "OPENAI_API_KEY"},
        {"token": "process.env.TOKEN"},
        {"public_key": drawn("{alnum:40}")},
        {"key": "some-word", "value": "another word"},
        {"password": "Enter your password"},
        {"tokens": ["the", "cat", "sat"]},
        {"secret": "see the vault for it"},
        {"sha256": drawn("{hex:64}"), "commit": drawn("{hex:40}")},
    ],
)
def test_harmless_values_under_such_keys_stay(data: dict[str, Any]) -> None:
    before = record(data)
    assert redact(before, context()).events is before.events


def test_a_confirmed_value_is_masked_wherever_it_recurs() -> None:
    secret = drawn("{alnum:10}/{alnum:10}")
    after = redact(
        record(
            f"it was {secret}",
            f"password = '{secret}'",
            {"tool_name": "x", "arguments": {"note": f"x{secret}y", secret: True}},
            f"escaped {quote(secret, safe='')}",
            f"encoded {b64encode(b'a:' + secret.encode()).decode()}",
            json.dumps({"a": json.dumps({"b": secret})}),
            conversation={"id": "c", "title": secret},
        ),
        context(),
    )
    said = dump(after)
    assert secret not in said
    assert quote(secret, safe="") not in said
    assert b64encode(b"a:" + secret.encode()).decode()[4:-4] not in said


NAMED = (
    "DB_PASSWORD={}",
    "the api key is {}",
    "acme_secret_key: {}",
    "--password {}",
    "Authorization: Bearer {}",
)


@pytest.mark.parametrize(
    "sign", [",", ".", ";", ":", "!", "?", ")", "]", "}", "`", "*", "**", "|", "&user=me", ".`)"]
)
@pytest.mark.parametrize("named", NAMED)
def test_a_sign_behind_a_value_does_not_keep_it_from_being_known_elsewhere(
    named: str, sign: str
) -> None:
    secret = drawn("{alnum:32}", named)
    after = redact(
        record(f"{named.format(secret)}{sign} and so on", f"it was {secret} again"), context()
    )
    assert secret not in dump(after)


@pytest.mark.parametrize("named", NAMED)
def test_the_end_of_a_sentence_is_no_part_of_a_value(named: str) -> None:
    secret = drawn("{alnum:32}", named)
    after = redact(
        record(f"{named.format(secret)}.", f"{named.format(secret)}, too", f"{secret}"), context()
    )
    assert len(set(re.findall(MARKER_PATTERN, dump(after)))) == 1
    assert texts(after)[0].endswith("].")
    assert texts(after)[1].endswith("], too")


def test_a_value_under_its_key_keeps_its_last_sign() -> None:
    assert MARKER.fullmatch(
        texts(redact(record({"password": "kT9xw-herons."}), context()))[0]["password"]
    )


def test_a_short_or_plain_value_does_not_spread() -> None:
    after = redact(
        record({"password": "sesame"}, "open sesame", {"password": "correcthorse"}, "correcthorse"),
        context(),
    )
    assert texts(after)[1] == "open sesame"
    assert texts(after)[3] == "correcthorse"


def test_a_value_in_a_list_of_its_bytes() -> None:
    buffer = {"type": "Buffer", "data": list(f"it is {GITHUB} now".encode())}
    numbers = list(range(100, 200)), [1.5] * 20, [*range(20), "a"], list(b"no value is told here")
    said = texts(redact(record(buffer, json.dumps(buffer), {"some": numbers}), context()))
    whole, inner = said[0]["data"], json.loads(said[1])["data"]
    assert whole == inner == f"it is {MARKER.search(whole)[0]} now"
    assert said[2] == {"some": numbers}


@pytest.mark.parametrize("shift", range(2))
def test_pieces_of_a_value_stand_behind_letters_of_several_bytes(shift: int) -> None:
    before, after = "é" * 700 + " " * (1 + shift), " and more"
    said = texts(redact(record([before + GITHUB[:20], GITHUB[20:] + after]), context()))[0]
    assert MARKER.fullmatch(said[0].removeprefix(before))
    assert said[1] == after


def test_a_short_value_is_not_cut_out_of_a_longer_word() -> None:
    secret = "Zq81kd7w"
    after = redact(record(f"password={secret}", f"a{secret}b {secret}"), context())
    assert str(texts(after)[1]).startswith(f"a{secret}b [REDACTED:password:")


def test_the_same_value_has_one_mark_whichever_rule_found_it() -> None:
    after = redact(record(f"token: {GITHUB}", f"password={GITHUB}", {"secret": GITHUB}), context())
    marks = set(re.findall(MARKER_PATTERN, dump(after)))
    assert len(marks) == 1
    assert marks.pop().startswith("[REDACTED:github_token:")


# --- nothing is broken ---


def test_what_belongs_to_the_format_stays() -> None:
    token = GITHUB
    data = {
        "tool_name": "x",
        "arguments": {
            "session_id": "sess-42/a",
            "toolUseId": drawn("{hex:40}"),
            "uuid": drawn("{uuid}"),
            "text": token,
        },
        "native_call_id": token,
        "call_id": token,
        "signature": token,
        "thoughtSignature": token,
        "thinkingSignature": token,
        "encrypted_content": token,
        "image": {
            "media_type": "image/png",
            "encoding": "base64",
            "sha256": drawn("{hex:64}"),
            "base64": IMAGE,
        },
        "source": {"type": "base64", "media_type": "image/png", "data": IMAGE},
    }
    before = event(
        data,
        type="tool_use",
        role="assistant",
        links={"call_id": token, "parent_id": token},
        usage={"input_tokens": 4111111111111111},
    )
    participants = [
        {
            "actor_id": token,
            "kind": "model",
            "name": "m",
            "model": "m-1",
            "provider": "p",
            "instance_id": token,
        }
    ]
    made = record(before, participants=participants, conversation={"id": token, "provider": "p"})
    after = redact(made, context("pii", images="keep"))
    (now,) = after.events
    assert now["content"]["data"]["arguments"].pop("text").startswith("[REDACTED:")
    del data["arguments"]["text"]  # type: ignore[attr-defined]
    assert now == {**before, "content": {"mime": "application/json", "data": data}}
    assert after.participants == participants
    assert after.conversation["id"] == token


def test_an_id_stays_even_if_its_letters_are_a_secret_elsewhere() -> None:
    value = drawn("{uuid}")
    after = redact(record(f"token: {value}", {"parent_id": value, "note": value}), context())
    assert texts(after)[1]["parent_id"] == value
    assert texts(after)[1]["note"] == texts(after)[0].removeprefix("token: ")


def test_a_token_in_the_place_of_an_id_is_masked() -> None:
    assert GITHUB not in dump(
        redact(record({"session_id": GITHUB, "id": GITHUB, "user_id": EMAIL}), context("pii"))
    )


def test_an_access_key_id_is_no_id() -> None:
    value = drawn("AKIA{b32:16}")
    assert value not in dump(redact(record({"aws_access_key_id": value}), context()))


def test_events_are_copied_not_changed() -> None:
    before = record({"a": {"b": GITHUB}, "c": {"d": "x"}}, "hello")
    saved = copy.deepcopy(list(before.events))
    after = list(redact(before, context()).events)
    kept = list(before.events)
    assert kept == saved
    assert after[1] is kept[1]
    assert after[0]["content"]["data"]["c"] is kept[0]["content"]["data"]["c"]


def test_json_in_a_string_stays_json_and_keeps_its_look() -> None:
    compact = json.dumps({"password": PASSWORD, "n": [1, 2.5, None, 10**20]}, separators=(",", ":"))
    indented = json.dumps({"password": PASSWORD, "n": 1}, indent=2)
    plain = json.dumps({"n": 1, "m": "x y"})
    after = texts(redact(record(compact, indented, plain), context()))
    assert json.loads(after[0])["n"] == [1, 2.5, None, 10**20]
    assert after[1].startswith('{\n  "password": "[REDACTED:')
    assert after[2] == plain


def test_keys_that_become_equal_are_both_kept() -> None:
    after = redact(record({EMAIL: 1, EMAIL.upper(): 2}), context("pii"))
    assert sorted(texts(after)[0].values()) == [1, 2]


def test_long_numbers_are_personal_data_too() -> None:
    card = int(drawn("{luhn:4,16}"))
    after = redact(
        record(
            {"card": card, "count": 12, "ms": 1700000000000, "order_id": card},
            json.dumps({"card": card}),
        ),
        context("pii"),
    )
    first, second = texts(after)
    assert str(first["card"]).startswith("[REDACTED:card:")
    assert (first["count"], first["ms"], first["order_id"]) == (12, 1700000000000, card)
    assert str(card) not in second
    json.loads(second)


# --- strict ---


def test_strict_masks_prompts_and_outputs_as_a_whole() -> None:
    made = record(
        event("You are a pirate.", 1, role="system"),
        event([{"type": "text", "text": "Speak."}], 2, role="developer"),
        event("hello", 3),
        event("output of a tool", 4, type="tool_result", role="tool"),
        event({"rows": [1, 2]}, 5, type="tool_result", role="tool"),
        event({"missing_result": True}, 6, type="tool_result", role="tool"),
        event(
            {"kind": "native", "reader": "x", "record": 1, "value": {"a": "b"}},
            7,
            type="annotation",
        ),
        event(
            {"kind": "repeated_result", "call_id": "call_000001", "output": "again"},
            8,
            type="annotation",
        ),
        event("", 9, type="tool_result", role="tool"),
    )
    after = redact(made, context("strict"))
    said = texts(after)
    assert MARKER.fullmatch(said[0])
    assert said[0].startswith("[REDACTED:system_prompt:")
    assert list(said[1]) == ["redacted"]
    assert MARKER.fullmatch(said[1]["redacted"])
    assert said[2] == "hello"
    assert said[3].startswith("[REDACTED:tool_output:")
    assert list(said[4]) == ["redacted"]
    assert said[5] == {"missing_result": True}
    assert MARKER.fullmatch(said[6]["value"])
    assert said[6]["reader"] == "x"
    assert MARKER.fullmatch(said[7]["output"])
    assert said[8] == ""
    assert after.conversation["redaction"]["notes"] == [
        "masked 2 system_prompt (2 distinct values)",
        "masked 4 tool_output (4 distinct values)",
    ]
    assert dump(redact(after, context("strict"))) == dump(after)


STRICT = {
    "system-prompt": "You are a pirate.",
    "tool-output": "output of a tool",
    "environment-value": "export DB_HOST=db7.acme.test",
    "config-path": "see /etc/acme/app.conf",
    "internal-host": "at http://wiki.acme.corp/page",
}


def strict_record() -> Record:
    kinds: dict[str, Any] = {
        "system-prompt": {"role": "system"},
        "tool-output": {"type": "tool_result"},
    }
    made = [
        event(text, number, **kinds.get(rule, {}))
        for number, (rule, text) in enumerate(STRICT.items(), 1)
    ]
    return record(*made, event({"rows": ["of the tool"]}, 6, type="tool_result", role="tool"))


@pytest.mark.parametrize("rule", STRICT)
def test_each_thing_that_strict_masks_is_a_choice(rule: str) -> None:
    chosen = replace(context("strict"), screen=RedactionOverrides(allowed=(AllowEntry(rule=rule),)))
    said = texts(redact(strict_record(), chosen))
    assert [name for name, text in zip(STRICT, said, strict=False) if text == STRICT[name]] == [
        rule
    ]
    assert (said[5] == {"rows": ["of the tool"]}) is (rule == "tool-output")
    demanding = replace(chosen, policy=Policy(min_redact="strict"))
    assert set(texts(redact(strict_record(), demanding))[:5]).isdisjoint(STRICT.values())


def test_an_output_that_may_stay_is_searched_as_all_else() -> None:
    made = record(event(f"password={PASSWORD}", 1, type="tool_result", role="tool"))
    kept = replace(
        context("strict"), screen=RedactionOverrides(kept=frozenset([f"password={PASSWORD}"]))
    )
    assert MARKER.sub("#", texts(redact(made, context("strict")))[0]) == "#"
    assert MARKER.sub("#", texts(redact(made, kept))[0]) == "password=#"


def test_strict_still_learns_from_what_it_hides() -> None:
    after = redact(
        record(
            event(f"password={PASSWORD}", 1, type="tool_result", role="tool"), f"I saw {PASSWORD}"
        ),
        context("strict"),
    )
    assert PASSWORD not in dump(after)


def test_strict_masks_configuration() -> None:
    text = "export DB_HOST=db7.acme.test; see /etc/acme/app.conf at http://wiki.acme.corp/page"
    said = texts(redact(record(text), context("strict")))[0]
    assert MARKER.sub("#", said) == "export DB_HOST=#; see # at #"


# --- a second time ---


def test_the_second_time_changes_nothing() -> None:
    made = record(
        f"password={PASSWORD} {EMAIL}",
        {"password": "sesame", EMAIL: [GITHUB]},
        f"{PASSWORD}",
        json.dumps({"a": EMAIL}),
    )
    for level in ("secrets", "pii", "strict"):
        for key in (KEY, None):
            once = redact(made, context(level, key=key))
            assert dump(redact(once, context(level, key=key))) == dump(once)
            assert dump(redact(replace(once, is_export=True), context(level, key=key))) == dump(
                once
            )


LEAVES = [
    GITHUB,
    PASSWORD,
    EMAIL,
    "password=",
    "token: ",
    '"',
    "'",
    " ",
    "\n",
    "\\n",
    "Bearer ",
    "Authorization: ",
    "secret",
    "[REDACTED:",
    ":0123abcd]",
    "[REDACTED:email:0123abcd]",
    "{",
    "}",
    "[",
    "]",
    '{"password": "',
    '"}',
    ",",
    "=",
    "/home/johanna/",
    "4111 1111 1111 1111",
    "+49 30 901820",
    "é",
    "\x01",
    "\0",
    "-u me:",
    "curl ",
    "cookie: a=",
    ";",
    drawn("{hex:40}"),
    drawn("{b64:44}"),
    "key",
    "api_key",
    "10.1.2.3",
    "=> ",
]
leaf = st.lists(st.sampled_from(LEAVES), max_size=7).map("".join)
data = st.recursive(
    leaf | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            leaf | st.sampled_from(["password", "name", "value", "id"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
contents = st.lists(
    leaf | data.filter(lambda value: isinstance(value, dict | list)), min_size=1, max_size=4
)


def shape(value: Any) -> Any:
    """A value without its strings and long numbers."""
    if isinstance(value, dict):
        return sorted((shape(item) for item in value.values()), key=repr)
    if isinstance(value, list):
        return [shape(item) for item in value]
    return (
        "text"
        if isinstance(value, str) or (isinstance(value, int) and value > 9_999_999)
        else value
    )


@given(contents, st.sampled_from(["secrets", "pii", "strict"]), st.sampled_from([KEY, None]))
def test_redaction_is_idempotent_and_keeps_the_shape(
    contents: list[Any], level: str, key: bytes | None
) -> None:
    made = record(*contents)
    once = redact(made, context(level, key=key))
    assert dump(redact(once, context(level, key=key))) == dump(once)
    alone = re.compile(rf"(?<![0-9A-Za-z_]){GITHUB}(?![0-9A-Za-z])")
    assert not any(alone.search(text) for text in iter_strings([*texts(once)]))
    for before, after in zip(made.events, once.events, strict=True):
        assert shape(after["content"].get("data")) == shape(before["content"].get("data"))
        assert {k: v for k, v in after.items() if k != "content"} == {
            k: v for k, v in before.items() if k != "content"
        }
    for mark in re.findall(MARKER_PATTERN, dump(once)):
        assert mark.count("REDACTED") == 1


LINES = "\nnothing at all is said in this line\n" * 20


@given(st.lists(leaf, min_size=4, max_size=6).map(LINES.join), st.sampled_from(["secrets", "pii"]))
def test_a_long_text_is_masked_as_if_all_of_it_were_looked_through_again(
    text: str, level: str
) -> None:
    made = record(text, {"token": text, "note": [text]})
    once = redact(made, context(level))
    with mock.patch.object(masker, "_LONG_STRING", len(text) * 2):
        assert dump(redact(made, context(level))) == dump(once)
    assert dump(redact(once, context(level))) == dump(once)


def test_what_masking_brings_to_light_in_a_long_text_is_masked() -> None:
    key = drawn("{hex:8}-{hex:4}-{alnum:4}-{alnum:4}-{alnum:14}")
    found: list[Any] = []
    real = masker.Masker._search_near_markers

    def record_search(masker: masker.Masker, leaves: list[str]) -> Any:
        found.append(real(masker, leaves))
        return found[-1]

    with mock.patch.object(masker.Masker, "_search_near_markers", record_search):
        (masked,) = texts(
            redact(record(f"{LINES * 3}graphhopperPRIVATE12-{key}{LINES}"), context("secrets"))
        )
    assert [bool(some) for some in found[:2]] == [True, False]
    assert not any(part in masked for part in (key[:8], key[-14:]))


def in_order(value: Any) -> Any:
    """What of a value redaction leaves alone: how many keys and items there are, in which order, of
    which kind."""
    if isinstance(value, dict):
        return [in_order(item) for item in value.values()]
    return [in_order(item) for item in value] if isinstance(value, list) else shape(value)


@given(contents, st.sampled_from(["secrets", "pii", "strict"]))
def test_redaction_is_deterministic_and_keeps_order_ids_and_shape(
    contents: list[Any], level: str
) -> None:
    made = record(*contents)
    once = redact(made, context(level))
    assert dump(redact(copy.deepcopy(made), context(level))) == dump(once)
    for before, after in zip(made.events, once.events, strict=True):
        assert {**after, "content": 0} == {**before, "content": 0}
        assert list(after) == list(before)
        assert list(after["content"]) == list(before["content"])
        assert in_order(after["content"].get("data")) == in_order(before["content"].get("data"))


@given(contents)
def test_both_engines_mask_the_same(contents: list[Any]) -> None:
    made = record(*contents)
    assert dump(redact(made, context("pii"), "hyperscan")) == dump(
        redact(made, context("pii"), "keywords")
    )


@given(data)
def test_what_is_searched_is_what_is_rewritten(value: Any) -> None:
    searched: list[str] = []
    collect_named_strings(value, KeyTreatments(), searched)
    seen: list[str] = []

    def note(name: str, text: str) -> str:
        seen.append(prefix_name(name, text))
        return text

    assert rewrite_named_strings(value, KeyTreatments(), note) is value
    assert sorted(seen) == sorted(searched)


# --- much, and too much ---


@pytest.mark.parametrize(("kept", "walks"), [(1 << 23, 1), (1 << 16, 2)])
def test_many_events_stream_through(monkeypatch: pytest.MonkeyPatch, kept: int, walks: int) -> None:
    monkeypatch.setattr(found_values, "_MAX_KEPT", kept)

    class Counted:
        walks = 0

        def __iter__(self) -> Any:
            Counted.walks += 1
            for number in range(3000):
                yield event(
                    f"line {number} " + "x" * 200 + (f" {GITHUB}" if number % 1000 == 7 else ""),
                    number + 1,
                )

    after = redact(replace(record(), events=Counted()), context())
    assert Counted.walks == walks
    said = [item["id"] for item in after.events if MARKER.search(item["content"]["text"])]
    assert said == ["evt_000008", "evt_001008", "evt_002008"]
    assert [item["id"] for item in after.events][-1] == "evt_003000"


def test_events_with_long_pictures_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_values, "_MAX_KEPT", 1 << 16)
    found, picture = found_values.FoundValues(), {"type": "image", "base64": "A" * (1 << 15)}
    seen: Any = {"id": "evt_000001", "content": {"mime": "application/json", "data": [picture]}}
    found.keep_batch(Batch(0, [seen], [0], []))
    assert found.batches
    found.keep_batch(Batch(1, [seen, seen], [0, 0], []))
    assert found.batches is None


def test_too_many_values_to_look_for_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagation, "MAX_VALUES", 1)
    monkeypatch.setattr(masker, "MAX_VALUES", 1)
    other = drawn("{pass:12}", "other")
    after = redact(
        record(f"password={PASSWORD}", f"password={other}", f"{PASSWORD} {other}"), context()
    )
    assert str(texts(after)[2]).endswith(other)
    assert (
        after.conversation["redaction"]["notes"][-1]
        == "recurrences were masked for the first 1 values only"
    )


def test_a_start_loads_nothing_heavy() -> None:
    code = """
import sys
from open_token.context import Context
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.redactor import redact
heavy = ("hyperscan", "re2", "phonenumbers", "stdnum", "tomllib")
assert not [name for name in heavy if name in sys.modules]
event = {"id": "evt_000001", "content": {"mime": "text/plain", "text": "hello"}}
redact(Record({"id": "c"}, [], [event]), Context(ExportOptions()))
assert not [name for name in heavy[:1] + heavy[2:4] if name in sys.modules]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_masking_that_does_not_end_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masker, "_MAX_ROUNDS", 1)
    with pytest.raises(OpenTokenError) as caught:
        redact(record(f"x {GITHUB}"), context())
    assert GITHUB not in str(caught.value)
    assert "evt_000001" in str(caught.value)


# --- one planted session, as others were measured by ---


def planted() -> tuple[list[str], list[str], Record]:
    """Twenty things to mask and six that only look like it, in the places where they stand in real
    sessions."""
    pem, pem_values = fill_placeholders(
        "-----BEGIN RSA PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END RSA PRIVATE KEY-----",
        "planted",
    )
    secrets = {
        name: drawn(hole, "planted")
        for name, hole in {
            "aws id": "AKIA{b32:16}",
            "aws secret": "{b64:40}",
            "github": "ghp_{alnum:36}",
            "github fine": "github_pat_{alnum:22}_{alnum:59}",
            "anthropic": "sk-ant-api03-{b64url:93}AA",
            "openai": "sk-proj-{b64url:60}",
            "slack": "xoxb-{digit:12}-{digit:12}-{alnum:24}",
            "stripe": "sk_live_{alnum:24}",
            "google": "AIza{alnum:35}",
            "hf": "hf_{alpha:34}",
            "npm": "npm_{alnum:36}",
            "jwt": "{jwt}",
            "db": "{alnum:14}",
            "env": "{pass:14}",
            "bearer": "{alnum:40}",
            "cookie": "{hex:32}",
            "email": "{word:6}.{word:7}@{word:8}.test",
            "phone": "+1 415 555 2671",
            "ip": "93.184.216.34",
        }.items()
    }
    benign = {
        name: drawn(hole, "benign")
        for name, hole in {
            "sha": "{hex:40}",
            "sha256": "{hex:64}",
            "uuid": "{uuid}",
            "signature": "{b64:200}",
            "tool id": "toolu_01{alnum:22}",
            "integrity": "sha512-{b64:86}==",
        }.items()
    }
    made = record(
        f"Use {secrets['aws id']}, aws_secret_access_key = {secrets['aws secret']}, clone with {secrets['github']}.",
        event(
            {
                "tool_name": "Bash",
                "native_call_id": benign["tool id"],
                "arguments": {
                    "command": f"export GH={secrets['github fine']}\n"
                    f"curl -H 'Authorization: Bearer {secrets['bearer']}' https://x.test",
                    "env": {
                        "ANTHROPIC_API_KEY": secrets["anthropic"],
                        "OPENAI_API_KEY": secrets["openai"],
                    },
                },
            },
            2,
            type="tool_use",
            role="assistant",
        ),
        event(
            f"SLACK={secrets['slack']}\nSTRIPE_KEY={secrets['stripe']}\nDB_PASSWORD={secrets['env']}\n"
            f"DATABASE_URL=postgres://app:{secrets['db']}@db.test:5432/x\nHEAD is now at {benign['sha']}\n{pem}\n"
            f"sha256:{benign['sha256']}",
            3,
            type="tool_result",
            role="tool",
        ),
        event(
            {
                "hf": secrets["hf"],
                "npm": f"//registry.test/:_authToken={secrets['npm']}",
                "google": secrets["google"],
                "id": benign["uuid"],
                "integrity": benign["integrity"],
                "signature": benign["signature"],
            },
            4,
        ),
        f"Cookie: session={secrets['cookie']}; theme=dark\nToken {secrets['jwt']} was for {secrets['email']}, "
        f"{secrets['phone']}, from {secrets['ip']}; request {benign['uuid']}",
    )
    return [*secrets.values(), *pem_values], list(benign.values()), made


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_a_planted_session_leaks_nothing_and_loses_nothing(engine: str) -> None:
    secrets, benign, made = planted()
    after = dump(redact(made, context("pii"), engine))
    assert [value for value in secrets if value in after] == []
    assert [value for value in benign if value not in after] == []


def mask_text(text: str, level: str = "secrets") -> str:
    masked = redact(record(text), context(level))
    return str(next(iter(masked.events))["content"]["text"])


def test_json_without_escapes_is_parsed() -> None:
    masked = mask_text('{"user":  "anna", "password": "monkeybanana"}')
    assert MARKER.sub("*", masked) == '{"user":  "anna", "password": "*"}'


def test_of_a_key_that_occurs_twice_both_values_are_masked() -> None:
    other = drawn("ghp_{alnum:36}", "other")
    masked = mask_text(f'{{"a": "{GITHUB}", "b": 1, "a": "{other}"}}')
    assert GITHUB not in masked
    assert other not in masked


@pytest.mark.parametrize("key", ["signature", "encrypted_content", "thoughtSignature"])
def test_tokens_under_opaque_keys_of_json_text_are_masked(key: str) -> None:
    for token in (GITHUB, drawn("{jwt}")):
        assert token not in mask_text(json.dumps({key: token, "a": "b"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{ "a":1.0,\t"token": "%s" , "b":"\\u00e9" }',
            '{ "a":1.0,\t"token": "*" , "b":"\\u00e9" }',
        ),
        ('[\n "say %s \\/",  []\n]', '[\n "say * \\/",  []\n]'),
        ('{"inner": "{\\"t\\":  \\"%s\\"}"}', '{"inner": "{\\"t\\":  \\"*\\"}"}'),
    ],
)
def test_json_text_keeps_its_layout(text: str, expected: str) -> None:
    assert MARKER.sub("*", mask_text(text % GITHUB)) == expected


@pytest.mark.parametrize(
    "value",
    ["{alnum:40}AAAAAAAAAAAAJQQJ99{alnum:10}AZDO{alnum:4}", "ghp_{alnum:20}AAAAAAAAAA{alnum:10}"],
)
def test_a_run_of_one_letter_makes_no_placeholder(value: str) -> None:
    filled = drawn(value)
    assert filled[:20] not in mask_text(f"use {filled} now")


@pytest.mark.parametrize(
    "value", ["npm_{alnum:36}", "crt {alnum:3}", "AGE-SECRET-KEY-1{upper:58}", "CLOJARS_{hex:60}"]
)
def test_a_mask_reaches_to_the_end_of_a_run(value: str) -> None:
    token = drawn(value)
    masked = mask_text(f"use {token}Tail9x-tail here")
    if MARKER.search(masked):
        assert "ail" not in masked.replace("here", "")


@pytest.mark.parametrize(
    "address", ["jürgen.müller@firma.test", "анна.иванова@почта.рф", "josé@españa.test"]
)
def test_letters_of_other_alphabets_belong_to_an_address(address: str) -> None:
    assert MARKER.sub("*", mask_text(f"an {address}, bitte", "pii")) == "an *, bitte"
