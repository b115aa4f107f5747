"""HTTP recordings: forms of cassettes, bodies, what is a model call, which calls are one
conversation, what is not."""

import base64
import gzip
import json
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.registry import READERS, detect_format
from open_token.sources.decompress import load_zstd
from open_token.sources.source import Source
from readers.exported import everything, join_texts, words
from readers.provider_readers import summarize_events

READER = READERS["http_recording"]

CHAT = "https://api.openai.com/v1/chat/completions"
CLAUDE = "https://api.anthropic.com/v1/messages?beta=true"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent"
RESPONSES = "https://api.openai.com/v1/responses"
FOLDERS = (
    "openai_chat",
    "openai_responses",
    "anthropic_messages",
    "gemini_api",
    "handoff_recordings",
    "pydantic_ai",
)
TAGS = re.compile(r"</?think(?:ing)?>")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def asked(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **more}


def chat(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": model(text), "finish_reason": "stop"}
    return {"object": "chat.completion", "model": "gpt-4o", "choices": [choice]}


def claude(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": content,
        "stop_reason": "end_turn",
    }


def gemini(text: str) -> dict[str, Any]:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ]
    }


def responses(name: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "object": "response",
        "model": "gpt-5",
        "status": "completed",
        "output": list(items),
        **more,
    }


def spoken(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def item(request: Any, response: Any, url: str = CHAT, method: str = "POST") -> dict[str, Any]:
    return {
        "request": {"uri": url, "method": method, "headers": {}, "parsed_body": request},
        "response": {"status": {"code": 200}, "headers": {}, "parsed_body": response},
    }


def cassette(*items: dict[str, Any]) -> Source:
    return Source("tape", data=yaml.safe_dump({"interactions": list(items), "version": 1}).encode())


def read(source: Source, chosen: str | None = None) -> tuple[Any, list[Any]]:
    assert detect_format(source) == "http_recording"
    source.conversation = chosen
    draft = Draft()
    READER.read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def summarize_all(*items: dict[str, Any]) -> list[list[Any]]:
    """What is said in each conversation of a recording."""
    source = cassette(*items)
    return [
        summarize_events(read(source, found.id)[1]) for found in READER.list_conversations(source)
    ]


HELLO = [("user", "hi"), ("assistant", "ho")]
PAIR = (asked(user("hi")), chat("ho"))


def har(request: Any, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    sent = {"method": "POST", "url": CHAT, "headers": [], "postData": {"text": json.dumps(request)}}
    return {
        "log": {
            "entries": [{"request": sent, "response": {"headers": [], "content": content}, **more}]
        }
    }


def packed(value: Any) -> bytes:
    return gzip.compress(json.dumps(value).encode(), mtime=0)


def string(body: Any) -> dict[str, Any]:
    return {
        "interactions": [
            {
                "request": {"url": CHAT, "method": "post", "body": json.dumps(PAIR[0])},
                "response": body,
            }
        ]
    }


FORMS: dict[str, Any] = {
    "parsed": {"interactions": [item(*PAIR)], "version": 1},
    "string": string({"body": json.dumps(PAIR[1]), "code": 200}),
    "in an object": string({"body": {"string": json.dumps(PAIR[1]), "encoding": "UTF-8"}}),
    "base64": string(
        {"body": {"base64_string": base64.b64encode(json.dumps(PAIR[1]).encode()).decode()}}
    ),
    "gzip in base64": string(
        {"body": {"base64_string": base64.b64encode(packed(PAIR[1])).decode()}}
    ),
    "ruby": {
        "http_interactions": string({"body": {"string": json.dumps(PAIR[1])}})["interactions"]
    },
    "har": har(PAIR[0], {"text": json.dumps(PAIR[1])}),
    "har in base64": har(
        PAIR[0], {"text": base64.b64encode(packed(PAIR[1])).decode(), "encoding": "base64"}
    ),
    "polly": har(
        PAIR[0],
        {"text": json.dumps([base64.b64encode(packed(PAIR[1])).decode()]), "encoding": "base64"},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_in_json(form: str) -> None:
    for indent in (None, 1):
        assert (
            summarize_events(
                read(Source("x", data=json.dumps(FORMS[form], indent=indent).encode()))[1]
            )
            == HELLO
        )


@pytest.mark.parametrize("form", [form for form in FORMS if "har" not in form and form != "polly"])
def test_forms_in_yaml(form: str) -> None:
    assert (
        summarize_events(read(Source("x", data=b"---\n" + yaml.safe_dump(FORMS[form]).encode()))[1])
        == HELLO
    )


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (json.dumps(PAIR[1]).encode(), ""),
        (packed(PAIR[1]), "gzip"),
        (packed(PAIR[1]), ""),
        (zlib.compress(json.dumps(PAIR[1]).encode()), "deflate"),
        (zlib.compress(json.dumps(PAIR[1]).encode())[2:-4], "deflate"),
        (json.dumps(PAIR[1]).encode(), "br"),
    ],
)
def test_bytes(data: bytes, encoding: str) -> None:
    tape = item(*PAIR)
    tape["response"] = {"headers": {"Content-Encoding": [encoding]}, "body": {"string": data}}
    tape["request"] = {"uri": CHAT, "method": "POST", "body": json.dumps(PAIR[0]).encode()}
    assert summarize_events(read(cassette(tape))[1]) == HELLO


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"\x1b\x00\xff\xfe\x80", "br"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (packed(PAIR[1])[:20], "gzip"),
        (b"\x1f\x8bxxxxxxxxxxxx", "gzip"),
    ],
)
def test_bodies_that_cannot_be_read_are_noted(data: bytes, encoding: str) -> None:
    tape = item(*PAIR)
    tape["response"] = {"headers": {"content-encoding": encoding}, "body": {"string": data}}
    record, events = read(cassette(tape))
    assert summarize_events(events)[0] == ("user", "hi")
    assert [(note.code, note.place) for note in record.notes] == [
        ("unreadable-body", "interaction 1")
    ]


