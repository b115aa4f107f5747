"""What a person left out is gone with what belongs to it, and what is left is a valid document."""

import io
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.golden_cases import GOLDEN, read_case
from open_token.builder.draft import Draft
from open_token.context import Context, Selection
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.passes.leave_out import leave_out
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

PICTURE = {
    "type": "image",
    "media_type": "image/png",
    "encoding": "base64",
    "base64": "iVBORw0KGgoA" * 9,
}


def build_record() -> Record:
    draft = Draft()
    person = draft.get_actor("human", "user")
    model = draft.get_actor("model", "m")
    draft.add_message("user", "first prompt", person)
    draft.add_tool_call("a", "look", {"path": "a.py"}, model)
    draft.add_tool_result("a", [{"type": "text", "text": "seen"}, PICTURE], facts={"exit_code": 0})
    draft.add_message("assistant", "first answer", model)
    draft.add_message("user", "second prompt", person)
    call = draft.add_tool_call("b", "Task", {"prompt": "dig"}, model)
    span = draft.start_span({"kind": "subagent", "subagent_type": "digger"}, model, call=call)
    draft.add_message("user", "dig", model, visibility="internal", span=span)
    draft.add_tool_call("c", "look", {"path": "b.py"}, model, span=span)
    draft.add_tool_result("c", "dug", span=span)
    draft.end_span(span, call=call)
    draft.add_tool_result("b", "found")
    draft.add_message("assistant", "second answer", model)
    draft.add_message("user", "third prompt", person)
    return draft.finish(lambda: "0" * 64)


def run(**chosen: Any) -> Record:
    context = Context(ExportOptions(), selection=Selection(**chosen))
    return leave_out(build_record(), context)


def say(record: Record) -> str:
    """Return everything that is said, as one text."""
    return json.dumps(list(record.events))


def find(word: str, kind: str = "") -> str:
    """Return the id of the first event with a word."""
    for event in build_record().events:
        if word in json.dumps(event["content"]) and kind in event["type"]:
            return event["id"]
    raise AssertionError(word)


def test_a_call_goes_with_its_result_and_facts() -> None:
    for kind in ("tool_use", "tool_result"):
        word = "a.py" if kind == "tool_use" else "seen"
        left = run(dropped=frozenset((find(word, kind),)))
        assert "a.py" not in say(left)
        assert "seen" not in say(left)
        assert "exit_code" not in say(left)
        assert "first answer" in say(left)


def test_a_subagent_goes_with_everything_that_it_did() -> None:
    left = say(run(dropped=frozenset((find('"Task"'),))))
    assert "dig" not in left.replace("digger", "")
    assert "found" not in left
    assert "second answer" in left


def test_a_row_of_a_subagent_goes_alone() -> None:
    left = say(run(dropped=frozenset((find("b.py"),))))
    assert "dug" not in left
    assert "found" in left


def test_both_ends_are_cut_at_prompts() -> None:
    left = say(run(first=find("second prompt"), end=find("third prompt")))
    assert "first" not in left.replace("first_id", "")
    assert "third prompt" not in left
    assert "second prompt" in left
    assert "dug" in left


def test_an_account_says_how_much_is_missing() -> None:
    left = list(run(end=find("second prompt")).events)
    account: Any = left[0]["content"]["data"]
    assert account["kind"] == "dropped"
    assert account["events"] == len(list(build_record().events)) - len(left) + 1
    assert sum(account["by_type"].values()) == account["events"]
    ids = [event["id"] for event in left]
    assert len(ids) == len(set(ids))


def test_images_of_a_call_are_those_of_its_result() -> None:
    left = run(without_media=frozenset((find("a.py"),)))
    assert PICTURE["base64"] not in say(left)
    assert "seen" in say(left)
    assert PICTURE["base64"] in say(run(without_media=frozenset((find("b.py"),))))
    redaction: Any = left.conversation["redaction"]
    assert redaction["notes"] == ["masked 1 image (1 distinct value)"]


def test_nothing_chosen_changes_nothing() -> None:
    assert say(run()) == say(build_record())
    assert say(run(dropped=frozenset(("evt_999999",)))) == say(build_record())


@pytest.mark.parametrize("name", ["sidechain", "subagent_folder", "missing_result"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_document_is_valid_whatever_is_left_out(name: str, size: int, tmp_path: Path) -> None:
    source, _ = read_case(GOLDEN / "claude_code" / name, tmp_path)
    words = {"include": "include-internal", "internal": "full"}
    whole = Context(ExportOptions.of(words))
    out = io.BytesIO()
    export(Source.of(source), out, whole)
    ids = [event["id"] for event in json.loads(out.getvalue())["events"]]
    for chosen in itertools.islice(itertools.combinations(ids, size), 60):
        written = io.BytesIO()
        context = replace(whole, selection=Selection(dropped=frozenset(chosen)))
        export(Source.of(source), written, context)
        assert validate_bytes(written.getvalue()) == [], chosen
