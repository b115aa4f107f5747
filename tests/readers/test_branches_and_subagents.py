"""Options for branches and subagents change nothing of the session around them, in any golden case."""

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import KEY
from helpers.golden_cases import CASES, read_case
from open_token.context import Context
from open_token.errors import InputError
from open_token.model.omissions import Note
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import list_conversations
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.exported import ALL

Made = tuple[list[Any], list[Note]]
SIGNS = re.compile('"span_start"|(?:subagent|abandoned-branch|unlisted-message) x')


def has_family(case: Path) -> bool:
    """Whether its golden export, or what is noted of it, shows spans."""
    shown = (case / "expected.json").read_text() + (case / "notes.txt").read_text()
    return case.parent.name != "open_token" and bool(SIGNS.search(shown))


FAMILIES = [case for case in CASES if has_family(case)]
SESSION = ("message", "tool_use", "tool_result")
WHERE = {
    "reference",
    "file",
    "session_id",
    "agent_id",
    "spawn_reason",
    "subagent_type",
    "name",
    "records",
}
"""What a span says about a subagent that is left out."""
ELSEWHERE = ("cursor/store",)
"""What the subagent did is in another file in any case."""
CAME_BACK = {
    *(f"atif/{name}" for name in ("terminus", "terminus_alone", "terminus_referred")),
    *(f"inspect_ai/{name}" for name in ("agents", "agents_left_out", "agents_referred")),
}
"""What the subagent said stands in the session again; it is exported there only where the subagent's own
is left out."""


def opened(path: Path) -> Source:
    return Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)


def made(path: Path, reader: str, conversation: str | None, **words: str) -> Made:
    """The events of an export that breaks no rule, and its notes."""
    source, out = opened(path), io.BytesIO()
    source.conversation = conversation
    notes = export(source, out, Context(ExportOptions.of(ALL | words), key=KEY), reader).notes
    document = json.loads(out.getvalue())
    assert [problem for problem in validate(document) if problem.severity == "error"] == []
    return document["events"], notes


def starts(events: list[Any], kind: str) -> list[Any]:
    return [
        event
        for event in events
        if event["type"] == "span_start" and event["content"]["data"]["kind"] == kind
    ]


def without_branches(events: list[Any]) -> list[Any]:
    """What stands outside of branches that were left; those are runs of events."""
    kept, inside = [], ""
    for event in events:
        name = event.get("links", {}).get("span_id", "")
        if not inside and event in starts([event], "abandoned_branch"):
            inside = name
        elif inside and event["type"] == "span_end" and name == inside:
            inside = ""
        elif not inside:
            kept.append(event)
    return kept


def spoken(events: list[Any], spans: set[str]) -> Counter[str]:
    """What is said and done outside of these spans; a subagent may work while others speak."""
    return Counter(
        json.dumps([event["type"], event.get("role"), event["content"], event.get("usage")])
        for event in events
        if event["type"] in SESSION and event.get("links", {}).get("span_id") not in spans
    )


def within(events: list[Any], spans: set[str]) -> list[Any]:
    return [
        event
        for event in events
        if event["type"] in SESSION and event.get("links", {}).get("span_id") in spans
    ]


def subagents(events: list[Any]) -> set[str]:
    return {start["links"]["span_id"] for start in starts(events, "subagent")}


def check_subagents(
    case: str, path: Path, reader: str, conversation: str | None, whole: Made
) -> None:
    """Whole at the place of its call; only the span; nothing but a note."""
    events, _ = whole
    for start in starts(events, "subagent"):
        called = start["links"].get("call_id")
        places = {
            event["type"]: place for place, event in enumerate(events) if of_call(event, called)
        }
        assert not called or places["tool_use"] < events.index(start) < places["tool_result"], (
            "at its call"
        )
    referred, _ = made(path, reader, conversation, subagents="reference")
    assert all(WHERE & start["content"]["data"].keys() for start in starts(referred, "subagent"))
    assert subagents(referred)
    assert within(referred, subagents(referred)) == []
    assert len(referred) < len(events) or case in ELSEWHERE
    none, notes = made(path, reader, conversation, subagents="none")
    assert starts(none, "subagent") == []
    assert "subagent" in {note.code for note in notes}
    session = spoken(events, subagents(events))
    for other in (spoken(referred, subagents(referred)), spoken(none, set())):
        assert session - other == Counter()
        assert bool(other - session) == (case in CAME_BACK)


def of_call(event: Any, called: str | None) -> bool:
    return (
        event["type"] in ("tool_use", "tool_result")
        and event.get("links", {}).get("call_id") == called
    )


def check_branches(path: Path, reader: str, conversation: str | None, whole: Made) -> None:
    """In spans, or left out with a note."""
    active, notes = made(path, reader, conversation, branches="active")
    assert starts(active, "abandoned_branch") == []
    assert {note.code for note in notes} & {"abandoned-branch", "unlisted-message"}
    assert spoken(without_branches(whole[0]), set()) == spoken(active, set())


def test_there_are_families() -> None:
    """Of every runtime with subagents or branches."""
    assert len({case.parent.name for case in FAMILIES}) > 20


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_the_conversation_around_stays(case: Path, tmp_path: Path) -> None:
    path, _ = read_case(case, tmp_path)
    reader, name = case.parent.name, f"{case.parent.name}/{case.name}"
    found = list_conversations(opened(path), reader)
    for conversation in [item.id for item in found] if len(found) > 1 else [None]:
        try:
            whole = made(path, reader, conversation)
        except InputError:
            continue  # nobody says anything in it
        if starts(whole[0], "subagent"):
            check_subagents(name, path, reader, conversation, whole)
        if starts(whole[0], "abandoned_branch"):
            check_branches(path, reader, conversation, whole)