def test_a_body_packed_with_zstandard_is_read() -> None:
    if (known := load_zstd()) is None:
        pytest.skip("there is nothing here that packs with Zstandard")
    tape = item(*PAIR)
    data = known.compress(json.dumps(PAIR[1]).encode())
    tape["response"] = {"headers": {"Content-Encoding": ["zstd"]}, "body": {"string": data}}
    assert summarize_events(read(cassette(tape))[1]) == HELLO
    tape["response"] = {"headers": {}, "body": {"string": known.compress(bytes((1 << 27) + 1))}}
    notes = read(cassette(tape))[0].notes
    assert [note.detail for note in notes] == ["a compressed body that is far too large"]


def frame(name: str, value: Any) -> bytes:
    """An event of Amazon's binary stream."""
    payload = json.dumps({**value, "p": "padding"}).encode()
    header = b"\x0b:event-type\x07" + struct.pack(">H", len(name)) + name.encode()
    prelude = struct.pack(">II", 16 + len(header) + len(payload), len(header))
    data = prelude + struct.pack(">I", zlib.crc32(prelude)) + header + payload
    return data + struct.pack(">I", zlib.crc32(data))


def bedrock(data: bytes) -> dict[str, Any]:
    request = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/a.nova%3A0/converse-stream"
    made = item(request, None, url)
    made["response"] = {"headers": {}, "body": {"string": data}}
    return made


def test_a_binary_event_stream_is_read() -> None:
    start = frame("messageStart", {"role": "assistant"})
    said = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "ho"}})
    end = frame("messageStop", {"stopReason": "end_turn"})
    record, events = read(cassette(bedrock(start + said + end)))
    assert summarize_events(events) == HELLO
    assert [person.get("model") for person in record.participants] == [None, "a.nova:0"]
    broke_off = ("annotation", {"kind": "message_facts", "broke_off": True})
    _, events = read(cassette(bedrock(start + said + end[:-3])))
    assert summarize_events(events) == [*HELLO, broke_off]


def test_a_damaged_event_stream_is_noted() -> None:
    data = bytearray(frame("messageStart", {"role": "assistant"}))
    data[8] ^= 1
    record, events = read(cassette(bedrock(bytes(data))))
    assert summarize_events(events) == [("user", "hi")]
    assert [note.code for note in record.notes] == ["unreadable-body"]


def test_a_page_in_place_of_an_answer_is_noted() -> None:
    tape = item(*PAIR)
    tape["response"] = {"headers": {}, "body": {"string": "<html>502 Bad Gateway</html>"}}
    record, events = read(cassette(tape, item(*PAIR)))
    assert summarize_events(events) == HELLO
    assert [note.code for note in record.notes] == ["unreadable-body"]


def test_a_bomb_in_a_body_is_noted() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(160)) + bomb.flush()
    tape = item(*PAIR)
    tape["response"] = {"headers": {}, "body": {"string": data}}
    record, _ = read(cassette(tape))
    assert [(note.code, note.detail) for note in record.notes] == [
        ("unreadable-body", "a compressed body that is far too large"),
    ]


