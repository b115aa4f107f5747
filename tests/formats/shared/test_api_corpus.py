"""Real exchanges with the providers, as recorded: every one is claimed, read whole, exported once and
paired."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import load_reader
from open_token.sources.source import Source
from open_token.validation.validate import validate

FOLDERS = (
    "openai_chat",
    "openai_responses",
    "anthropic_messages",
    "gemini_api",
    "handoff_recordings",
    "pydantic_ai",
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ADDRESSES = {
    "anthropic.com/v1/messages": "anthropic_messages",
    "/v1/responses": "openai_responses",
    "/chat/completions": "openai_chat",
    "enerateContent": "gemini_api",
}


@pytest.fixture(scope="module")
def logs(corpus: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """For each cassette and provider in it: the reader's name and the exchanges."""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for folder in FOLDERS:
        for path in sorted((corpus / folder).glob("*.yaml")):
            cassette: dict[str, list[dict[str, Any]]] = {}
            for interaction in yaml.load(path.read_text(), LOADER)["interactions"]:
                reader = next(
                    name
                    for part, name in ADDRESSES.items()
                    if part in interaction["request"]["uri"]
                )
                read_exchanges = interaction["response"]
                answer = (
                    read_exchanges["parsed_body"]
                    if "parsed_body" in read_exchanges
                    else read_exchanges["body"]["string"]
                )
                cassette.setdefault(reader, []).append(
                    {"request": interaction["request"]["parsed_body"], "response": answer}
                )
            found += cassette.items()
    assert len(found) >= 20
    return found


def source(pairs: list[dict[str, Any]]) -> Source:
    return Source("log", data="".join(json.dumps(pair) + "\n" for pair in pairs).encode())


def read_exchanges(reader: str, pairs: list[dict[str, Any]]) -> list[Event]:
    draft = Draft()
    load_reader(reader).read(source(pairs), draft)
    record = draft.finish(lambda: "0" * 64)
    assert {note.code for note in record.notes} <= {
        "sealed-reasoning",
        "empty-reasoning",
        "tool-definitions",
    }
    return list(record.events)


def words(value: Any) -> Iterator[str]:
    """Everything said in a body: the texts of messages, items, parts and thoughts."""
    if isinstance(value, list):
        for item in value:
            yield from words(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str) and name in ("text", "content", "thinking", "output"):
                yield item
            elif name not in ("tools", "metadata", "citations", "format"):
                yield from words(item)


def test_each_is_claimed_by_its_reader_alone(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    names = set(ADDRESSES.values())
    for reader, pairs in logs:
        assert [name for name in names if load_reader(name).sniff(source(pairs))] == [reader]
        for pair in pairs:
            assert load_reader(reader).sniff(source([pair["request"]]))
            if not isinstance(pair["response"], str):
                assert load_reader(reader).sniff(source([pair["response"]]))


def test_streams_are_claimed_as_they_are(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    streams = [
        (reader, pair["response"])
        for reader, pairs in logs
        for pair in pairs
        if isinstance(pair["response"], str)
    ]
    assert len(streams) >= 5
    for reader, text in streams:
        stream = Source("stream", data=text.encode())
        assert stream.shape == "events"
        assert load_reader(reader).sniff(stream)


@pytest.mark.spec("whole-conversation")
def test_all_words_are_kept(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    for reader, pairs in logs:
        everything = "\n".join(
            iter_strings([event["content"] for event in read_exchanges(reader, pairs)])
        )
        for pair in pairs:
            for text in words(pair):
                assert text.strip() in everything


def test_nothing_is_reported_twice(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    for reader, pairs in logs:
        said = [
            event["content"].get("text")
            for event in read_exchanges(reader, pairs)
            if event.get("role") == "user"
        ]
        assert len(said) == len(set(said))


def test_calls_and_results_are_paired(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    for reader, pairs in logs:
        events = read_exchanges(reader, pairs)
        calls = [event["links"]["call_id"] for event in events if event["type"] == "tool_use"]
        results = [event["links"]["call_id"] for event in events if event["type"] == "tool_result"]
        assert sorted(calls) == sorted(results)
        assert len(set(calls)) == len(calls)


def test_each_exports_to_a_valid_document(logs: list[tuple[str, list[dict[str, Any]]]]) -> None:
    options = ExportOptions.of(
        {"include": "include-internal", "internal": "full", "exported_at": "omit", "redact": "none"}
    )
    for reader, pairs in logs:
        out = io.BytesIO()
        export(source(pairs), out, Context(options), reader)
        problems = validate(json.loads(out.getvalue()))
        assert [problem for problem in problems if problem.severity == "error"] == []
