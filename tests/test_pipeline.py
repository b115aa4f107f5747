"""The whole pipeline: what is true of every export, with any content."""

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers import fake_format
from helpers.minimal_example import EVENTS_HASH, MINIMAL
from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.errors import InputError, OpenTokenError, SizeLimitError
from open_token.options import ExportOptions
from open_token.pipeline import Receipt, export
from open_token.sources.source import Source

Json = dict[str, Any]

KEY = bytes(range(32))
SECRET = "ghp_" + "a1B2" * 9
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            f"the token is {SECRET}.",
            "write to ada@example.org or call +1 212 555 0187",
            f'{{"password": "{SECRET[4:20]}", "n": 1}}',
            "[REDACTED:github-token:01234567] and [REDACTED:",
            "word " * 400,
            "é😀\u2028" * 500,
            f"{'x' * 1020}{SECRET}{'y' * 600}",
        ]
    ),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), TEXTS),
        st.tuples(st.just("blocks"), st.lists(VALUES, max_size=3)),
        st.tuples(st.just("think"), st.none() | TEXTS),
        st.tuples(st.just("gist"), TEXTS),
        st.tuples(st.just("call"), VALUES),
        st.tuples(st.just("result"), VALUES),
        st.tuples(st.just("orphan"), TEXTS),
        st.tuples(st.just("note"), VALUES),
        st.tuples(st.just("span"), VALUES),
        st.tuples(st.just("end"), st.none()),
    ),
    min_size=1,
    max_size=14,
)


class DraftDriver:
    """Tells random steps to a Draft, as a reader would."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.draft.conversation["id"] = "conv_random"
        self.person = self.draft.get_actor("human", "ada@example.org")
        self.model = self.draft.get_actor("model", "m", provider="openai")
        self.calls: list[str] = []
        self.spans: list[str] = []

    @property
    def span(self) -> str | None:
        return self.spans[-1] if self.spans else None

    def step(self, kind: str, value: Any) -> None:
        draft = self.draft
        if kind in ("say", "blocks"):
            draft.add_message("user", value, self.person, ts="2026-01-31T10:00:00Z", span=self.span)
        elif kind in ("think", "gist"):
            draft.add_reasoning(
                value,
                self.model,
                span=self.span,
                summary=kind == "gist",
                usage={"output_tokens": 3},
            )
        elif kind == "call":
            self.calls.append(draft.add_tool_call(None, "ls", value, self.model, span=self.span))
        elif kind == "result" and self.calls:
            draft.add_tool_result(self.calls.pop(0), value, facts={"exit_code": 0})
        elif kind == "orphan":
            draft.add_tool_result("nobody", value)
        elif kind == "note":
            draft.add_annotation({"kind": "note", "value": value})
        elif kind == "span":
            self.spans.append(draft.start_span({"spawn_reason": value}, self.model))
        elif kind == "end" and self.spans:
            draft.end_span(self.spans.pop())


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Random conversations, as documents before any pass."""
    driver = DraftDriver()
    for kind, value in draw(STEPS):
        driver.step(kind, value)
    record = driver.draft.finish(lambda: "0" * 64)
    events = [{**event, "seq": place} for place, event in enumerate(record.events, 1)]
    assume(events)
    for event in events:
        if draw(st.integers(0, 9)) == 0:
            event["mood"] = draw(VALUES)  # type: ignore[typeddict-unknown-key]
    document = {
        "open_token_version": "0.1",
        "conversation": record.conversation,
        "participants": record.participants,
    }
    return json.dumps(document | {"events": events}).encode()


@st.composite
def option_words(draw: st.DrawFn) -> Json:
    """Random options, in which nothing is said about size."""
    return {
        "mode": draw(st.sampled_from(["json", "ndjson"])),
        "pretty": draw(st.booleans()),
        "include": draw(st.sampled_from(["visible-only", "include-internal"])),
        "internal": draw(st.sampled_from(["redacted", "summary", "full"])),
        "redact": draw(st.sampled_from(["none", "secrets", "pii", "strict"])),
        "strategy": draw(st.sampled_from(["mask", "drop", "hash"])),
        "integrity": draw(st.sampled_from(["hash", "none", "tree", "source"])),
    }


