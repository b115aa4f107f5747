"""Inspect AI: one conversation per sample and epoch, what stands only in events, and what is kept
once."""

import io
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from helpers.growth import grows_linearly
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_shapes import iter_misshapen
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["inspect_ai"]

GOLDEN = Path(__file__).parents[1] / "golden" / "inspect_ai"
SPEC = {
    "task": "t",
    "model": "openai/gpt-4o",
    "run_id": "run",
    "created": "",
    "dataset": {},
    "config": {},
}
read = build_read_function(READER)


def log(*samples: Any) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": SPEC, "plan": {}, "samples": list(samples)}


def sample(*events: Any, messages: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    given = {"id": 1, "epoch": 1, "input": "Hi.", "target": "", "messages": messages or []}
    return {**given, "output": {"choices": []}, "events": list(events), **fields}


def said(role: str, content: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **({"id": name} if name else {}), **fields}


def model(
    given: list[Any], *answers: Any, span: str | None = None, **fields: Any
) -> dict[str, Any]:
    choices = [{"message": answer, "stop_reason": "stop"} for answer in answers]
    made = {
        "event": "model",
        "timestamp": "2025-01-01T00:00:00Z",
        "input": given,
        "output": {"choices": choices},
    }
    return {**made, **({"span_id": span} if span else {}), **fields}


def begin(name: str, kind: str, parent: str | None = None) -> dict[str, Any]:
    return {
        "event": "span_begin",
        "id": name,
        "type": kind,
        "name": name,
        "parent_id": parent,
        "span_id": name,
    }


def packed(method: int = zipfile.ZIP_DEFLATED, **members: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, value in members.items():
            made.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return out.getvalue()


def read_log(source: Source, **options: Any) -> tuple[Record, list[Event]]:
    assert READER.sniff(source)
    draft = Draft(**options)
    READER.read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def words(events: list[Event]) -> list[Any]:
    return [
        item
        for item in summarize_events(events)
        if item[0] not in ("annotation", "span_start", "span_end")
    ]


class TestSamples:
    def test_every_sample_of_every_epoch_is_a_conversation(self) -> None:
        samples = [sample(id=1), sample(id=1, epoch=2), sample(id="b"), sample(id=1)]
        source = Source("log", data=json.dumps(log(*samples, "odd")).encode())
        assert [found.id for found in READER.list_conversations(source)] == [
            "1_epoch_1",
            "1_epoch_2",
            "b_epoch_1",
            "1_epoch_1#4",
        ]
        assert READER.find_owner(source, "/samples/2", {}) == "b_epoch_1"
        assert READER.find_owner(source, "/samples/4", "odd") is None
        assert READER.find_owner(source, "/reductions/0", {}) is None

    def test_members_of_an_archive_belong_to_their_samples(self) -> None:
        names = {
            "samples/a_epoch_1_epoch_2.json": sample(),
            "samples/b/c_epoch_1/sample.json": sample(),
        }
        source = Source("log", data=packed(**{"header.json": log(), **names}))
        assert [found.id for found in READER.list_conversations(source)] == [
            "a_epoch_1_epoch_2",
            "b/c_epoch_1",
        ]
        assert READER.find_owner(source, "samples/b/c_epoch_1/events/0.json", None) == "b/c_epoch_1"
        assert READER.find_owner(source, "header.json", None) is None

    def test_the_list_shows_what_was_asked(self) -> None:
        source = Source(
            "log", data=json.dumps(log(sample(input=[said("user", "Why?\n\nSo?")]))).encode()
        )
        found = READER.list_conversations(source)[0]
        assert (found.title, found.messages) == ("Why? So?", 0)

    def test_no_samples_is_an_error(self) -> None:
        for data in (
            json.dumps(log()).encode(),
            packed(**{"_journal/start.json": {"version": 2, "eval": SPEC}}),
        ):
            with pytest.raises(InputError) as caught:
                read_log(Source("log", data=data))
            assert caught.value.code == "input.no-events"

    def test_a_sample_that_is_not_there_is_an_error(self) -> None:
        for data in (
            json.dumps(log(sample())).encode(),
            packed(**{"header.json": log(), "samples/1_epoch_1.json": {}}),
        ):
            source = Source("log", data=data)
            source.conversation = "9_epoch_9"
            with pytest.raises(InputError):
                read_log(source)


class TestZstd:
    MEMBERS: ClassVar = {"header.json": log(), "samples/1_epoch_1.json": sample()}

    def test_it_is_read(self) -> None:
        reader = pytest.importorskip(
            "backports.zstd.zipfile" if sys.version_info < (3, 14) else "zipfile"
        )
        out = io.BytesIO()
        with reader.ZipFile(out, "w", 93) as made:
            for name, value in self.MEMBERS.items():
                made.writestr(name, json.dumps(value))
        assert (
            read_log(Source("log.eval", data=out.getvalue()))[1]
            == read_log(Source("l", data=packed(**self.MEMBERS)))[1]
        )
        broken = out.getvalue().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe")
        with pytest.raises(InputError) as caught:
            read_log(Source("log.eval", data=broken))
        assert caught.value.code == "input.zip"

    def test_without_its_package_it_is_named_with_a_way_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("open_token.sources.containers.load_zstd", lambda: None)
        data = bytearray(
            packed(zipfile.ZIP_STORED, **{"header.json": log(), "samples/1_epoch_1.json": sample()})
        )
        for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            place = data.find(mark)
            while place >= 0:
                struct.pack_into("<H", data, place + offset, 93)
                place = data.find(mark, place + 1)
        with pytest.raises(InputError) as caught:
            read_log(Source("log.eval", data=bytes(data)))
        assert caught.value.code == "input.zstd"
        assert "inspect log dump" in str(caught.value.help)

    def test_a_damaged_member_is_an_error(self) -> None:
        data = packed(**{"header.json": log(), "samples/1_epoch_1.json": sample()})
        with pytest.raises(InputError):
            read_log(Source("log.eval", data=data.replace(b"PK\x01\x02", b"PK\x01\x03")))


class TestMessages:
    def test_without_ids_the_same_words_may_be_said_twice(self) -> None:
        first, answer, again = (
            said("user", "Go on."),
            said("assistant", "Yes."),
            said("user", "Go on."),
        )
        final = [first, answer, again, said("assistant", "Yes.")]
        events = [model([first], answer), model([first, answer, again], said("assistant", "Yes."))]
        _, made = read(log(sample(*events, messages=final)))
        assert words(made) == [
            ("user", "Go on."),
            ("assistant", "Yes."),
            ("user", "Go on."),
            ("assistant", "Yes."),
        ]

    def test_a_message_is_known_by_its_id_though_it_was_shortened(self) -> None:
        full = said(
            "assistant",
            [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}],
            "a",
        )
        short = said("assistant", "Yes (shortened)", "a")
        events = [
            model([said("user", "Hi.", "u")], full),
            model([said("user", "Hi.", "u"), short], said("assistant", "No.")),
        ]
        _, made = read(log(sample(*events)))
        assert [item[1] for item in words(made)] == ["Hi.", "Hm.", "Yes.", "No."]

    def test_final_messages_that_no_model_saw_are_reported_last(self) -> None:
        final = [
            said("user", "Hi.", "u"),
            said("assistant", "Yes.", "a"),
            said("user", "Bye.", "v"),
        ]
        _, made = read(log(sample(model(final[:1], final[1]), messages=final)))
        assert words(made)[-1] == ("user", "Bye.")

    def test_final_messages_that_were_sent_as_one_are_not_reported_again(self) -> None:
        """Two messages in a row that an agent put in go to most providers as one, with an id of its
        own."""
        asked, answer = said("user", "Hi.", "u", source="input"), said("assistant", "Yes.", "a")
        put_in = [said("user", "It is done.", "d"), said("user", "Go on.", "g")]
        joined = said("user", "It is done.\nGo on.", "x")
        record, made = read(
            log(sample(model([asked, joined], answer), messages=[asked, *put_in, answer]))
        )
        assert [text for role, text in words(made) if role == "user"] == [
            "Hi.",
            "It is done.\nGo on.",
        ]
        assert "changed-message" in {note.code for note in record.notes}

    def test_a_call_that_starts_over_says_so(self) -> None:
        events = [
            model([said("user", "Hi.", "u")], said("assistant", "Yes.")),
            model([said("user", "Judge.", "j")]),
        ]
        _, made = read(log(sample(*events)))
        kinds = [
            event["content"]["data"]["kind"] for event in made if event["type"] == "annotation"
        ]
        assert "new_request" in kinds

    def test_what_an_agent_put_in_is_internal(self) -> None:
        given = [said("user", "Hi.", "u", source="input"), said("user", "Keep going.", "k")]
        _, made = read(log(sample(model(given, said("assistant", "Yes.")))))
        assert [event["visibility"] for event in made if event.get("role") == "user"] == [
            "public",
            "internal",
        ]

    def test_a_reference_that_leads_nowhere_is_noted(self) -> None:
        given = [said("user", "attachment://gone", "u")]
        record, made = read(log(sample(model(given), attachments={"other": "x"})))
        assert words(made) == [("user", "attachment://gone")]
        assert "missing-attachment" in {note.code for note in record.notes}

    def test_a_reference_is_followed_wherever_it_stands(self) -> None:
        given = [
            said("user", [{"type": "text", "text": "tc://a"}], "u"),
            said("user", "see attachment://a", "v"),
        ]
        _, made = read(log(sample(model(given), attachments={"a": "all of it"})))
        assert words(made) == [("user", "all of it"), ("user", "see attachment://a")]

    def test_all_samples_take_no_longer_than_each_of_them(self) -> None:
        def read_all(count: int) -> None:
            source = Source(
                "log",
                data=json.dumps(log(*(sample(id=number) for number in range(count)))).encode(),
            )
            for found in READER.list_conversations(source):
                source.conversation = found.id
                READER.read(source, Draft())

        assert grows_linearly(read_all, 400)

    def test_ranges_far_beyond_the_pool_cost_nothing(self) -> None:
        refs = [[0, 10**9]] * 1000 + [[-5, 1], ["a", 1], 0, None]
        pool = {"messages": [said("user", "Hi.", "u")]}
        _, made = read(
            log(sample(model([], said("assistant", "Yes."), input_refs=refs), events_data=pool))
        )
        assert words(made)[0] == ("user", "Hi.")

    def test_a_result_that_no_model_saw_comes_from_the_tool(self) -> None:
        calls = [{"id": "c", "function": "f", "arguments": {}}]
        tool = {
            "event": "tool",
            "id": "c",
            "function": "f",
            "result": "done",
            "completed": "2025-01-01T00:00:09Z",
        }
        _, made = read(
            log(sample(model([said("user", "Hi.")], said("assistant", "", tool_calls=calls)), tool))
        )
        result = next(event for event in made if event["type"] == "tool_result")
        assert (result["content"]["text"], result["ts"]) == ("done", "2025-01-01T00:00:09Z")


class TestUsage:
    @pytest.mark.parametrize(("total", "expected"), [(30, 20), (25, 15), (None, 15)])
    def test_cached_tokens_are_added_where_the_total_says_so(
        self, total: int | None, expected: int
    ) -> None:
        spent = {
            "input_tokens": 15,
            "output_tokens": 10,
            "input_tokens_cache_read": 5,
            "total_tokens": total,
        }
        answer = {"choices": [{"message": said("assistant", "Yes.")}], "usage": spent}
        _, made = read(log(sample(model([said("user", "Hi.")], output=answer))))
        assert [event["usage"]["input_tokens"] for event in made if "usage" in event] == [expected]


class TestSpans:
    def test_the_first_agent_is_the_conversation_itself(self) -> None:
        events = [
            begin("s", "solvers"),
            begin("a", "agent", "s"),
            model([said("user", "Hi.")], span="a"),
        ]
        _, made = read(log(sample(*events)))
        assert all(event["type"] != "span_start" for event in made)

    def test_an_agent_of_an_agent_is_a_subagent(self) -> None:
        events = [
            begin("a", "agent"),
            begin("b", "agent", "a"),
            model([said("user", "Hi.")], span="b"),
        ]
        _, made = read(log(sample(*events)))
        starts = [event["content"]["data"] for event in made if event["type"] == "span_start"]
        assert starts == [{"kind": "subagent", "subagent_type": "b"}]

    def test_a_tool_that_asks_a_model_is_one_too(self) -> None:
        events = [
            begin("a", "agent"),
            begin("b", "tool", "a"),
            model([said("user", "Hi.")], span="b"),
        ]
        _, made = read(log(sample(*events)))
        assert [event["type"] for event in made].count("span_start") == 1

    def test_spans_in_a_circle_end(self) -> None:
        events = [
            begin("a", "agent", "b"),
            begin("b", "agent", "a"),
            model([said("user", "Hi.")], span="a"),
        ]
        _, made = read(log(sample(*events)))
        assert ("user", "Hi.") in words(made)

    def test_spans_that_never_close_are_closed(self) -> None:
        events = [begin("a", "scorer"), model([said("user", "Hi.")], span="a")]
        _, made = read(log(sample(*events)))
        kinds = [event["type"] for event in made]
        assert kinds.count("span_start") == kinds.count("span_end") == 1


def test_one_sample_out_of_an_archive_is_read_alone() -> None:
    _, made = read(sample(messages=[said("user", "Hi.")]))
    assert words(made) == [("user", "Hi.")]


def test_nobody_else_claims_these() -> None:
    files = sorted(GOLDEN.glob("*/input.json"))
    assert len(files) > 5
    for path in files:
        assert detect_format(Source.of(path)) == "inspect_ai"
    assert (
        detect_format(
            Source("x", data=packed(**{"_journal/start.json": {}, "samples/1_epoch_1.json": {}}))
        )
        == "inspect_ai"
    )


@pytest.mark.parametrize(
    "value",
    [{"eval": {}, "version": 2, "status": "x"}, {"eval": SPEC}, {"id": 1, "epoch": 1}, [log()], []],
)
def test_what_only_looks_alike_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_another_zip_is_not_claimed() -> None:
    assert not READER.sniff(Source("x", data=packed(**{"conversations.json": []})))


@pytest.mark.parametrize("case", ["agents", "ends", "first_transcripts", "message_pool"])
def test_no_odd_value_is_an_accident(case: str) -> None:
    for value in iter_misshapen(json.loads((GOLDEN / case / "input.json").read_text())):
        source = Source("x", data=json.dumps(value).encode())
        try:
            if READER.sniff(source):
                READER.list_conversations(source)
                READER.read(source, Draft(branches="all"))
        except InputError as problem:
            assert problem.code == "input.no-events"  # noqa: PT017 - the only error that may come


def test_every_word_of_the_real_files_is_kept(corpus: Path) -> None:
    files = sorted((corpus / "inspect_ai").iterdir())
    assert files
    for path in files:
        for found in READER.list_conversations(Source.of(path)):
            source = Source.of(path)
            source.conversation = found.id
            _, events = read_log(source, branches="all")
            kept = "\n".join(iter_strings([event["content"] for event in events]))
            whole = json.loads(_text_of(path, found.id))
            attached = whole.get("attachments", {})
            for text in _said([whole["messages"], whole.get("events", [])]):
                assert attached.get(text.partition("://")[2], text).strip() in kept


def _text_of(path: Path, name: str) -> bytes:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            return archive.read(f"samples/{name}.json")
    samples = json.loads(path.read_text())["samples"]
    return json.dumps(
        next(item for item in samples if f"{item['id']}_epoch_{item['epoch']}" == name)
    ).encode()


def _said(value: Any) -> list[str]:
    """The contents of all messages, wherever they stand."""
    if isinstance(value, list):
        return [text for item in value for text in _said(item)]
    if not isinstance(value, dict):
        return []
    found = [value["content"]] if "role" in value and isinstance(value.get("content"), str) else []
    return found + [text for name, item in value.items() if name != "call" for text in _said(item)]
