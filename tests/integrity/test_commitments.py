"""An export verifies against the root of its source whatever was withheld, and no change goes
unseen."""

import base64
import contextlib
import copy
import hashlib
import hmac
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from open_token.api import load_context
from open_token.cli import main
from open_token.context import Context
from open_token.errors import SizeLimitError, UsageError
from open_token.integrity.commitments import (
    CommitmentError,
    SourceCommitments,
    SourceCoverage,
    build_disclosure,
    check_disclosure,
)
from open_token.integrity.verify import VERIFIED, verify, verify_bytes
from open_token.jsontools.canonical import hash_document, hash_events
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source

Document = dict[str, Any]
KEY = bytes(range(32))
EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "ghp_" + "a1B2" * 9


def message(number: int, words: str, **more: Any) -> Document:
    content = {"mime": "text/plain", "text": words}
    made = {
        "id": f"evt_{number:06d}",
        "seq": number,
        "ts": "2026-03-02T09:00:00Z",
        "type": "message",
    }
    return made | {
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": content,
        **more,
    }


def events_of(count: int) -> list[Document]:
    return [message(number, f"word {number}") for number in range(1, count + 1)]


def committed(events: list[Document], key: bytes = KEY, name: str = "conv_1") -> SourceCommitments:
    source = SourceCommitments(key, name)
    for event in events:
        source.add(event)
    return source


def renumbered(events: list[Document]) -> list[Document]:
    return [{**event, "seq": seq} for seq, event in enumerate(events, 1)]


def with_words(event: Document, words: str) -> Document:
    return {**event, "content": {"mime": "text/plain", "text": words}}


def tied(source: SourceCommitments, events: list[Document]) -> SourceCoverage:
    made = json.loads(json.dumps(build_disclosure(source, events)))
    found = check_disclosure(made, renumbered(events))
    assert found.root == made["root"] == source.root
    return found


# --- the construction, written down a second time ---


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def tree_root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\1", tree_root(leaves[:split]), tree_root(leaves[split:]))


def slow_salt(index: int, content: Any) -> bytes:
    seed = hmac.new(KEY, b"ot-leaf-seed/1conv_1", "sha256").digest()
    words = b"ot-salt/1" + index.to_bytes(8, "big") + rfc8785.dumps(content)
    return hmac.new(seed, words, "sha256").digest()[:16]


def slow_root(events: list[Document]) -> str:
    leaves = []
    for index, event in enumerate(events):
        commitment = sha(b"\2", slow_salt(index, event["content"]), rfc8785.dumps(event["content"]))
        rest = {name: value for name, value in event.items() if name not in ("content", "seq")}
        leaves.append(sha(b"\0", commitment, rfc8785.dumps(rest)))
    return sha(b"\3", len(leaves).to_bytes(8, "big"), tree_root(leaves)).hex()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 33])
def test_the_root_is_the_one_that_is_written_down(count: int) -> None:
    events = events_of(count)
    events[-1]["content"] = {"mime": "application/json", "data": {"é": [1.0, None, 1e21]}}
    assert committed(events).root == slow_root(events)


def test_the_vector_in_the_documentation() -> None:
    event = {
        "id": "evt_000001",
        "seq": 1,
        "type": "message",
        "content": {"mime": "text/plain", "text": "Hello"},
    }
    source = committed([event])
    assert (
        source.salt(0, rfc8785.dumps(event["content"])).hex() == "4d0bdc61a1eb76c85768efd1dbd14d0d"
    )
    assert (
        source.commitment(0).hex()
        == "f3dda9e4d87aa296efd1ec893e0a08120dd03aecdeaef475dde602173351839a"
    )
    assert (
        source.leaf(0).hex() == "7750752376c9e8bc1462fbe7e2a20b964d4b99b21baaccba5929c367f332ad63"
    )
    assert source.root == "967ed6458b30ebc3923481d9e7a6855fb4a63d733097dd3bb1080b0fe62a09ae"


def test_seq_belongs_to_the_export() -> None:
    events = events_of(3)
    assert committed(renumbered(events[::-1])[::-1]).root == committed(events).root


def test_key_and_conversation_make_the_root() -> None:
    events = events_of(3)
    assert (
        len(
            {
                committed(events, key, name).root
                for key in (KEY, bytes(32))
                for name in ("conv_1", "conv_2")
            }
        )
        == 4
    )