def run(data: bytes, words: Json, now: str | None = None) -> tuple[bytes, Receipt]:
    out = io.BytesIO()
    context = Context(ExportOptions.of(words), key=KEY, team_key=b"team", now=now)
    receipt = export(Source("session", data=data), out, context)
    return out.getvalue(), receipt


def events_of(data: bytes) -> list[Json]:
    if data.startswith(b'{"type":"header"'):
        lines = [json.loads(line) for line in data.splitlines()]
        return [line for line in lines if line["type"] == "event"]
    events: list[Json] = json.loads(data)["events"]
    return events


class TestEveryConversation:
    """Properties that hold for any conversation."""

    @given(documents(), option_words())
    def test_an_export_of_an_export_is_the_same_bytes(self, data: bytes, words: Json) -> None:
        once, _ = run(data, words)
        assert run(once, words)[0] == once

    @given(documents(), option_words(), st.integers(0, 9), st.sampled_from(["never", "oldest"]))
    def test_a_fitted_export_fits_and_stays_the_same(
        self, data: bytes, words: Json, tenths: int, drop: str
    ) -> None:
        full, _ = run(data, words)
        fitting = {**words, "max_bytes": max(1, len(full) * tenths // 10), "drop": drop}
        try:
            once, _ = run(data, fitting)
        except SizeLimitError as problem:
            fitting["max_bytes"] = problem.smallest
            once, _ = run(data, fitting)
        assert len(once) <= fitting["max_bytes"]
        assert run(once, fitting)[0] == once

    @given(documents(), option_words())
    def test_json_and_ndjson_are_the_same_events(self, data: bytes, words: Json) -> None:
        receipts = [
            run(data, {**words, "integrity": "hash", "mode": mode})[1]
            for mode in ("json", "ndjson")
        ]
        hashes = {receipt.integrity["events_hash"] for receipt in receipts if receipt.integrity}
        assert len(hashes) == 1

    @given(documents(), option_words())
    def test_one_mode_leads_to_the_other_and_back(self, data: bytes, words: Json) -> None:
        as_json, _ = run(data, {**words, "mode": "json"})
        as_lines, _ = run(as_json, {**words, "mode": "ndjson"})
        assert run(as_lines, {**words, "mode": "json"})[0] == as_json

    @pytest.mark.spec("causal-order", "seq-contiguous")
    @given(documents(), option_words())
    def test_order_and_ids_are_kept(self, data: bytes, words: Json) -> None:
        before = events_of(data)
        out, receipt = run(data, words)
        after = events_of(out)
        gone = {
            e["id"] for e in before if e.get("role") == "assistant_thought" and "usage" not in e
        }
        kept = [
            e["id"] for e in before if words["include"] == "include-internal" or e["id"] not in gone
        ]
        assert [event["id"] for event in after] == kept
        assert [event["seq"] for event in after] == list(range(1, len(after) + 1))
        assert (receipt.events, receipt.bytes) == (len(after), len(out))

    @pytest.mark.spec("correct-attribution", "event-links")
    @given(documents(), option_words())
    def test_links_and_actors_are_kept(self, data: bytes, words: Json) -> None:
        before = {event["id"]: event for event in events_of(data)}
        for event in events_of(run(data, words)[0]):
            assert event.get("links") == before[event["id"]].get("links")
            assert event["actor_id"] == before[event["id"]]["actor_id"]


NAMES = (
    "id",
    "seq",
    "ts",
    "type",
    "actor_id",
    "visibility",
    "role",
    "content",
    "links",
    "usage",
    "mime",
    "text",
    "data",
)
FRAME = (
    "conversation",
    "participants",
    "events",
    "integrity",
    "exported_at",
    "redaction",
    "notes",
    "title",
    "call_id",
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.sampled_from(["tool_use", "span_start", "evt_000001"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES + FRAME), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def strange_documents(draw: st.DrawFn) -> bytes:
    """The minimal example with odd things in odd places."""
    document = json.loads(MINIMAL)
    document["integrity"] = {"coercions": [{"seq": 1, "ptr": "/content", "was": "integer"}]}
    event = draw(st.sampled_from(document["events"]))
    places = [
        document,
        document["conversation"],
        document["participants"][0],
        event,
        event["content"],
    ]
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.sampled_from(places))
        name = draw(st.sampled_from([*place, *NAMES, *FRAME]))
        if draw(st.booleans()):
            place[name] = draw(ODD)
        else:
            place.pop(name, None)
    return json.dumps(document).encode()


class TestStrangeExports:
    """What others may have written is exported, or refused in our words."""

    @given(
        strange_documents(),
        option_words(),
        st.none() | st.integers(300, 3000),
        st.sampled_from(["never", "oldest"]),
    )
    def test_nothing_falls_over(
        self, data: bytes, words: Json, limit: int | None, drop: str
    ) -> None:
        wanted = {**words, "max_bytes": limit, "drop": drop}
        try:
            once, _ = run(data, wanted)
        except OpenTokenError:
            return
        assert run(once, wanted)[0] == once


class TestMinimalExample:
    """The spec's own example."""

    @pytest.mark.spec("specification-example")
    def test_minimal_example_has_the_known_hash(self) -> None:
        for mode in ("json", "ndjson"):
            _, receipt = run(MINIMAL.encode(), {"mode": mode})
            assert receipt.integrity is not None
            assert receipt.integrity["events_hash"] == EVENTS_HASH

    @pytest.mark.spec("specification-example")
    @pytest.mark.parametrize("pretty", [True, False])
    def test_minimal_example_round_trips(self, pretty: bool) -> None:
        out, receipt = run(MINIMAL.encode(), {"pretty": pretty})
        again = json.loads(out)
        expected = json.loads(MINIMAL)
        del expected["conversation"]["provider"], expected["conversation"]["source_runtime"]
        assert again["events"] == expected["events"]
        assert again["participants"] == expected["participants"]
        assert again["exported_at"] == expected["exported_at"]
        for name in ("id", "internal_availability"):
            assert again["conversation"][name] == expected["conversation"][name]
        assert (receipt.events, receipt.calls, receipt.missing_results) == (5, 1, 0)
        assert [note.code for note in receipt.notes] == ["unknown-value"]

    @pytest.mark.spec("specification-example")
    @pytest.mark.parametrize(
        "shape",
        [
            lambda event: {**event, "type": "event", "event_type": event["type"]},
            lambda event: {"type": "event", "event": event},
            lambda event: event,
        ],
    )
    def test_every_line_shape_reads_to_the_same_bytes(self, shape: Callable[[Json], Json]) -> None:
        document = json.loads(MINIMAL)
        events = document.pop("events")
        lines = [{"type": "header", **document}, *map(shape, events), {"type": "footer"}]
        out, _ = run(b"".join(json.dumps(line).encode() + b"\n" for line in lines), {})
        assert out == run(MINIMAL.encode(), {})[0]


class TestExportedAt:
    """The time of the export."""

    NATIVE = b'{"fake_session": "a"}\n{"say": "hi"}\n'
    NOW = "2026-05-05T05:05:05Z"

    @pytest.mark.spec("exported-at")
    @pytest.mark.parametrize(
        ("wish", "of_native", "of_export"),
        [
            ({}, NOW, "2026-01-31T00:00:00Z"),
            ({"exported_at": "now"}, NOW, NOW),
            ({"exported_at": "omit"}, None, None),
            ({"exported_at": "keep"}, None, "2026-01-31T00:00:00Z"),
            (
                {"exported_at": "2020-02-02T02:02:02+02:00"},
                "2020-02-02T00:02:02Z",
                "2020-02-02T00:02:02Z",
            ),
        ],
    )
    def test_who_says_it(
        self,
        wish: Json,
        of_native: str | None,
        of_export: str | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        fake_format.install_fake_format(monkeypatch)
        for data, expected in ((self.NATIVE, of_native), (MINIMAL.encode(), of_export)):
            assert json.loads(run(data, wish, self.NOW)[0]).get("exported_at") == expected


class TestNotes:
    """What the receipt says about omissions."""

    def test_half_lines_and_surrogates(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_format.install_fake_format(monkeypatch)
        out, receipt = run(b'{"fake_session": "a"}\n{"say": "x\\ud800"}\n{"say": "ha', {})
        assert [(note.code, note.place, note.count) for note in receipt.notes] == [
            ("half-line", "line 3", 1),
            ("lone-surrogate", "line 2", 1),
        ]
        assert json.loads(out)["events"][0]["content"]["text"] == "x\ufffd"

    def test_nothing_said_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_format.install_fake_format(monkeypatch)
        with pytest.raises(InputError) as caught:
            run(b'{"fake_session": "a"}\n', {})
        assert caught.value.code == "input.no-events"


def test_a_named_reader_is_not_asked_whether_it_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_format.install_fake_format(monkeypatch)
    out = io.BytesIO()
    data = b'{"say": "hi"}\n'
    context = Context(ExportOptions.of({"redact": "none"}))
    receipt = export(Source("session", data=data), out, context, "fake_session")
    assert (receipt.reader, receipt.events) == ("fake_session", 1)
    assert receipt.conversation_id == f"conv_00000000_{hashlib.sha256(data).hexdigest()[:8]}"


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_the_id_of_a_redacted_export_confirms_no_guess(
    monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    fake_format.install_fake_format(monkeypatch)

    def find_id(phone: str, key: bytes | None) -> str:
        source = Source("session", data=b'{"say": "call +1 212 555 %s"}\n' % phone.encode())
        context = Context(ExportOptions.of({"redact": "pii"}), key=key)
        return export(source, io.BytesIO(), context, "fake_session").conversation_id

    assert find_id("0100", key) == find_id("0100", key)
    if key is None:
        assert find_id("0100", key) == find_id("0199", key)
    else:
        assert find_id("0100", key) != find_id("0100", bytes(31) + b"x")


@pytest.mark.parametrize(
    ("wish", "day"),
    [
        ("", "20260401"),
        ("now", "20260401"),
        ("omit", "00000000"),
        ("2020-02-02T00:00:00Z", "20200202"),
    ],
)
def test_the_day_of_a_made_id_is_that_of_the_export(
    monkeypatch: pytest.MonkeyPatch, wish: str, day: str
) -> None:
    fake_format.install_fake_format(monkeypatch)
    options = ExportOptions.of({"exported_at": wish or None})
    context = Context(options, now="2026-04-01T10:00:00Z")
    receipt = export(
        Source("session", data=b'{"say": "hi"}\n'), io.BytesIO(), context, "fake_session"
    )
    assert receipt.conversation_id[5:13] == day


def test_the_smallest_size_that_a_refusal_names_is_one_that_fits() -> None:
    """Found by hypothesis: room was kept for a tie to the source that was longer than the one in
    the end."""
    tool = {"visibility": "internal", "links": {"call_id": "call_000001"}}
    data = {"mime": "application/json", "data": {"tool_name": "ls", "arguments": {"raw": "null"}}}
    missing = {"mime": "application/json", "data": {"missing_result": True}}
    said = {"type": "message", "actor_id": "act_001", "visibility": "public", "role": "user"}
    text = {"mime": "text/plain", "text": ""}
    document = {
        "open_token_version": "0.1",
        "conversation": {"id": "conv_random", "internal_availability": "unavailable"},
        "participants": [
            {"actor_id": "act_001", "kind": "human", "name": "ada@example.org"},
            {"actor_id": "act_002", "kind": "model", "name": "m", "provider": "openai"},
            {"actor_id": "act_003", "kind": "tool", "name": "ls"},
        ],
        "events": [
            {
                "id": "evt_000001",
                "seq": 1,
                "ts": "2026-01-31T10:00:00Z",
                **said,
                "content": text,
                "mood": None,
            },
            {
                "id": "evt_000002",
                "seq": 2,
                "type": "tool_use",
                "actor_id": "act_002",
                "role": "assistant",
            }
            | {"content": data, **tool},
            {
                "id": "evt_000004",
                "seq": 3,
                "type": "tool_result",
                "actor_id": "act_003",
                "role": "tool",
            }
            | {"content": missing, **tool},
            {"id": "evt_000003", "seq": 4, "ts": "2026-01-31T10:00:00Z", **said, "content": text},
        ],
    }
    words = {
        "mode": "json",
        "pretty": False,
        "redact": "none",
        "integrity": "source",
        "drop": "oldest",
    }
    with pytest.raises(SizeLimitError) as caught:
        run(json.dumps(document).encode(), {**words, "max_bytes": 1})
    out, _ = run(json.dumps(document).encode(), {**words, "max_bytes": caught.value.smallest})
    assert len(out) == caught.value.smallest
