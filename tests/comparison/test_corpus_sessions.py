"""Every real conversation against itself, its neighbours, and a variant with one other action."""

import copy
from pathlib import Path
from typing import Any

import pytest

import open_token
from conftest import CORPUS
from open_token.comparison import compare
from open_token.comparison.steps import build_transcript
from open_token.errors import InputError

NOT_A_SESSION = ("jcs", "jsontestsuite", "redaction", "SOURCES.tsv", "reserved.bin")
LARGEST = 3_000_000


def sessions() -> list[dict[str, Any]]:
    """A document of each file that is one conversation, or of the first one in it."""
    found = (
        path
        for path in sorted(CORPUS.rglob("*"))
        if path.is_file() and path.stat().st_size < LARGEST
    )
    made = (
        exported(path) for path in found if path.relative_to(CORPUS).parts[0] not in NOT_A_SESSION
    )
    return [document for document in made if document]


def exported(path: Path) -> dict[str, Any] | None:
    try:
        several = open_token.conversations(path)
        return dict(
            open_token.export(path, redact="none", conversation="1" if len(several) > 1 else None)
        )
    except InputError:
        return None  # a part of another file


@pytest.mark.full
@pytest.mark.parametrize("level", ["semantic", "exact"])
def test_each_is_itself_and_differs_from_the_next(corpus: Path, level: str) -> None:
    documents = sessions()
    assert len(documents) > 80
    different = 0
    for place, one in enumerate(documents):
        assert compare(
            build_transcript(one, level),
            build_transcript(one, level),
            names=("a", "b"),
            level=level,
        ).same
        for other in (documents[place - 1], documents[place - 7]):
            there, back = (
                compare(
                    build_transcript(a, level),
                    build_transcript(b, level),
                    names=("a", "b"),
                    level=level,
                )
                for a, b in ((one, other), (other, one))
            )
            assert there.as_json()["sentence"]
            assert there.equal == back.equal
            assert there.counts.get("missing") == back.counts.get("extra")
            different += not there.same
    assert different > len(documents)


@pytest.mark.full
def test_one_other_action_among_other_texts_is_the_divergence(corpus: Path) -> None:
    tried = 0
    for one in sessions():
        other = copy.deepcopy(one)
        calls = [event for event in other["events"] if event["type"] == "tool_use"]
        if len(calls) < 4:
            continue
        for event in other["events"]:
            if (
                event["type"] == "message"
                and event.get("role") == "assistant"
                and "text" in event["content"]
            ):
                event["content"]["text"] = "Otherwise: " + " ".join(
                    event["content"]["text"].split()[::-1]
                )
        planted = calls[len(calls) * 2 // 3]
        planted["content"]["data"]["arguments"] = {"command": "something that nobody else ran"}
        made = compare(
            *(build_transcript(run, "semantic") for run in (one, other)),
            names=("a", "b"),
            level="semantic",
        )
        assert made.divergence is not None
        assert made.divergence.b is not None
        assert made.divergence.b.event["id"] == planted["id"], one["conversation"]["id"]
        tried += 1
    assert tried > 15