def test_a_salt_is_good_for_one_content_at_one_place() -> None:
    source = committed([])
    salts = {source.salt(index, content) for index in range(3) for content in (b"a", b"b")}
    assert len(salts) == 6
    assert source.salt(1, b'{"a":1}') == slow_salt(1, {"a": 1})


# --- what became of an event ---


def test_all_verbatim() -> None:
    events = events_of(5)
    made = build_disclosure(committed(events), events)
    assert tied(committed(events), events)[1:] == (5, 0, 0, 0)
    assert made["map"] == [(1, 1, 5)]
    assert (made["alg"], made["size"], made["commitments"]) == ("ot-leaf/1", 5, {})
    assert "proof" not in made


def test_altered_content_has_its_commitment_and_no_salt() -> None:
    events = events_of(3)
    shown = [events[0], with_words(events[1], "another"), events[2]]
    made = build_disclosure(committed(events), shown)
    salts = base64.b64decode(made["salts"])
    assert salts[16:32] == bytes(16)
    assert slow_salt(1, events[1]["content"]) not in salts
    assert made["commitments"].keys() == {"2"}
    assert tied(committed(events), shown)[1:] == (2, 1, 0, 0)


def test_dropped_events_are_covered_by_few_hashes() -> None:
    events = events_of(1000)
    made = build_disclosure(committed(events), events[300:])
    assert made["map"] == [(1, 301, 700)]
    assert len(made["proof"]) == 4
    assert tied(committed(events), events[300:])[1:] == (700, 0, 0, 300)


def test_nothing_shown_and_nothing_hidden() -> None:
    events = events_of(6)
    assert tied(committed(events), [])[1:] == (0, 0, 0, 6)
    assert tied(committed([]), [message(9, "new")])[1:] == (0, 0, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "annotation"},
        {"actor_id": "act_002"},
        {"links": {"parent_id": "evt_000001"}},
        {"extra": True},
        {"ts": "2026-03-02T09:00:01Z"},
    ],
)
def test_an_event_changed_around_its_content_counts_as_inserted(change: Document) -> None:
    events = events_of(4)
    shown = [events[0], {**events[1], **change}, *events[2:]]
    made = build_disclosure(committed(events), shown)
    assert made["map"] == [(1, 1, 1), (2, None, 1), (3, 3, 2)]
    assert len(made["proof"]) == 1
    assert slow_salt(1, events[1]["content"]) not in base64.b64decode(made["salts"])
    assert tied(committed(events), shown)[1:] == (3, 0, 1, 1)


FATES = st.lists(
    st.sampled_from(["verbatim", "altered", "dropped", "changed", "inserted after"]), max_size=40
)


@given(FATES)
def test_any_mixture_verifies(fates: list[str]) -> None:
    events = events_of(len(fates))
    shown = []
    for event, fate in zip(events, fates, strict=True):
        if fate == "altered":
            shown.append(with_words(event, "[REDACTED:api_key:0a1b2c3d]"))
        elif fate == "changed":
            shown.append({**event, "visibility": "metadata"})
        elif fate != "dropped":
            shown.append(event)
        if fate == "inserted after":
            shown.append(message(1000 + len(shown), "new"))
    found = tied(committed(events), shown)
    verbatim, altered, changed = (fates.count(name) for name in ("verbatim", "altered", "changed"))
    added = fates.count("inserted after")
    assert found[1:] == (
        verbatim + added,
        altered,
        added + changed,
        fates.count("dropped") + changed,
    )


# --- whole exports ---


def build_document(count: int = 24) -> Document:
    """A conversation with secrets, a call, hidden reasoning and a long text."""
    events = events_of(count)
    events[3]["content"]["text"] = f"my token is {SECRET}"
    events[5]["content"]["text"] = "long " * 1500
    thought = {"type": "message", "role": "assistant_thought", "visibility": "internal"}
    events[7] |= thought
    events[8] |= thought | {"usage": {"input_tokens": 5, "output_tokens": 7}}
    call = {
        "mime": "application/json",
        "data": {"tool_name": "sh", "arguments": {"token": SECRET, "n": [1, 2.5]}},
    }
    events[10] |= {
        "type": "tool_use",
        "role": "assistant",
        "content": call,
        "links": {"call_id": "call_000001"},
    }
    events[11] |= {"type": "tool_result", "role": "tool", "links": {"call_id": "call_000001"}}
    return {
        "open_token_version": "0.1",
        "exported_at": "2026-03-02T10:00:00Z",
        "conversation": {"id": "conv_1", "internal_availability": "available"},
        "participants": [{"actor_id": "act_001", "kind": "human", "name": "user"}],
        "events": events,
    }


