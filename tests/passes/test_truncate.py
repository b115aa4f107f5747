"""An export fits into max_bytes as the spec says: largest texts first, marks and pairs whole,
always the same bytes."""

import io
import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.context import Context
from open_token.errors import SizeLimitError
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.passes.truncate import truncate
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

Document = dict[str, Any]
MARK = "[REDACTED:api_key:0a1b2c3d]"
PEOPLE = [
    {"actor_id": "act_001", "kind": "human", "name": "user"},
    {"actor_id": "act_002", "kind": "model", "name": "helper"},
    {"actor_id": "act_003", "kind": "tool", "name": "sh"},
]


def text(words: str) -> Document:
    return {"mime": "text/plain", "text": words}


def data(value: Any) -> Document:
    return {"mime": "application/json", "data": value}


def message(words: str) -> Document:
    return {
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": text(words),
    }


def use(call: int, arguments: Any, span: int = 0) -> Document:
    content = data({"tool_name": "sh", "arguments": arguments})
    made = {
        "type": "tool_use",
        "actor_id": "act_002",
        "visibility": "internal",
        "role": "assistant",
        "content": content,
    }
    return made | {"links": _links(call, span)}


def result(call: int, content: Document, span: int = 0) -> Document:
    made = {
        "type": "tool_result",
        "actor_id": "act_003",
        "visibility": "internal",
        "role": "tool",
        "content": content,
    }
    return made | {"links": _links(call, span)}


def _links(call: int, span: int) -> Document:
    links = {"call_id": f"call_{call:06d}"} if call else {}
    return links | ({"span_id": f"span_{span:06d}"} if span else {})


def edge(kind: str, span: int, call: int = 0) -> Document:
    made = {"type": kind, "actor_id": "act_002", "visibility": "internal", "content": data({})}
    return made | {"links": _links(call, span)}


def about(place: int, facts: Document) -> Document:
    """An annotation about the event at a place (from 1)."""
    made = {
        "type": "annotation",
        "actor_id": "act_003",
        "visibility": "metadata",
        "content": data(facts),
    }
    return made | {"links": {"parent_id": f"evt_{place:06d}"}}


def document(*events: Document, **more: Any) -> Document:
    numbered = [{"id": f"evt_{n:06d}", "seq": n, **event} for n, event in enumerate(events, 1)]
    conversation = {"id": "conv_1", "internal_availability": "unavailable"}
    return {
        "open_token_version": "0.1",
        "conversation": conversation,
        "participants": PEOPLE,
        "events": numbered,
        **more,
    }


def run(source: Document | bytes, **options: Any) -> bytes:
    raw = source if isinstance(source, bytes) else orjson.dumps(source)
    out = io.BytesIO()
    context = Context(
        ExportOptions.of({"redact": "none", "pretty": False, "exported_at": "omit", **options})
    )
    export(Source("test", data=raw), out, context, "open_token")
    return out.getvalue()


def events(raw: bytes) -> list[Document]:
    found: list[Document] = json.loads(raw)["events"]
    return found


def contents(raw: bytes) -> list[Document]:
    return [event["content"] for event in events(raw)]


def squeezed(source: Document, **options: Any) -> bytes:
    """As small as it gets without dropping."""
    with pytest.raises(SizeLimitError) as caught:
        run(source, max_bytes=1, **options)
    return run(source, max_bytes=caught.value.smallest, **options)