def test_bytes_in_a_parsed_body_are_base64() -> None:
    request = asked(user("hi"), metadata={"x": b"\xff"})
    request["messages"][0]["content"] = [
        {"type": "text", "text": "hi"},
        {"type": "blob", "data": b"\xff\xfe"},
    ]
    _, events = read(cassette(item(request, chat("ho"))))
    assert events[0]["content"]["data"][1]["data"] == {"encoding": "base64", "base64": "//4="}


@pytest.mark.parametrize(
    ("url", "request_body", "response", "expected"),
    [
        (CHAT, asked(user("hi")), chat("ho"), HELLO),
        (
            "https://x/openai/deployments/d/chat/completions?api=1",
            {"messages": [user("hi")]},
            chat("ho"),
            HELLO,
        ),
        (CLAUDE, {"model": "m", "max_tokens": 9, "messages": [user("hi")]}, claude("ho"), HELLO),
        (
            "https://b/model/anthropic.x/invoke",
            {"max_tokens": 9, "messages": [user("hi")]},
            claude("ho"),
            HELLO,
        ),
        (GEMINI, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, gemini("ho"), HELLO),
        (RESPONSES, {"model": "gpt-5", "input": "hi"}, responses("r", spoken("ho")), HELLO),
    ],
)
def test_dialects(url: str, request_body: Any, response: Any, expected: Any) -> None:
    assert summarize_all(item(request_body, response, url)) == [expected]


def test_a_long_body_hides_nothing() -> None:
    tape = item(asked(user("x" * 100_000)), chat("ho"))
    tape["request"] = {
        "body": json.dumps(tape["request"]["parsed_body"]),
        "method": "POST",
        "uri": CHAT,
    }
    assert detect_format(cassette(tape)) == "http_recording"


