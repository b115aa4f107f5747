"""The plugin: its manifests agree with each other and with the package, and its parts are ours."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import open_token
from open_token.cli.dispatch import VERBS, load_verb, render_verb_help
from open_token.cli.shared.console import Console
from open_token.mcp.tools import Toolbox

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "src" / "open_token" / "plugin"
SKILLS = sorted(PLUGIN.glob("skills/*/SKILL.md"))


def load(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_bytes())
    return value


def test_marketplace_names_the_plugin() -> None:
    (entry,) = load(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    assert (ROOT / entry["source"]).resolve() == PLUGIN
    manifests = [load(PLUGIN / ".claude-plugin" / "plugin.json"), load(PLUGIN / "plugin.json")]
    for manifest in manifests:
        assert manifest["name"] == entry["name"]
        assert manifest["version"] == open_token.__version__
        assert manifest["description"] == entry["description"]


def test_agent_plugins_manifest_has_known_keys_only() -> None:
    allowed = (
        "$schema name version description author homepage repository license keywords extensions"
    )
    assert load(PLUGIN / "plugin.json").keys() <= set(allowed.split())


def test_both_server_files_start_the_same_command() -> None:
    claude = load(PLUGIN / ".mcp.json")["mcpServers"]
    neutral = load(PLUGIN / "mcp.json")["mcpServers"]
    assert {name: one | {"type": "stdio"} for name, one in claude.items()} == neutral
    for server in claude.values():
        assert server["command"] == "open-token"
        assert server["args"][0] in VERBS


def test_hooks_run_our_command_within_the_limit_of_codex() -> None:
    hooks = load(PLUGIN / "hooks" / "hooks.json")["hooks"]
    assert set(hooks) == {"SessionEnd", "PreCompact", "Stop"}
    for groups in hooks.values():
        for handler in (handler for group in groups for handler in group["hooks"]):
            assert shlex.split(handler["command"]) == ["open-token", "hook", "run"]
            assert handler["timeout"] <= 3


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_skills_follow_the_standard(path: Path) -> None:
    import yaml

    head, _, body = path.read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
    fields = yaml.safe_load(head)
    assert fields["name"] == path.parent.name
    assert 0 < len(fields["description"]) <= 1024
    assert fields.keys() <= {
        "name", "description", "license", "compatibility", "metadata", "allowed-tools",
    }  # fmt: skip
    assert body.count("\n") < 500


def test_search_skill_names_what_exists(tmp_path: Path) -> None:
    text = (PLUGIN / "skills" / "search-conversations" / "SKILL.md").read_text(encoding="utf-8")
    tools = {tool["name"] for tool in Toolbox(tmp_path, {}, tmp_path, tmp_path).list_tools()}
    assert {"search", "get_events", "brief"} <= tools
    help_texts = {
        verb: render_verb_help(verb, load_verb(verb), Console())
        for verb in ("search", "show", "export", "handoff")
    }
    commands = [line.split("|")[0] for line in text.splitlines() if "open-token " in line]
    used = 0
    for line in commands:
        for verb, help_text in help_texts.items():
            if f"open-token {verb} " in line:
                words = line.partition(f"open-token {verb} ")[2].split()
                flags = [word.strip("`.,;") for word in words if word.startswith("--")]
                assert [flag for flag in flags if flag not in help_text] == [], line
                used += len(flags)
    assert used >= 6
    for flag in ("--here", "--agent", "--role"):
        assert flag in text
        assert flag in help_texts["search"]


def test_registry_entry_names_the_package_and_its_owner() -> None:
    entry = load(ROOT / "server.json")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (package,) = entry["packages"]
    assert package["identifier"] == project["name"]
    # A client runs the command that is named like the package.
    assert package["identifier"] in project["scripts"]
    assert [argument["value"] for argument in package["packageArguments"]] == ["mcp"]
    assert entry["version"] == package["version"] == open_token.__version__
    assert len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']} " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_release_is_refused_with_another_version_or_without_a_section() -> None:
    from check_release import find_problems, list_copies

    assert {version for _, version in list_copies(ROOT)} == {open_token.__version__}
    assert any("the tag is v9.9.9" in problem for problem in find_problems("v9.9.9", ROOT))