def ascending(length: int) -> str:
    """A text in which every place can be told from every other."""
    return "".join(f"{n:07d}" for n in range(length // 7 + 1))[:length]


# --- texts ---


def test_without_a_limit_and_with_room_nothing_changes() -> None:
    record = Record(conversation={"id": "c"}, participants=[], events=[])
    assert truncate(record, Context(ExportOptions())) is record
    whole = run(document(message("x" * 9000)))
    assert run(document(message("x" * 9000)), max_bytes=len(whole)) == whole


def test_a_text_keeps_its_first_1024_and_last_256_characters() -> None:
    words = ascending(9000)
    whole = run(document(message(words)))
    (content,) = contents(run(document(message(words)), max_bytes=len(whole) - 1))
    assert content["text"] == words[:1024] + "…" + words[-256:]
    assert content == {
        "mime": "text/plain",
        "text": content["text"],
        "data": {"truncated": True, "original_length": 9000},
    }


@pytest.mark.spec("truncation-ends")
def test_characters_are_code_points() -> None:
    words = "😀é" * 3000
    (content,) = contents(squeezed(document(message(words))))
    assert content["text"] == words[:1024] + "…" + words[-256:]
    assert content["data"]["original_length"] == 6000


def test_the_largest_goes_first_and_no_more_than_needed() -> None:
    source = document(*(message("x" * size) for size in (3000, 9000, 5000, 9000, 100)))
    whole = len(run(source))
    cut = [
        [n for n, c in enumerate(contents(run(source, max_bytes=whole - less))) if "data" in c]
        for less in (1, 7000, 7700, 15400, 19100)
    ]
    assert cut == [[1], [1], [1, 3], [1, 2, 3], [0, 1, 2, 3]]


def test_a_text_that_would_not_shrink_stays_whole() -> None:
    source = document(message("x" * 1281), message("y" * 1300), message("z" * 5000))
    shortest = contents(squeezed(source))
    assert [len(content["text"]) for content in shortest] == [1281, 1300, 1281]


@pytest.mark.parametrize("start", range(1024 - len(MARK), 1026))
def test_a_mark_at_the_first_edge_is_never_cut(start: int) -> None:
    words = "x" * start + MARK + "y" * 5000
    (content,) = contents(squeezed(document(message(words))))
    assert content["text"].startswith(words[:1024])
    assert content["text"].count(MARK) == (1 if start < 1024 else 0)
    assert "[REDACTED" not in content["text"].replace(MARK, "")


@pytest.mark.parametrize("tail", range(256 - len(MARK) - 1, 258))
def test_a_mark_at_the_last_edge_is_never_cut(tail: int) -> None:
    words = "y" * 5000 + MARK + "x" * tail
    (content,) = contents(squeezed(document(message(words))))
    assert content["text"].endswith(words[-256:])
    assert content["text"].count(MARK) == (1 if tail < 256 else 0)
    assert "0a1b2c3d" not in content["text"].replace(MARK, "")


def test_data_of_a_summary_stays() -> None:
    thought = {
        **message("x" * 5000),
        "actor_id": "act_002",
        "visibility": "internal",
        "role": "assistant_thought",
    }
    thought["content"]["data"] = {"summary": "runtime"}
    raw = squeezed(document(thought), include="include-internal", internal="summary")
    assert contents(raw)[0]["data"] == {
        "summary": "runtime",
        "truncated": True,
        "original_length": 5000,
    }


def test_a_cut_text_keeps_its_original_length_when_it_is_cut_again() -> None:
    earlier = message("x" * 4000)
    earlier["content"]["data"] = {"truncated": True, "original_length": 90_000}
    (content,) = contents(squeezed(document(earlier)))
    assert content["data"] == {"truncated": True, "original_length": 90_000}


@pytest.mark.spec("truncation-order")
def test_texts_go_before_data() -> None:
    source = document(message("x" * 3000), use(1, {"command": "y" * 9000}), result(1, text("ok")))
    first, second, _ = contents(run(source, max_bytes=len(run(source)) - 1))
    assert first["data"]["truncated"] is True
    assert second["data"]["arguments"] == {"command": "y" * 9000}


# --- data ---


@pytest.mark.spec("truncated-json")
def test_a_string_in_an_object_is_marked_beside_it() -> None:
    words = ascending(5000)
    source = document(
        use(1, {"command": words, "cwd": "x"}), result(1, data({"a": {"b": words}, "c": 1}))
    )
    cut = words[:1024] + "…" + words[-256:]
    first, second = contents(squeezed(source))
    assert first["data"] == {
        "tool_name": "sh",
        "arguments": {"command": cut, "cwd": "x", "truncated": True},
    }
    assert second["data"] == {"a": {"b": cut, "truncated": True}, "c": 1}


def test_the_largest_string_goes_first() -> None:
    source = document(
        use(1, {"a": "x" * 4000, "b": "y" * 9000}), result(1, data({"c": "z" * 6000}))
    )
    whole = len(run(source))
    first, second = contents(run(source, max_bytes=whole - 7000))
    assert [len(first["data"]["arguments"][name]) for name in "ab"] == [4000, 1281]
    assert len(second["data"]["c"]) == 6000
    first, second = contents(run(source, max_bytes=whole - 12_000))
    assert [len(first["data"]["arguments"][name]) for name in "ab"] == [4000, 1281]
    assert len(second["data"]["c"]) == 1281


def test_a_string_in_an_array_is_marked_in_the_nearest_object() -> None:
    source = document(use(1, ["sh", "x" * 5000]), result(1, text("ok")))
    first, _ = contents(run(source, max_bytes=len(run(source)) - 3000))
    assert first["data"]["truncated"] is True
    assert [len(word) for word in first["data"]["arguments"]] == [2, 1281]


def test_strings_and_arrays_without_an_object_around() -> None:
    source = document(
        use(1, {}), result(1, data(["x" * 5000])), use(2, {}), result(2, data("y" * 5000))
    )
    _, first, _, second = contents(squeezed(source))
    assert [len(first["data"][0]), first["data"][1]] == [1281, {"truncated": True, "omitted": 0}]
    assert len(second["data"].pop("text")) == 1281
    assert second["data"] == {"truncated": True, "original_length": 5000}


def test_a_key_that_means_something_else_is_not_overwritten() -> None:
    _, content = contents(
        squeezed(
            document(use(1, {}), result(1, data({"in": {"truncated": "no", "s": "x" * 5000}})))
        )
    )
    assert content["data"]["in"]["truncated"] == "no"
    assert content["data"]["truncated"] is True


def test_media_keep_their_hash_and_lose_their_bytes() -> None:
    media = {
        "type": "image",
        "media_type": "image/png",
        "encoding": "base64",
        "bytes": 3000,
        "sha256": "0" * 64,
    }
    source = document(
        use(1, {}),
        result(1, data([{"type": "text", "text": "ok"}, {**media, "base64": "AAAA" * 1000}])),
    )
    _, content = contents(squeezed(source))
    assert content["data"] == [{"type": "text", "text": "ok"}, {**media, "truncated": True}]


def test_the_name_of_a_tool_stays() -> None:
    source = document(use(1, {}), result(1, text("ok")))
    source["events"][0]["content"]["data"]["tool_name"] = "n" * 5000
    assert contents(squeezed(source))[0]["data"] == {"tool_name": "n" * 5000, "arguments": {}}


def test_an_array_keeps_its_first_elements() -> None:
    rows = [f"row {n:05d}" for n in range(1000)]
    first, second = contents(squeezed(document(use(1, rows), result(1, data({"rows": rows})))))
    for cut in (first["data"]["arguments"], second["data"]["rows"]):
        assert cut[:-1] == rows[: len(cut) - 1]
        assert cut[-1] == {"truncated": True, "omitted": 1000 - (len(cut) - 1)}
        assert 900 < len(json.dumps(cut[:-1], separators=(",", ":"))) <= 1026
    assert first["data"].keys() == {"tool_name", "arguments"}


def test_an_array_keeps_one_element_at_least() -> None:
    blocks = [{"type": "text", "text": "x" * 5000} for _ in range(5)]
    _, content = contents(squeezed(document(use(1, {}), result(1, data(blocks)))))
    assert len(content["data"]) == 2
    assert content["data"][0]["truncated"] is True
    assert len(content["data"][0]["text"]) == 1281
    assert content["data"][1] == {"truncated": True, "omitted": 4}


def test_an_array_that_was_cut_before_adds_up() -> None:
    rows: list[Any] = [*(f"row {n:05d}" for n in range(1000)), {"truncated": True, "omitted": 7}]
    _, content = contents(squeezed(document(use(1, {}), result(1, data(rows)))))
    assert len(content["data"]) - 1 + content["data"][-1]["omitted"] == 1007


def test_inner_arrays_are_cut_too() -> None:
    long = [f"cell {n:05d}" for n in range(1000)]
    _, content = contents(squeezed(document(use(1, {}), result(1, data([long, long, long])))))
    assert content["data"][1] == {"truncated": True, "omitted": 2}
    assert content["data"][0][-1]["truncated"] is True
    _, content = contents(squeezed(document(use(1, {}), result(1, data([long, "short"])))))
    assert content["data"][1] == "short"
    assert content["data"][0][-1]["truncated"] is True


def test_an_event_with_very_many_strings_is_cut_in_groups() -> None:
    source = document(use(1, {}), result(1, data({f"k{n}": "x" * (2000 + n) for n in range(300)})))
    whole = len(run(source))
    _, content = contents(run(source, max_bytes=whole - 1))
    assert (
        sorted(len(v) for k, v in content["data"].items() if k != "truncated")[:20].count(1281)
        == 19
    )
    _, content = contents(squeezed(source))
    assert all(len(v) == 1281 for k, v in content["data"].items() if k != "truncated")


def test_missing_results_and_placeholders_stay() -> None:
    source = document(use(1, {}), result(1, data({"missing_result": True})), message("x" * 5000))
    assert contents(squeezed(source))[1] == data({"missing_result": True})


# --- the end of what can be cut ---


@pytest.mark.parametrize(
    "options", [{"mode": "json", "pretty": True}, {"mode": "json"}, {"mode": "ndjson"}]
)
@pytest.mark.parametrize("integrity", ["hash", "none", "tree"])
def test_the_smallest_size_is_exact(options: Document, integrity: str) -> None:
    source = document(
        *(message("é" * size) for size in (10, 4000, 2000)),
        use(1, {}),
        result(1, data(["z" * 4000] * 3)),
    )
    with pytest.raises(SizeLimitError) as caught:
        run(source, max_bytes=1000, integrity=integrity, **options)
    smallest = caught.value.smallest
    assert str(smallest) in caught.value.what
    assert "drop=oldest" in (caught.value.help or "")
    assert len(run(source, max_bytes=smallest, integrity=integrity, **options)) == smallest
    with pytest.raises(SizeLimitError):
        run(source, max_bytes=smallest - 1, integrity=integrity, **options)


# --- drop=oldest ---


def test_the_oldest_go_and_an_annotation_counts_them() -> None:
    source = document(*(message(f"{n} " + "x" * 500) for n in range(20)))
    made = run(source, max_bytes=6000, drop="oldest")
    first, *rest = events(made)
    count = 20 - len(rest)
    assert first == {
        "id": "evt_000021",
        "seq": 1,
        "type": "annotation",
        "actor_id": "act_004",
        "visibility": "metadata",
        "content": data(
            {
                "kind": "dropped",
                "events": count,
                "by_type": {"message": count},
                "first_id": "evt_000001",
                "last_id": f"evt_{count:06d}",
            }
        ),
    }
    assert [event["id"] for event in rest] == [f"evt_{n:06d}" for n in range(count + 1, 21)]
    assert [event["seq"] for event in rest] == list(range(2, len(rest) + 2))
    assert json.loads(made)["participants"][-1] == {
        "actor_id": "act_004",
        "kind": "system",
        "name": "open-token",
    }
    assert 5300 < len(made) <= 6000


def test_nothing_is_dropped_when_cutting_is_enough() -> None:
    source = document(message("x" * 9000), message("y"))
    limit = len(run(source)) - 1
    assert run(source, max_bytes=limit, drop="oldest") == run(source, max_bytes=limit)


def test_what_stays_is_cut_no_more_than_needed() -> None:
    many = [
        edge("span_start", 1),
        *({**message("a" * 700), "links": _links(0, 1)} for _ in range(20)),
        edge("span_end", 1),
    ]
    source = document(*many, message("x" * 2000), message("y" * 1500))
    made = run(source, max_bytes=6000, drop="oldest")
    assert [event["type"] for event in events(made)] == ["annotation", "message", "message"]
    assert [len(content["text"]) for content in contents(made)[1:]] == [2000, 1500]


@pytest.mark.spec("drop-oldest")
def test_calls_spans_and_annotations_go_whole() -> None:
    source = document(
        use(1, {"task": "x" * 900}),
        edge("span_start", 1, call=1),
        use(2, {}, span=1),
        message("in between " + "z" * 900),
        result(2, text("two"), span=1),
        edge("span_end", 1),
        message("later " + "z" * 900),
        result(1, text("one")),
        about(8, {"exit_code": 0}),
        {**message("last"), "links": {"parent_id": "evt_000001", "replies_to": "evt_000007"}},
    )
    whole = len(run(source))
    made = run(source, max_bytes=whole - 800, drop="oldest")
    assert [event["id"][-2:] for event in events(made)] == ["11", "04", "07", "10"]
    assert events(made)[0]["content"]["data"]["by_type"] == {
        "annotation": 1,
        "span_end": 1,
        "span_start": 1,
        "tool_result": 2,
        "tool_use": 2,
    }
    assert events(made)[-1]["links"] == {"replies_to": "evt_000007"}
    made = run(source, max_bytes=1400, drop="oldest")
    assert "links" not in events(made)[-1]


def test_a_second_drop_takes_over_the_account_of_the_first() -> None:
    source = document(*(message(f"{n} " + "x" * 500) for n in range(20)))
    once = run(source, max_bytes=6000, drop="oldest")
    twice = run(once, max_bytes=4000, drop="oldest")
    account = contents(twice)[0]["data"]
    assert account["events"] + len(events(twice)) - 1 == 20
    assert (account["first_id"], account["by_type"]) == (
        "evt_000001",
        {"message": account["events"]},
    )
    assert [event["type"] for event in events(twice)].count("annotation") == 1
    assert len(json.loads(twice)["participants"]) == 4


def test_coercions_of_dropped_events_go_too() -> None:
    source = document(*(message(f"{n} " + "x" * 500) for n in range(20)))
    source["integrity"] = {
        "coercions": [{"seq": n, "ptr": "/content/data/n", "was": "integer"} for n in (1, 20)]
    }
    made = json.loads(run(source, max_bytes=6000, drop="oldest"))
    assert made["integrity"]["coercions"] == [
        {"seq": len(made["events"]), "ptr": "/content/data/n", "was": "integer"}
    ]


def test_when_even_that_is_too_large_the_smallest_size_is_reported() -> None:
    source = document(*(message("x" * 500) for _ in range(20)))
    with pytest.raises(SizeLimitError) as caught:
        run(source, max_bytes=100, drop="oldest")
    made = run(source, max_bytes=caught.value.smallest, drop="oldest")
    assert len(made) == caught.value.smallest
    assert [event["type"] for event in events(made)] == ["annotation"]


# --- for any conversation ---

SIZES = st.sampled_from([0, 3, 200, 1281, 1282, 1330, 2500, 6000])
WORDS = st.builds(
    lambda size, fill: (fill * size)[:size],
    SIZES,
    st.sampled_from(["a", "é", "😀x", MARK, f"ab {MARK}", '"\n']),
)
VALUES = st.recursive(
    WORDS | st.integers(0, 99) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "truncated"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def conversations(draw: st.DrawFn) -> Document:
    made: list[Document] = []
    calls = spans = 0
    for kind in draw(
        st.lists(
            st.sampled_from(["message", "call", "parallel", "span", "missing"]),
            min_size=1,
            max_size=8,
        )
    ):
        if kind == "message":
            made.append(message(draw(WORDS)))
        elif kind == "span":
            calls, spans = calls + 2, spans + 1
            inner = [
                use(calls, {"x": draw(VALUES)}, spans),
                result(calls, text(draw(WORDS)), spans),
            ]
            made += [
                use(calls - 1, {}),
                edge("span_start", spans, calls - 1),
                *inner,
                edge("span_end", spans),
            ]
            made += [result(calls - 1, text(draw(WORDS)))]
        elif kind == "parallel":
            calls += 2
            made += [use(calls - 1, {}), use(calls, draw(st.lists(VALUES, max_size=3)))]
            made += [result(calls, data(draw(VALUES))), result(calls - 1, text(draw(WORDS)))]
        else:
            calls += 1
            made += [use(calls, {"x": draw(VALUES)})]
            made += [
                result(calls, data({"missing_result": True} if kind == "missing" else draw(VALUES)))
            ]
            made += [about(len(made), {"exit_code": 1})]
    return document(*made)


FORMS = st.sampled_from([{"mode": "json", "pretty": True}, {"mode": "json"}, {"mode": "ndjson"}])
SHARES = st.floats(0.05, 1.0)


def read(raw: bytes, form: Document) -> list[Document]:
    if form["mode"] == "json":
        return events(raw)
    lines = [json.loads(line) for line in raw.splitlines()[1:-1]]
    return [{**line, "type": line.pop("event_type")} for line in lines]


@given(conversations(), FORMS, SHARES, st.sampled_from(["never", "oldest"]))
def test_any_conversation_fits_or_says_why(
    source: Document, form: Document, share: float, drop: str
) -> None:
    whole = run(source, **form)
    limit = int(len(whole) * share) + 1
    try:
        made, smallest = run(source, max_bytes=limit, drop=drop, **form), 0
    except SizeLimitError as refusal:
        made, smallest = b"", refusal.smallest
    if not made:
        assert smallest > limit
        assert len(run(source, max_bytes=smallest, drop=drop, **form)) == smallest
        return
    assert len(made) <= limit
    assert run(source, max_bytes=limit, drop=drop, **form) == made
    assert run(made, max_bytes=limit, drop=drop, **form) == made
    assert [problem for problem in validate_bytes(made) if problem.severity == "error"] == []
    before, after = read(whole, form), read(made, form)
    kept = [event["id"] for event in after if not _is_account(event)]
    assert kept == [event["id"] for event in before if event["id"] in set(kept)]
    if drop == "never":
        assert len(kept) == len(before)
    originals = {event["id"]: event for event in before}
    for event in after:
        if event["id"] in originals:
            check_texts(originals[event["id"]], event)


def _is_account(event: Document) -> bool:
    value = event["content"].get("data")
    return isinstance(value, dict) and value.get("kind") == "dropped"


def check_texts(before: Document, after: Document) -> None:
    """Everything but the content is the same; the text is whole, or properly cut and marked."""
    fixed = ("id", "type", "actor_id", "visibility", "role")
    assert [before.get(name) for name in fixed] == [after.get(name) for name in fixed]
    words, cut = before["content"].get("text"), after["content"].get("text")
    if words == cut:
        return
    assert after["content"]["data"] == {"truncated": True, "original_length": len(words)}
    head, tail = cut.split("…")
    assert words.startswith(head)
    assert words.endswith(tail)
    assert 1024 <= len(head) <= 1024 + len(MARK)
    assert 256 <= len(tail) <= 256 + len(MARK)
    assert "[REDACTED" not in re.sub(re.escape(MARK), "", cut) or "[REDACTED" in words.replace(
        MARK, ""
    )
