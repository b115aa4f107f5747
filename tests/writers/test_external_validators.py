"""External validators: Harbor's validator for ATIF, the protocol buffers of OTLP."""

import base64
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from conftest import ROOT
from helpers.conversation_summary import export_source
from helpers.golden_cases import CASES, read_case
from helpers.random_conversations import conversations
from open_token.errors import InputError
from open_token.registry import detect_format
from open_token.sources.source import Source
from test_corpus import each, files, name, opened

EVERYTHING = {
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "redact": "none",
}
SAMPLE = 6

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def harbor() -> Iterator[Any]:
    folder = str(ROOT / ".venv.harbor")
    if not Path(folder).is_dir():
        pytest.skip("harbor is not installed; `make test-full` does it")
    sys.path.append(folder)
    yield import_module("harbor.utils.trajectory_validator").TrajectoryValidator()
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def request_of() -> Any:
    """Makes a request of OTLP out of JSON; whatever it does not know is an error."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    parse = import_module("google.protobuf.json_format").ParseDict
    return lambda trace: parse(trace, service.ExportTraceServiceRequest())


def of_case(case: Path, made: Path) -> Source:
    path, words = read_case(case, made)
    source = Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)
    source.conversation = words.pop("conversation", None)
    return source


def each_form(source: Source, to: str) -> Iterator[Any]:
    """The export as it is by default and with everything in it; nothing where nobody speaks."""
    for words in ({}, EVERYTHING):
        try:
            yield json.loads(export_source(source, to, **words)[0])
        except InputError as problem:
            if problem.code not in ("input.no-events", "input.no-messages"):
                raise


def check_trace(trace: Any, request_of: Any) -> None:
    spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for span in spans:  # OTLP writes ids as hexadecimal text, JSON of protocol buffers as base64
        for field in span.keys() & {"traceId", "spanId", "parentSpanId"}:
            span[field] = base64.b64encode(bytes.fromhex(span[field])).decode()
    made = request_of(trace).resource_spans[0].scope_spans[0].spans
    known = {span.span_id for span in made}
    assert len(known) == len(made) == len(spans)
    assert [span.span_id for span in made if not span.parent_span_id] == [made[-1].span_id]
    for span in made:
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert not span.parent_span_id or span.parent_span_id in known
        assert span.start_time_unix_nano <= span.end_time_unix_nano


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_harbor_takes_every_golden_case(case: Path, harbor: Any, tmp_path: Path) -> None:
    for trajectory in each_form(of_case(case, tmp_path), "atif"):
        assert harbor.validate(trajectory), harbor.get_errors()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_otlp_takes_every_golden_case(case: Path, request_of: Any, tmp_path: Path) -> None:
    for trace in each_form(of_case(case, tmp_path), "otel"):
        check_trace(trace, request_of)


@pytest.mark.parametrize("path", files(), ids=name)
def test_both_take_every_real_conversation(path: Path, harbor: Any, request_of: Any) -> None:
    source = opened(path)
    chosen = list(each(source, detect_format(source)))
    for source.conversation in chosen[:: max(1, len(chosen) // SAMPLE)]:
        for trajectory in each_form(source, "atif"):
            assert harbor.validate(trajectory), harbor.get_errors()
        for trace in each_form(source, "otel"):
            check_trace(trace, request_of)


@given(session=conversations())
def test_both_take_random_conversations(
    session: Any, harbor: Any, request_of: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("session") / "session.json"
    path.write_text(json.dumps(session))
    for trajectory in each_form(Source.of(path), "atif"):
        assert harbor.validate(trajectory), harbor.get_errors()
    for trace in each_form(Source.of(path), "otel"):
        check_trace(trace, request_of)


def test_harbor_finds_what_is_wrong(harbor: Any) -> None:
    """The check would fail if it could."""
    source = Source.of(ROOT / "tests" / "interop" / "session.json")
    trajectory = json.loads(export_source(source, "atif")[0])
    trajectory["steps"][2]["observation"]["results"][0]["source_call_id"] = "another"
    assert not harbor.validate(trajectory)
