"""Skills of a session: found in three places, stored whole or not at all."""

from pathlib import Path
from typing import Any

import pytest

from open_token.server.config import ServerConfig
from open_token.server.core.skills import find_skills, split_front_matter, store_skill
from open_token.server.core.workspace import Workspace
from open_token.server.errors import ApiError

GOOD = {"SKILL.md": (b"---\nname: x\ndescription: Does it.\n---\nDo it.\n", False)}


def config(folder: Path, *skills: Path) -> ServerConfig:
    return ServerConfig(data=folder / "data", skills=skills)


def test_skills_of_three_places(tmp_path: Path) -> None:
    (tmp_path / "many" / "one").mkdir(parents=True)
    (tmp_path / "many" / "one" / "SKILL.md").write_text(
        '---\nname: "first"\ndescription: >\n  Long\n  words.\n---\nText'
    )
    (tmp_path / "many" / "empty").mkdir()
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "SKILL.md").write_text("# Just a title\n")
    workspace = Workspace(tmp_path / "w")
    store_skill(workspace, "plain", GOOD)
    store_skill(workspace, "team/own", GOOD)
    found = find_skills(
        config(tmp_path, tmp_path / "many", tmp_path / "single", tmp_path / "gone"), workspace
    )
    assert {
        name: (skill.source, skill.description)
        for name, skill in found.items()
        if skill.source != "built-in"
    } == {
        "first": ("server", "Long words."),
        "plain": ("session", "Does it."),
        "single": ("server", "Just a title"),
        "team/own": ("session", "Does it."),
    }
    assert found["stream-of-consciousness"].source == "built-in"
    assert "references/format.md" in found["stream-of-consciousness"].paths()


def test_a_skill_is_replaced_as_a_whole(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert store_skill(workspace, "a", {**GOOD, "old.txt": (b"", False)}) is False
    assert store_skill(workspace, "a", {**GOOD, "bin/new.sh": (b"", True)}) is True
    assert [entry.path for entry in workspace.files(".skills")] == [
        ".skills/a", ".skills/a/SKILL.md", ".skills/a/bin", ".skills/a/bin/new.sh",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("A", GOOD), ("", GOOD), ("..", GOOD), ("a/b/c", GOOD), ("a/..", GOOD), ("-a", GOOD), ("a" * 65, GOOD),
        ("stream-of-consciousness", GOOD), ("a", {}), ("a", {"skill.md": (b"", False)}),
        ("a", {**GOOD, "../../x": (b"", False)}), ("a", {**GOOD, "/x": (b"", False)}),
        ("a", {**GOOD, "x\0": (b"", False)}),
        ("a", {**GOOD, "SKILL.md/x": (b"", False)}), ("a", {**GOOD, "big": (b"x" * 5000, False)}),
        ("a", {**GOOD, **{f"{n}": (b"", False) for n in range(300)}}),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_leaves_what_was_there(tmp_path: Path, name: str, files: Any) -> None:
    workspace = Workspace(tmp_path / "w", 4000)
    store_skill(workspace, "a", GOOD)
    with pytest.raises(ApiError) as caught:
        store_skill(workspace, name, files)
    assert caught.value.status in (400, 413, 422)
    assert [entry.path for entry in workspace.files(".skills")] == [
        ".skills/a",
        ".skills/a/SKILL.md",
    ]
    assert sorted(path.name for path in (tmp_path / "w" / ".skills").iterdir()) == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


def test_links_in_the_workspace_lead_to_no_skill(tmp_path: Path) -> None:
    (tmp_path / "out" / "x").mkdir(parents=True)
    (tmp_path / "out" / "x" / "SKILL.md").write_text("secret")
    workspace = Workspace(tmp_path / "w")
    workspace.make()
    (tmp_path / "w" / ".skills").symlink_to(tmp_path / "out")
    assert list(find_skills(config(tmp_path), workspace)) == ["stream-of-consciousness"]


@pytest.mark.parametrize(
    ("text", "front"),
    [
        ("", {}),
        ("---", {}),
        ("---\nname: x", {}),
        ("---\n---\n", {}),
        ("---\nname: 'x'\n# no\n other\nb:\n---\n", {"name": "'x' # no other", "b": ""}),
        ("---\r\nname: x: y\r\n---\r\nz", {"name": "x: y"}),
        ("\ufeff---\ndescription: |\n  a\n\n  b\n---\n", {"description": "a b"}),
    ],
)
def test_heads_of_all_kinds(text: str, front: dict[str, str]) -> None:
    assert split_front_matter(text)[0] == front
