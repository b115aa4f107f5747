"""The stream of --follow is complete at the end, readable before, and can be continued."""

import io
import json
from typing import Any

import pytest

from open_token.context import Context
from open_token.errors import InputError
from open_token.library.ndjson_stream import FollowStream, WrittenStream, read_written_stream
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.validation.validate import validate_bytes

SECRET = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
PEOPLE: list[Any] = [{"actor_id": "act_001", "kind": "human", "name": "user"}]


def event(number: int, text: str) -> Any:
    return {
        "id": f"evt_{number:06d}",
        "seq": 0,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": {"mime": "text/plain", "text": text},
    }


def record(**facts: Any) -> Record:
    return Record({"id": "session", **facts}, PEOPLE, ())


def grow(out: io.BytesIO, before: bytes | None = None) -> FollowStream:
    found = read_written_stream(io.BytesIO(before), "session") if before is not None else None
    if found and before is not None:
        out.write(before[: found.end])
    return FollowStream(
        out, Context(ExportOptions.of({"mode": "ndjson"}), key=bytes(32)), "session", found
    )


def lines(out: io.BytesIO) -> list[Any]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_each_event_is_out_at_once() -> None:
    out = io.BytesIO()
    stream = grow(out)
    stream.write_events([event(1, "one")], record)
    assert [line["type"] for line in lines(out)] == ["header", "event"]
    stream.write_events([event(2, "two")], record)
    stream.close(record(title="Late"))
    *_, footer = lines(out)
    assert (footer["type"], footer["conversation"]["title"]) == ("footer", "Late")


def test_what_was_found_is_masked_from_then_on() -> None:
    out = io.BytesIO()
    stream = grow(out)
    stream.write_events([event(1, f"export GITHUB_TOKEN={SECRET}")], record)
    stream.write_events([event(2, f"again: {SECRET[4:]}x {SECRET}")], record)
    stream.close(record(title=f"about {SECRET}"))
    assert SECRET.encode() not in out.getvalue()
    assert lines(out)[-1]["conversation"]["redaction"]["mode"] == "secrets"


def test_a_stream_that_broke_off_goes_on_to_the_same_bytes() -> None:
    whole, broken = io.BytesIO(), io.BytesIO()
    for out, last in ((whole, 4), (broken, 2)):
        stream = grow(out)
        for number in range(1, last):
            stream.write_events([event(number, f"text {number}")], record)
        if out is whole:
            stream.close(record())
    out = io.BytesIO()
    stream = grow(out, broken.getvalue() + b'{"type":"event","half')
    for number in range(1, 4):
        stream.write_events([event(number, f"text {number}")], record)
    stream.close(record())
    assert out.getvalue() == whole.getvalue()


def test_a_stream_that_was_ended_goes_on_too() -> None:
    first = io.BytesIO()
    stream = grow(first)
    stream.write_events([event(1, "one")], record)
    missing = {
        **event(2, ""),
        "content": {"mime": "application/json", "data": {"missing_result": True}},
    }
    stream.write_events([missing], record)
    stream.close(record())
    out = io.BytesIO()
    stream = grow(out, first.getvalue())
    stream.write_events([event(1, "one"), event(2, "two")], record)
    stream.close(record())
    assert [line.get("id") for line in lines(out)] == [None, "evt_000001", "evt_000002", None]
    assert b"missing_result" not in out.getvalue()


HEADER = (
    b'{"type":"header","conversation":{"id":"session"},"participants":[{"actor_id":"act_001"}]}\n'
)
SAID = b'{"type":"event","event_type":"message","id":"evt_000001","actor_id":"act_001","content":{"text":"one"}}\n'


def test_half_a_header_is_none() -> None:
    assert (
        read_written_stream(io.BytesIO(HEADER[:-1]), "session")
        == read_written_stream(io.BytesIO(b"{"), "session")
        == WrittenStream()
    )
    assert read_written_stream(io.BytesIO(HEADER + SAID + b'{"type":"foo'), "session").end == len(
        HEADER + SAID
    )


@pytest.mark.parametrize(
    "before",
    [
        b"{}\n",
        b"oops\n",
        b'{"type":"event"}\n',
        b"[1]\n",
        b"a note without an end of line",
        b'{"open_token_version":"0.1"}',
        b'{"type":"header"}\n',
        b'{"type":"header","conversation":7,"participants":[]}\n',
        HEADER.replace(b'"act_001"', b"7"),
        HEADER + b'{"type":"message","id":"evt_000001","content":{"text":"one"}}\n',
        HEADER + b'{"type":"event","event":' + SAID.strip() + b"}\n",
        HEADER + SAID.replace(b'{"text":"one"}', b"[]"),
        HEADER + SAID.replace(b'"evt_000001"', b"7"),
        HEADER + SAID + b'{"type":"footer"}\n' + SAID,
    ],
)
def test_another_file_is_left_alone(before: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_written_stream(io.BytesIO(before), "session")
    assert caught.value.code == "follow.append"


def test_a_beginning_of_something_else_is_an_error() -> None:
    first = io.BytesIO()
    grow(first).write_events([event(1, "one")], record)
    stream = grow(io.BytesIO(), first.getvalue())
    with pytest.raises(InputError) as caught:
        stream.write_events([event(1, "other")], record)
    assert caught.value.code == "follow.append"


def test_what_the_header_says_is_not_taken_back() -> None:
    out = io.BytesIO()
    stream = grow(out)
    stream.write_events([event(1, "one")], lambda: record(provider="openai", title="First"))
    stream.close(record(title="Late"))
    *_, footer = lines(out)
    assert footer["conversation"] | {"redaction": 0} == {
        "id": "session",
        "provider": "openai",
        "title": "Late",
        "redaction": 0,
    }
    assert [item for item in validate_bytes(out.getvalue()) if item.severity == "error"] == []
