"""ATIF and OpenTelemetry: a short conversation in each, byte for byte, and notes on losses."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from helpers.conversation_summary import export_source
from helpers.small_conversations import (
    ask,
    call,
    event,
    fact,
    result,
    say,
    span,
    think,
    write_conversation,
)
from open_token.sources.source import Source
from open_token.writers import EXCHANGE_FORMATS, load_exchange_writer

FOLDER = Path(__file__).parent.parent / "interop"


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_short_conversation(to: str, golden: Callable[[Path, str | bytes], None]) -> None:
    """A thought, a failed call, a subagent, an image, a missing result, no answer at the end."""
    whole = {"include": "include-internal", "internal": "full"}
    data, receipt = export_source(Source.of(FOLDER / "session.json"), to, **whole)
    golden(FOLDER / f"session.{to}.json", msgspec.json.format(data, indent=2) + b"\n")
    notes = "".join(
        f"{note.place}: {note.code} x{note.count}: {note.detail}\n" for note in receipt.notes
    )
    golden(FOLDER / f"session.{to}.txt", notes)


def test_all_can_be_loaded() -> None:
    assert EXCHANGE_FORMATS == ("atif", "otel")
    assert all(callable(load_exchange_writer(name).write) for name in EXCHANGE_FORMATS)


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_secrets_are_masked_as_in_the_document(to: str, tmp_path: Path) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36]
    (tmp_path / "session.json").write_bytes(
        msgspec.json.encode({"messages": [{"role": "user", "content": secret}]})
    )
    data, receipt = export_source(Source.of(tmp_path / "session.json"), to)
    assert secret.encode() not in data
    assert b"[REDACTED:" in data
    assert receipt.redaction
    assert (
        secret.encode() in export_source(Source.of(tmp_path / "session.json"), to, redact="none")[0]
    )


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_what_has_no_place_is_counted_with_its_first_place(to: str) -> None:
    odd = [
        fact("notice"),
        fact("notice"),
        think({"redacted": True}),
        ask([{"type": "text", "text": "a", "marks": []}]),
    ]
    _, notes = write_conversation(to, *odd, ask([7, {"no": "type"}]), say("b"))
    output = {code: (note.place, note.count) for code, note in notes.items()}
    assert output == {
        "annotation": ("evt_1", 2),
        "thought": ("evt_3", 1),
        "marked-text": ("evt_4", 1),
        "json-text": ("evt_5", 2),
    }


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_branch_is_left_out_with_all_that_is_in_it(to: str) -> None:
    left = [
        span("s", {"kind": "abandoned_branch"}),
        say("not this", span_id="s"),
        fact("notice", span_id="s"),
    ]
    made, notes = write_conversation(to, ask("a"), *left, say("b"))
    assert "not this" not in str(made)
    assert {code: note.count for code, note in notes.items()} == {"branch": 1}


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_subagents_without_end_are_cut_at_sixteen(to: str) -> None:
    events = [ask("a"), say("b")]
    for depth in range(1, 40):
        events += [span(f"s{depth}", {"parent_span": f"s{depth - 1}" if depth > 1 else ""})]
        events += [say(f"level {depth}.", "n", span_id=f"s{depth}")]
    made, notes = write_conversation(to, *events)
    assert "level 16." in str(made)
    assert "level 17." not in str(made)
    assert notes["deep-subagent"].count == 1


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
def test_any_value_may_be_anywhere(to: str) -> None:
    """A document is checked, but what stands in its data is free."""
    strange = [
        [],
        "x",
        7,
        None,
        {"kind": []},
        {"tool_name": {}, "arguments": "x", "native_call_id": 7},
    ]
    strange += [
        {"kind": kind, "names": 7, "cost_usd": "x"}
        for kind in ("tools", "cost", "context", "result_facts")
    ]
    events = [ask("a"), say("b")]
    for number, data in enumerate(strange):
        events += [
            event("tool_use", "who", data, call_id=f"c{number}", usage={"input_tokens": "x"})
        ]
        events += [event("span_start", "who", data, call_id=f"c{number}", span_id=f"s{number}")]
        events += [
            event("message", "who", data, role, span_id=f"s{number}")
            for role in ("user", "assistant", "odd")
        ]
        events += [
            event("tool_result", "who", data, call_id=f"c{number}"),
            event("annotation", "who", data),
        ]
    events += [
        {"type": "message", "role": "user"},
        {"type": "tool_use", "content": 3, "links": 4},
        {"type": "else"},
    ]
    made, _ = write_conversation(to, *events, call(1), result(1), result(1, "again"))
    assert "again" in str(made)
