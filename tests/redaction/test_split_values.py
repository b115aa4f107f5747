"""Values that a stream split are found across its parts; the first part becomes the marker."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from open_token.context import Context, Policy
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.markers import MARKER, MARKER_PATTERN
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders

KEY = bytes(range(32))
TOKEN = fill_placeholders("ghp_{alnum:36}", "pieces")[0]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")


def event(number: int, content: Any, role: str = "assistant") -> dict[str, Any]:
    body = (
        {"mime": "text/plain", "text": content}
        if isinstance(content, str)
        else {"mime": "application/json", "data": content}
    )
    facts = {
        "seq": number,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": role,
    }
    return {"id": f"evt_{number:06d}", **facts, "content": body}


def redacted(events: list[dict[str, Any]], cache: Path, engine: str = "auto") -> list[Any]:
    record = Record(conversation={"id": "c"}, participants=[], events=events)  # type: ignore[arg-type]
    context = Context(
        ExportOptions.of({"redact": "secrets"}), key=KEY, policy=Policy(), rule_cache=cache
    )
    return list(redact(record, context, engine).events)


def pieces(text: str, size: int) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]


def said(events: list[Any]) -> str:
    return "".join(item["content"]["text"] for item in events)


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("size", [1, 3, 7, 20, 39])
def test_texts_that_follow_one_another(size: int, engine: str, cache: Path) -> None:
    parts = ["so it is: ", *pieces(TOKEN, size), " and no more"]
    before = [event(number, part) for number, part in enumerate(parts, 1)]
    after = redacted(before, cache, engine)
    whole = said(after)
    assert MARKER.sub("", whole) == "so it is:  and no more"
    assert len(re.findall(MARKER_PATTERN, whole)) == 1
    assert [{**item, "content": None} for item in after] == [
        {**item, "content": None} for item in before
    ]
    assert MARKER.search(after[1]["content"]["text"])


@pytest.mark.parametrize("place", range(5, 40, 5))
def test_wherever_it_is_cut(place: int, cache: Path) -> None:
    after = redacted([event(1, f"x {TOKEN[:place]}"), event(2, f"{TOKEN[place:]} y")], cache)
    assert MARKER.sub("", said(after)) == "x  y"


@pytest.mark.parametrize(
    "shape",
    [
        lambda parts: parts,
        lambda parts: {"tool_name": "x", "chunks": parts},
        lambda parts: [{"type": "text", "text": part} for part in parts],
        lambda parts: {"output": [{"delta": part} for part in parts]},
    ],
    ids=["a list", "a list under a key", "parts", "deltas"],
)
@pytest.mark.parametrize("size", [6, 25])
def test_strings_of_data(shape: Any, size: int, cache: Path) -> None:
    (after,) = redacted([event(1, shape(["see ", *pieces(TOKEN, size), " there"]))], cache)
    result = json.dumps(after["content"])
    assert len(re.findall(MARKER_PATTERN, result)) == 1
    assert not [piece for piece in pieces(TOKEN, size) if len(piece) > 5 and piece in result]


@pytest.mark.parametrize("size", [5, 11])
def test_records_of_a_stream_that_come_along_whole(size: int, cache: Path) -> None:
    wire = [
        {"choices": [{"delta": {"content": part}}]}
        for part in ("see ", *pieces(TOKEN, size), " there")
    ]
    after = redacted(
        [
            event(n, {"kind": "native", "reader": "openai_chat", "file": "x", "value": w})
            for n, w in enumerate(wire, 1)
        ],
        cache,
    )
    result = json.dumps([item["content"] for item in after])
    assert len(re.findall(MARKER_PATTERN, result)) == 1
    assert not [piece for piece in pieces(TOKEN, size)[:-1] if piece in result]


def test_what_people_send_is_whole(cache: Path) -> None:
    before = [event(1, f"x {TOKEN[:20]}", "user"), event(2, f"{TOKEN[20:]} y", "user")]
    assert redacted(before, cache) == before


def test_what_others_say_in_between_parts_it(cache: Path) -> None:
    before = [event(1, TOKEN[:20]), event(2, "hello", "user"), event(3, TOKEN[20:])]
    assert redacted(before, cache) == before


def test_a_value_in_pieces_is_known_elsewhere(cache: Path) -> None:
    after = redacted(
        [event(1, f"x {TOKEN[:20]}"), event(2, f"{TOKEN[20:]} y"), event(3, f"it was {TOKEN}")],
        cache,
    )
    assert len(set(re.findall(MARKER_PATTERN, said(after)))) == 1
    assert TOKEN not in said(after)
