"""The files of subagents of a session."""

from pathlib import Path

import pytest

from open_token.agents.claude_code.subagents import SubagentFiles
from open_token.builder.draft import Draft
from open_token.sources.source import Source
from readers.claude_lines import SESSION, File


def files(folder: Path, *names: str, is_subagent: bool = False) -> SubagentFiles:
    for name in names:
        file = File()
        file.user("hi")
        file.write(folder / name)
    return SubagentFiles(Source.of(folder / names[0]), is_subagent)


def test_files_are_found_next_to_the_session_and_in_its_folder(tmp_path: Path) -> None:
    inside = [
        f"s/subagents/{name}.jsonl" for name in ("agent-b", "agent-b.superseded-1", "journal")
    ]
    found = files(
        tmp_path, "s.jsonl", "agent-a.jsonl", *inside, "s/subagents/workflows/w/agent-c.jsonl"
    )
    assert [bool(found.find(name)) for name in ("a", "b", "c", "d")] == [True, True, True, False]
    assert [name for name, _ in found.find_remaining({"b"}, frozenset([SESSION]))] == ["c", "a"]


@pytest.mark.parametrize("name", ["../s", "a/b", "", ".", "*", "a" * 200])
def test_an_id_is_no_path(tmp_path: Path, name: str) -> None:
    assert files(tmp_path, "s.jsonl", "agent-a.jsonl").find(name) is None


def test_a_subagents_own_file_takes_only_what_it_names(tmp_path: Path) -> None:
    found = files(tmp_path, "agent-a.jsonl", "agent-b.jsonl", is_subagent=True)
    assert found.find("b")
    assert list(found.find_remaining(set(), frozenset([SESSION]))) == []


def test_names_with_wildcards_are_taken_literally(tmp_path: Path) -> None:
    assert files(tmp_path, "[s].jsonl", "s/subagents/agent-a.jsonl").find("a") is None
    assert files(tmp_path, "[s].jsonl", "[s]/subagents/agent-a.jsonl").find("a")


def test_broken_metadata_is_noted_and_broken_files_are_skipped(tmp_path: Path) -> None:
    found = files(tmp_path, "s.jsonl", "agent-a.jsonl")
    (tmp_path / "agent-a.meta.json").write_text("{")
    (tmp_path / "agent-b.jsonl").write_text("{{{\nno")
    draft = Draft()
    source = found.find("a")
    assert source
    assert found.read_meta(source, draft) == {}
    assert [note.code for note in draft.finish(lambda: "0" * 64).notes] == ["broken-file"]
    assert [name for name, _ in found.find_remaining(set(), frozenset([SESSION]))] == ["a"]


def test_standard_input_has_no_neighbours() -> None:
    found = SubagentFiles(Source("-", data=b"{}\n"), is_subagent=False)
    assert found.find("a") is None
    assert list(found.find_remaining(set(), frozenset())) == []