def run(document: Document, key: bytes | None = KEY, **options: Any) -> bytes:
    out = io.BytesIO()
    given_options = ExportOptions.of({"integrity": "source", "pretty": False, **options})
    export(
        Source("session.json", data=json.dumps(document).encode()),
        out,
        Context(given_options, key=key),
    )
    return out.getvalue()


def tie(raw: bytes) -> tuple[str, str]:
    verdict = verify_bytes(raw)
    assert (verdict.status, verdict.warnings) == (VERIFIED, ())
    parts = {part.name: part.claimed for part in verdict.parts}
    return parts["source.root"], parts["source"]


WHOLE = {"redact": "none", "include": "include-internal", "internal": "full"}


@pytest.mark.parametrize(
    ("options", "states"),
    [
        (WHOLE, "24 verbatim, 0 altered and declared, 0 inserted, 0 dropped"),
        (
            WHOLE | {"internal": "redacted"},
            "22 verbatim, 2 altered and declared, 0 inserted, 0 dropped",
        ),
        ({"redact": "none"}, "22 verbatim, 0 altered and declared, 1 inserted, 2 dropped"),
        (
            {"redact": "none", "mode": "ndjson"},
            "22 verbatim, 0 altered and declared, 1 inserted, 2 dropped",
        ),
        (
            {"include": "include-internal"},
            "20 verbatim, 4 altered and declared, 0 inserted, 0 dropped",
        ),
        ({}, "20 verbatim, 2 altered and declared, 1 inserted, 2 dropped"),
    ],
)
def test_every_export_of_a_conversation_has_one_root(options: Document, states: str) -> None:
    assert tie(run(build_document(), **options)) == (slow_root(build_document()["events"]), states)


def test_an_export_that_changed_has_the_earlier_export_for_its_source() -> None:
    first = json.loads(run(build_document()))
    first["events"][0]["content"] = {"mime": "text/plain", "text": "something else"}
    _, states = tie(run(first))
    assert states == "23 verbatim, 0 altered and declared, 0 inserted, 0 dropped"
    assert tie(run(first))[0] != first["integrity"]["source"]["root"]


def test_without_the_key_it_is_refused() -> None:
    with pytest.raises(UsageError, match="needs the local key"):
        run(build_document(), key=None)


def test_nothing_of_a_redacted_value_can_be_tried_out() -> None:
    source = build_document()
    raw = run(source)
    made = json.loads(raw)["integrity"]["source"]
    salts = base64.b64decode(made["salts"])
    shown = [salts[place : place + 16] for place in range(0, len(salts), 16)]
    for index in (3, 10):
        content = source["events"][index]["content"]
        assert slow_salt(index, content) not in salts
        guesses = {sha(b"\2", salt, rfc8785.dumps(content)).hex() for salt in shown}
        assert not guesses & {*made["commitments"].values(), *made["proof"]}
    assert shown.count(bytes(16)) == len(made["commitments"]) == 2
    assert SECRET.encode() not in raw


@pytest.mark.parametrize(
    "options", [{}, {"pretty": True}, {"mode": "ndjson"}, {"include": "include-internal"}]
)
@pytest.mark.parametrize("drop", ["never", "oldest"])
def test_max_bytes_counts_the_commitment(options: Document, drop: str) -> None:
    root, _ = tie(run(build_document(60)))
    whole, reached = len(run(build_document(60), **options)), 0
    for limit in range(whole + 50, 1000, -2503):
        try:
            raw = run(build_document(60), max_bytes=limit, drop=drop, **options)
        except SizeLimitError:
            break
        assert len(raw) <= limit
        assert tie(raw)[0] == root
        reached = limit
    assert reached < (0.5 if drop == "oldest" else 0.85) * whole


@pytest.mark.parametrize("options", [{}, {"pretty": True}, {"mode": "ndjson"}])
def test_the_smallest_size_is_exact(options: Document) -> None:
    source = build_document()
    for event in source["events"][12:20]:
        event["content"]["text"] = "longer " * 500
    with pytest.raises(SizeLimitError) as caught:
        run(source, max_bytes=1000, **options)
    assert len(run(source, max_bytes=caught.value.smallest, **options)) == caught.value.smallest


