"""Sessions for Gemini CLI."""

import json
from pathlib import Path

import pytest

from helpers.handoff_conversation import CWD, SMALL, hand_over, read_records, summarize
from open_token.handoff import (
    HandoffDestination,
    HandoffSession,
    build_conversation,
    load_handoff_module,
)


def test_all_of_it_arrives(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("gemini-cli", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation)
    assert read_records(session)[0]["summary"] == "Tides"
    assert session.commands == [["gemini", "--resume", session.id]]


def test_the_name_of_the_file_keeps_it_from_the_clean_up(tmp_path: Path) -> None:
    session, _ = hand_over("gemini-cli", build_conversation(SMALL), tmp_path)
    name = next(iter(session.files)).name
    assert name.startswith("session-2026-03-01T10-00-")
    assert session.id[:8] not in name


def session_in(home: Path) -> HandoffSession:
    return load_handoff_module("gemini-cli").build_session(
        build_conversation(SMALL), HandoffDestination(CWD, home, {})
    )


def folder_in(home: Path) -> str:
    return next(iter(session_in(home).files)).parent.parent.name


def test_a_new_folder_is_marked(tmp_path: Path) -> None:
    path, mark = session_in(tmp_path).files.items()
    assert path[0].parent.parent == tmp_path / ".gemini" / "tmp" / "tide-table" == mark[0].parent
    assert mark[1] == CWD.encode()


def test_the_folder_that_the_project_has_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "projects.json").write_text(json.dumps({"projects": {CWD: "tides-7"}}))
    assert folder_in(tmp_path) == "tides-7"


@pytest.mark.parametrize(
    "registry", ["{", "[]", json.dumps({"projects": {CWD: "../out"}}), '{"projects": 1}']
)
def test_a_registry_that_says_nothing_good_is_passed_over(tmp_path: Path, registry: str) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "projects.json").write_text(registry)
    assert folder_in(tmp_path) == "tide-table"


def test_another_project_of_that_name_is_left_alone(tmp_path: Path) -> None:
    mark = tmp_path / ".gemini" / "tmp" / "tide-table" / ".project_root"
    mark.parent.mkdir(parents=True)
    mark.write_text("/elsewhere/tide_table")
    assert folder_in(tmp_path) == "tide-table-1"
    mark.write_text(CWD + "\n")
    assert folder_in(tmp_path) == "tide-table"
    assert len(session_in(tmp_path).files) == 1