def test_the_model_in_an_address() -> None:
    record, _ = read(
        cassette(
            item({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, gemini("ho"), GEMINI)
        )
    )
    assert record.participants[1]["model"] == "gemini-x"


@pytest.mark.parametrize(
    ("url", "request_body", "response", "method"),
    [
        ("https://api.openai.com/v1/models", None, {"data": []}, "GET"),
        (
            "https://api.openai.com/v1/embeddings",
            {"model": "e", "input": ["x"]},
            {"data": [{"embedding": [1]}]},
            "POST",
        ),
        (
            "https://api.anthropic.com/v1/messages/count_tokens",
            {"messages": [user("x")]},
            {"input_tokens": 1},
            "POST",
        ),
        (
            "https://x/v1beta/models/m:countTokens",
            {"contents": [{"parts": [{"text": "x"}]}]},
            {"totalTokens": 1},
            "POST",
        ),
        ("https://shop.example/api", {"messages": "x"}, {"ok": True}, "POST"),
        ("https://shop.example/api", {"messages": [user("x")]}, {"ok": True}, "POST"),
        (CHAT, None, None, "OPTIONS"),
        (CHAT, "words", "more words", "POST"),
    ],
)
def test_other_traffic_is_noted(url: str, request_body: Any, response: Any, method: str) -> None:
    record, events = read(cassette(item(request_body, response, url, method), item(*PAIR)))
    assert summarize_events(events) == HELLO
    assert [(note.code, note.place, note.count) for note in record.notes] == [
        ("other-traffic", "interaction 1", 1)
    ]


def test_nothing_but_other_traffic_is_an_error() -> None:
    with pytest.raises(InputError) as caught:
        read(cassette(item(None, {"data": []}, "https://x/", "GET")))
    assert caught.value.code == "input.no-events"


def test_requests_that_go_on_are_one_conversation() -> None:
    first = item(asked(user("a")), chat("b"))
    second = item(asked(user("a"), model("b"), user("c")), chat("d"))
    assert summarize_all(first, second) == [
        [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    ]


def test_conversations_that_mix_are_reported_apart() -> None:
    made = summarize_all(
        item(asked(user("a")), chat("b")),
        item(asked(user("x")), chat("y")),
        item(asked(user("a"), model("b"), user("c")), chat("d")),
        item(asked(user("x"), model("y"), user("z")), chat("w")),
    )
    assert [[said for _, said in session] for session in made] == [
        ["a", "b", "c", "d"],
        ["x", "y", "z", "w"],
    ]


def test_a_retry_stays_in_its_conversation() -> None:
    (made,) = summarize_all(
        item(asked(user("a")), {"error": {"message": "busy"}}), item(asked(user("a")), chat("b"))
    )
    assert made == [
        ("user", "a"),
        ("annotation", {"kind": "error", "error": {"message": "busy"}}),
        ("assistant", "b"),
    ]


def test_the_same_question_under_another_prompt_is_another_conversation() -> None:
    prompt = {"role": "system", "content": "s"}
    made = summarize_all(
        item(asked(user("a")), chat("b")), item(asked(prompt, user("a")), chat("c"))
    )
    assert [[said for _, said in session] for session in made] == [["a", "b"], ["s", "a", "c"]]


def test_an_agent_that_a_call_started_stays_in_its_conversation() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "ask", "arguments": '{"task": "Count the herons."}'},
    }
    reply = chat("")
    reply["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
    made = summarize_all(
        item(asked(user("a")), reply), item(asked(user("Count the herons.")), chat("nine"))
    )
    assert len(made) == 1
    assert made[0][-2:] == [("user", "Count the herons."), ("assistant", "nine")]


def test_a_repeated_history_is_reported_once_in_every_dialect() -> None:
    contents = [
        {"role": role, "parts": [{"text": text}]}
        for role, text in (("user", "a"), ("model", "b"), ("user", "c"))
    ]
    history = [user("a"), model("b"), user("c"), model("d"), user("e")]
    (made,) = summarize_all(
        item(asked(user("a")), chat("b")),
        item({"contents": contents}, gemini("d"), GEMINI),
        item({"model": "m", "max_tokens": 9, "messages": history}, claude("f"), CLAUDE),
        item(asked(*history, model("f"), user("g")), chat("h")),
    )
    assert [said for _, said in made] == ["a", "b", "c", "d", "e", "f", "g", "h"]


def test_words_that_nobody_said_are_reported_though_the_turn_is_known() -> None:
    messages = [user("a"), model("edited"), user("c")]
    (made,) = summarize_all(
        item(asked(user("a")), chat("b")),
        item({"model": "m", "max_tokens": 9, "messages": messages}, claude("d"), CLAUDE),
    )
    assert made == [
        *(("user", "a"), ("assistant", "b"), ("annotation", {"kind": "new_request", "repeats": 1})),
        *(("assistant", "edited"), ("user", "c"), ("assistant", "d")),
    ]


def test_a_prompt_is_reported_once_in_every_dialect() -> None:
    history = {"input": [user("a"), model("b"), user("c")], "instructions": "s", "model": "gpt-5"}
    (made,) = summarize_all(
        item(
            {"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [user("a")]},
            claude("b"),
            CLAUDE,
        ),
        item(history, responses("r", spoken("d")), RESPONSES),
    )
    assert [said for _, said in made] == ["s", "a", "b", "c", "d"]


def test_deltas_and_polls_of_the_responses_api() -> None:
    queued = responses("r1", status="queued")
    done = responses("r1", spoken("b"))
    (made,) = summarize_all(
        item({"model": "gpt-5", "input": "a", "background": True}, queued, RESPONSES),
        item(None, done, f"{RESPONSES}/r1", "GET"),
        item(None, done, f"{RESPONSES}/r1", "GET"),
        item(
            {"model": "gpt-5", "input": "c", "previous_response_id": "r1"},
            responses("r2", spoken("d")),
            RESPONSES,
        ),
    )
    assert [said for role, said in made if role != "annotation"] == ["a", "b", "c", "d"]


def test_times_of_the_recording() -> None:
    sent = {"model": "m", "max_tokens": 9, "messages": [user("hi")]}
    value = har(
        sent, {"text": json.dumps(claude("ho"))}, startedDateTime="2026-02-03T10:00:00.5+01:00"
    )
    value["log"]["entries"][0]["request"]["url"] = CLAUDE
    record, events = read(Source("x", data=json.dumps(value).encode()))
    assert record.conversation["started_at"] == "2026-02-03T09:00:00.5Z"
    assert [event.get("ts") for event in events] == [None, "2026-02-03T09:00:00.5Z"]
    (found,) = READER.list_conversations(Source("x", data=json.dumps(value).encode()))
    assert (found.title, found.started_at, found.messages) == ("hi", "2026-02-03T09:00:00.5Z", 1)


def test_a_later_answer_is_no_beginning() -> None:
    second = chat("d") | {"created": 1770109200}
    record, _ = read(
        cassette(
            item(asked(user("a")), chat("b")), item(asked(user("a"), model("b"), user("c")), second)
        )
    )
    assert "started_at" not in record.conversation


def test_which_exchange_is_whose() -> None:
    items = [
        item(asked(user("a")), chat("b")),
        item(None, {}, "https://x/"),
        item(asked(user("x")), chat("y")),
    ]
    document = Source("x", data=json.dumps({"interactions": items}, indent=1).encode())
    assert [READER.find_owner(document, f"/interactions/{n}", None) for n in range(3)] == [
        "1",
        None,
        "2",
    ]
    text = cassette(*items)
    starts = [
        0,
        *(
            found.start()
            for found in re.finditer(f"(?m){READER.definition.block_separator}", text.text)
        ),
    ]
    cuts = sorted({*starts, len(text.text), starts[1] + 9})
    blocks = [text.text[first:end] for first, end in pairwise(cuts)]
    claims = [READER.find_owner(text, f"/{n}", block) for n, block in enumerate(blocks, 1)]
    assert claims == [None, "1", "1", None, "2"]
    assert READER.find_owner(cassette(*items), "/5", blocks[4]) == "2"
    assert READER.find_owner(text, "/", None) is None


@pytest.mark.parametrize(
    "data",
    [
        b"interactions:\n  - a\n",
        b"# interactions: none\n- request: x\n",
        b'{"interactions": []}',
        b'{"interactions": [{"request": {}}]}',
        b'{"log": {"entries": []}}',
        b'{"log": 5, "interactions": 5}',
        b"name: x\nmethod: y\n",
    ],
)
def test_what_is_not_claimed(data: bytes) -> None:
    assert not READER.sniff(Source("x", data=data))


@pytest.mark.parametrize(
    "odd",
    [
        *(
            None,
            5,
            [],
            {},
            {"request": 5, "response": []},
            {"request": {"uri": 5, "method": [], "headers": 5}},
        ),
        {
            "request": {"uri": CHAT, "method": "POST", "body": []},
            "response": {"body": {"base64_string": "\u00e9"}},
        },
        {
            "request": {"uri": CHAT, "parsed_body": {"messages": 5}},
            "response": {"parsed_body": {"choices": 5}},
        },
        {
            "request": {"uri": CLAUDE, "parsed_body": {"messages": [5]}},
            "response": {"headers": [5, {"name": 5}]},
        },
        {
            "request": {"uri": GEMINI, "parsed_body": {"contents": [[], {"parts": 5}]}},
            "response": {"parsed_body": []},
        },
        {
            "request": {"uri": RESPONSES, "parsed_body": {"input": [[], {"type": []}]}},
            "recorded_at": "soon",
        },
        {
            "request": {"uri": f"{RESPONSES}/r", "method": "GET"},
            "response": {"parsed_body": {"object": "response", "id": []}},
        },
    ],
)
def test_hostile_items(odd: Any) -> None:
    source = Source("x", data=json.dumps({"interactions": [item(*PAIR)] * 8 + [odd]}).encode())
    for found in READER.list_conversations(source):
        read(source, found.id)
    assert summarize_events(read(source, "1")[1])[:2] == HELLO


def test_real_cassettes_are_reported_whole(corpus: Path) -> None:
    paths = [path for folder in FOLDERS for path in sorted((corpus / folder).glob("*.yaml"))]
    assert len(paths) >= 20
    for path in paths:
        reader, made = everything(path)
        assert reader == "http_recording"
        said = "".join(join_texts(made).split())
        for exchange in yaml.load(path.read_text(), yaml.CSafeLoader)["interactions"]:
            for text in _texts(
                [exchange["request"]["parsed_body"], exchange["response"].get("parsed_body")]
            ):
                assert all("".join(piece.split()) in said for piece in TAGS.split(text))


def _texts(value: Any) -> list[str]:
    """Everything said in a body: the texts of messages, items, parts and thoughts."""
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    if not isinstance(value, dict):
        return []
    named = [
        part
        for name, part in value.items()
        if isinstance(part, str) and name in ("text", "content", "thinking")
    ]
    return named + [
        t
        for name, p in value.items()
        if name not in ("tools", "metadata", "format")
        for t in _texts(p)
    ]


def test_hand_overs_are_one_conversation(corpus: Path) -> None:
    for path in sorted((corpus / "handoff_recordings").glob("*.yaml")):
        _, made = everything(path)
        assert len(made) == 1
        said = [
            event["content"].get("text")
            for event in made[0]["events"]
            if event.get("role") == "user"
        ]
        assert len(said) == len(set(said)) == 2
        assert (
            len({who["provider"] for who in made[0]["participants"] if who["kind"] == "model"}) == 2
        )


def test_answers_of_a_stream_are_whole(corpus: Path) -> None:
    path = corpus / "openai_chat" / "test_run_stream_sync_streams_real_model.yaml"
    (made,) = everything(path)[1]
    assert "".join(words(made["events"][-1]["content"])).endswith(".")