# --- changes ---


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything that is no container, and of empty containers."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    if not items or (isinstance(value, dict | list) and not value):
        yield path
    for name, item in items:
        yield from leaves(item, (*path, name))


def other(value: Any, chance: random.Random) -> Any:
    """A value of the same kind, but another."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + chance.choice([-1, 1, 7])
    if isinstance(value, str) and value:
        place = chance.randrange(len(value))
        letters = [letter for letter in "0123456789abcdefAZ+/=" if letter != value[place]]
        return value[:place] + chance.choice(letters) + value[place + 1 :]
    return "something"


def tampered(document: Document, path: tuple[Any, ...], chance: random.Random) -> Document:
    made = copy.deepcopy(document)
    holder = made
    for step in path[:-1]:
        holder = holder[step]
    if chance.random() < 0.25:
        del holder[path[-1]]
    else:
        holder[path[-1]] = other(holder[path[-1]], chance)
    return made


def resealed(document: Document) -> Document:
    """With hashes made anew, as someone would who hides a change."""
    digest = hash_events(document["events"])
    document["integrity"] |= {"events_hash": digest, "event_count": len(document["events"])}
    document["integrity"]["document_hash"] = hash_document(document, digest)
    return document


NAMES = {"hash_alg", "canonicalization", "profile", "c14n", "event_count", "document_hash", "alg"}
"""What only says how hashes were made, or may be left out with a word."""


@pytest.fixture(scope="module")
def changed_export() -> Document:
    """Redacted, truncated, with events dropped and inserted."""
    document: Document = json.loads(run(build_document(60), max_bytes=14000, drop="oldest"))
    found = check_disclosure(document["integrity"]["source"], document["events"])
    assert min(found[1:]) >= 1
    return document


def test_no_change_of_one_field_goes_unseen(changed_export: Document) -> None:
    chance = random.Random(1)
    paths = [
        path for path in leaves(changed_export) if path[0] != "integrity" or path[-1] not in NAMES
    ]
    assert verify(changed_export).status == VERIFIED
    for _ in range(300):
        path = chance.choice(paths)
        assert verify(tampered(changed_export, path, chance)).status != VERIFIED, path


def test_no_change_of_the_commitment_goes_unseen(changed_export: Document) -> None:
    chance = random.Random(2)
    tie_paths = [
        ("integrity", "source", *path) for path in leaves(changed_export["integrity"]["source"])
    ]
    for _ in range(300):
        path = chance.choice([path for path in tie_paths if path[-1] not in NAMES])
        verdict = verify(tampered(changed_export, path, chance))
        broken = [part.name for part in verdict.parts if part.state == "mismatch"]
        assert len(broken) == 1, path
        assert broken[0].startswith("source."), path


def test_a_change_with_hashes_made_anew_breaks_the_root(changed_export: Document) -> None:
    chance = random.Random(3)
    source = changed_export["integrity"]["source"]
    inserted = {
        first + step
        for first, place, count in source["map"]
        if place is None
        for step in range(count)
    }
    altered = {int(seq) for seq in source["commitments"]}
    paths = [
        ("events", place, *path)
        for place, event in enumerate(changed_export["events"])
        for path in leaves(event)
        if place + 1 not in inserted
        and not (place + 1 in altered and path[0] == "content")
        and path != ("seq",)
    ]
    for _ in range(300):
        path = chance.choice(paths)
        verdict = verify(resealed(tampered(changed_export, path, chance)))
        assert [part.name for part in verdict.parts if part.state == "mismatch"] == [
            "source.root"
        ], path


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda d: d["events"].insert(2, message(900, "new")), "source.map"),
        (lambda d: d["events"].pop(), "source.map"),
        (lambda d: d["events"].append(d["events"].pop(3)), "source.root"),
    ],
)
def test_events_put_in_taken_out_or_moved(change: Callable[[Document], Any], part: str) -> None:
    document = json.loads(run(build_document(), **WHOLE))
    change(document)
    verdict = verify(resealed({**document, "events": renumbered(document["events"])}))
    assert [item.name for item in verdict.parts if item.state == "mismatch"] == [part]
    assert verdict.reasons == (f"{part} does not match",)


# --- what is no tie ---


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"size": None}, "size"),
        ({"size": True}, "size"),
        ({"size": 3}, "size"),
        ({"size": 2**60}, "size"),
        ({"size": 5}, "proof"),
        ({"map": None}, "map"),
        ({"map": [[1, 1, 3]]}, "salts"),
        ({"map": [[1, 1, 2], [2, 3, 2]]}, "map"),
        ({"map": [[1, 3, 2], [3, 1, 2]]}, "map"),
        ({"map": [[1, 1, 4], [5, None, 0]]}, "map"),
        ({"map": [[1, 1, 4], [5, None, 1]]}, "map"),
        ({"map": [[1, 1.0, 4]]}, "map"),
        ({"map": [[1, 1, None]]}, "map"),
        ({"map": [[1, 1]]}, "map"),
        ({"salts": 5}, "salts"),
        ({"salts": "?"}, "salts"),
        ({"salts": base64.b64encode(bytes(64)).decode()}, "salts"),
        ({"commitments": []}, "commitments"),
        ({"commitments": {"1": "00"}}, "commitments"),
        ({"commitments": {"1": "0" * 64}}, "salts"),
        ({"commitments": {"9": "0" * 64}}, "commitments"),
        ({"proof": "x"}, "proof"),
        ({"proof": ["A" * 64]}, "proof"),
        ({"proof": ["0" * 64]}, "proof"),
    ],
)
def test_a_fault_names_the_part(change: Document, part: str) -> None:
    events = events_of(4)
    made = json.loads(json.dumps(build_disclosure(committed(events), events)))
    assert check_disclosure(made, events).root == made["root"]
    with pytest.raises(CommitmentError, match=f"^{part}$"):
        check_disclosure(made | change, events)


def test_the_size_is_part_of_the_root() -> None:
    """A hidden end looks the same for any number of leaves that its hash may stand for."""
    events = events_of(10)
    made = build_disclosure(committed(events), events[:8])
    made["size"] = 9
    made["map"] = [list(row) for row in made["map"]]
    assert check_disclosure(made, events[:8]).root != made["root"]


SCALARS = st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=6)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)


@given(
    st.dictionaries(
        st.sampled_from(["size", "root", "map", "salts", "commitments", "proof"]), JSON
    ),
    JSON,
)
def test_anything_gets_an_answer(change: Document, event: Any) -> None:
    events = events_of(3)
    made = json.loads(json.dumps(build_disclosure(committed(events), events)))
    for shown in (events, [*events[:2], event]):
        with contextlib.suppress(CommitmentError):
            assert isinstance(check_disclosure(made | change, shown), SourceCoverage)


@pytest.mark.parametrize("source", [{}, None, [], {"alg": "ot-leaf/2"}])
def test_another_way_is_not_checked(source: Any) -> None:
    document = json.loads(run(build_document()))
    document["integrity"]["source"] = source
    verdict = verify(document)
    assert (verdict.status, verdict.warnings) == (VERIFIED, ("source was not checked",))


def test_the_command_distinguishes_the_states(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(run(build_document()))
    assert main(["verify", str(path)]) == 0
    assert (
        "source         20 verbatim, 2 altered and declared, 1 inserted, 2 dropped\n"
        in capsys.readouterr().out
    )
    document = json.loads(path.read_bytes())
    document["integrity"]["source"]["map"][0][2] -= 1
    path.write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1
    assert "FAIL  source.map     does not fit the events\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [{}, {"mode": "ndjson"}, {"max_bytes": 6000, "drop": "oldest"}, {"redact": "strict"}]
)
def test_an_export_of_a_committed_export_keeps_its_commitment(
    words: dict[str, Any], known_key: bytes
) -> None:
    context = load_context({"integrity": "source", **words})
    first, second = io.BytesIO(), io.BytesIO()
    export(Source.of(EXAMPLES / "claude_code.jsonl"), first, context)
    export(Source("again", data=first.getvalue()), second, context)
    assert second.getvalue() == first.getvalue()


def test_a_commitment_that_does_not_hold_is_not_carried_on(known_key: bytes) -> None:
    context = load_context({"integrity": "source", "pretty": False})
    first, second = io.BytesIO(), io.BytesIO()
    export(Source.of(EXAMPLES / "claude_code.jsonl"), first, context)
    document = json.loads(first.getvalue())
    document["integrity"]["source"]["root"] = "0" * 64
    export(Source("again", data=json.dumps(document).encode()), second, context)
    assert verify_bytes(second.getvalue()).status == "verified"
