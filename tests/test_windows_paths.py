"""Paths of Windows, by the rules of `ntpath`: on this system, where nothing else would try them."""

import ntpath
import re
import shlex
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest

from open_token.handoff.project_folders import encode_project_path
from open_token.library import places, restore
from open_token.library.archive.names import choose_file_name
from open_token.library.hooks import handlers
from open_token.library.places import resolve_places
from open_token.registry import list_agents
from open_token.writers.html import front_matter

HOME = PureWindowsPath(r"C:\Users\Mia Example")
ROAMING = r"D:\Profiles\Mia\Roaming"
HOSTILE_NAMES = [
    "../../Windows/System32/x.jsonl",
    "..\\..\\x.jsonl",
    "/x.jsonl",
    "\\\\server\\share\\x.jsonl",
    "//server/share/x.jsonl",
    "C:\\Windows\\x.jsonl",
    "C:x.jsonl",
    "c:/x.jsonl",
    "\\\\?\\C:\\x",
    "\\\\.\\PhysicalDrive0",
    "x.jsonl:stream",
    "a/./b/../c.jsonl",
    "CON",
    "nul.jsonl",
    "sub/COM1.txt",
    "lpt9 .x",
    "aux. ",
    "name.",
    "name. . ",
    "a<b>|c?*.jsonl",
    'say "x"',
    "tab\tline\nnul\x00",
    "...",
    "",
]


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that choose by the platform choose what they choose on Windows."""
    platform = SimpleNamespace(platform="win32")
    for module in (restore, handlers):
        monkeypatch.setattr(module, "sys", platform)
    monkeypatch.setattr(places, "Path", PureWindowsPath)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_restored_files_stay_in_their_folder(name: str) -> None:
    safe = restore._sanitize_name(name)
    root = "C:\\out"
    joined = ntpath.join(root, safe)
    assert ntpath.splitdrive(safe)[0] == ""
    assert not ntpath.isabs(safe)
    assert ntpath.commonpath([root, ntpath.normpath(joined)]) == root
    assert ntpath.normpath(joined) != root
    for step in safe.split("/"):
        assert not re.search(r'[<>:"|?*\\\x00-\x1f]', step)
        assert not step.endswith((".", " "))
        assert not PureWindowsPath(step).is_reserved()


@pytest.mark.parametrize("name", ["a/b.jsonl", "rollout-2026-01-01T10-00-00.jsonl", "Über.json"])
def test_ordinary_names_are_kept(name: str, request: pytest.FixtureRequest) -> None:
    assert restore._sanitize_name(name) == name
    request.getfixturevalue("windows")
    assert restore._sanitize_name(name) == name


def resolve(patterns: tuple[str, ...], env: dict[str, str]) -> list[Any]:
    """The places of Windows; the type says Path, but nothing is opened."""
    home: Any = HOME
    cwd: Any = PureWindowsPath(r"E:\work")
    return list(resolve_places(patterns, env, home, cwd))


@pytest.mark.usefixtures("windows")
def test_places_below_folders_that_windows_moves() -> None:
    env = {"APPDATA": ROAMING, "LOCALAPPDATA": r"C:\Users\Mia Example\AppData\Local"}
    found = resolve(("AppData/Roaming/Code/*.json", "AppData/Local/x/*.json"), env)
    roots = [(str(place.root), place.pattern) for place in found]
    assert roots == [
        (str(HOME), "AppData/Roaming/Code/*.json"),
        (ROAMING, "Code/*.json"),
        # The variable says the same as the pattern: one place.
        (str(HOME), "AppData/Local/x/*.json"),
    ]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    ("written", "root"),
    [
        (r"D:\agents", r"D:\agents"),
        ("D:/agents", r"D:\agents"),
        (r"~\agents", r"C:\Users\Mia Example\agents"),
        ("~/agents", r"C:\Users\Mia Example\agents"),
        ("agents", r"E:\work\agents"),
        (r"\agents", r"E:\agents"),
        (r"\\server\share\agents", "\\\\server\\share\\agents"),
    ],
)
def test_folders_that_variables_name(written: str, root: str) -> None:
    (place,) = resolve(("$CODEX_HOME/sessions/*.jsonl",), {"CODEX_HOME": written})
    assert (str(place.root), place.pattern) == (root, "sessions/*.jsonl")


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("value", ["relative", r"\rooted", "D:relative"])
def test_relative_values_of_the_system_are_ignored(value: str) -> None:
    assert len(resolve(("AppData/Roaming/x/*.json",), {"APPDATA": value})) == 1


@pytest.mark.usefixtures("windows")
def test_places_of_all_agents_are_patterns_of_windows() -> None:
    env = {"APPDATA": ROAMING, "LOCALAPPDATA": r"D:\Profiles\Mia\Local"}
    count = 0
    for agent in list_agents():
        for place in resolve(agent.places, env):
            assert ntpath.isabs(str(place.root)), agent.name
            assert "\\" not in place.pattern, agent.name
            # A step with one of these is no file name there, so nothing could match.
            assert not re.search(r'[<>:"|]', place.pattern), agent.name
            count += 1
    assert count > 60


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        (r"C:\Users\mia\tides", "C--Users-mia-tides"),
        (r"\\server\share\my tides", "--server-share-my-tides"),
        (r"D:\Flüsse", "D--Fl-sse"),
    ],
)
def test_project_folders_of_claude_code(cwd: str, name: str) -> None:
    assert encode_project_path(cwd) == name


@pytest.mark.parametrize("title", ["CON", "a: b?", "x.", 'say "x"', "..\\..\\x", "nul.txt"])
def test_names_in_the_archive(title: str) -> None:
    name = choose_file_name(
        "2026-01-01", title, "conv_20260101_0a1b2c3d", "ot.json", lambda _: True
    )
    assert not PureWindowsPath(name).is_reserved()
    assert re.fullmatch(r"[\w.-]+", name)
    assert ntpath.basename(name) == name


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        (r"C:\Users\mia\tides", "tides"),
        (r"\\server\share\tides", "tides"),
        ("C:\\", "C:\\"),
        ("/home/mia/tides", "tides"),
        # A backslash is an ordinary character elsewhere.
        ("/home/mia/a\\b", "a\\b"),
        ("/", "/"),
    ],
)
def test_pages_name_the_folder_of_a_session(cwd: str, name: str) -> None:
    assert front_matter._find_folder_name(cwd) == name


@pytest.mark.usefixtures("windows")
def test_hook_commands_are_quoted_for_both_shells_of_windows() -> None:
    program = r"C:\Program Files\Python\Scripts\open-token.exe"
    command = handlers.build_command((program,), "codex", Path("archive"))
    assert command == f'"{program}" hook run --for codex --to archive'
    # Bash, and we when we look for our own hooks, read the same words.
    assert shlex.split(command)[0] == program
    short = r"C:\x\open-token.exe"
    command = handlers.build_command((short,), "codex", None)
    assert handlers._split_command(command)[0] == short
