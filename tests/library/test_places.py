"""Every place that a reader defines is searched, on every operating system."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from helpers.golden_cases import CASES, read_case
from open_token import registry
from open_token.library.discovery import Discovery
from open_token.sources.decompress import load_zstd
from open_token.sources.source import Source

PLACES = [
    (name, place)
    for name in registry.READERS
    for place in registry.load_reader(name).definition.places
]
MOVED = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    "AppData/Roaming": "APPDATA",
    "AppData/Local": "LOCALAPPDATA",
}
ENDS = {".eval": ".zip", ".vscdb": ".db", ".sqlite3": ".db"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@cache
def conversations(reader: str, made: Path) -> list[Path]:
    """What the golden cases have of a reader that it knows by itself."""
    found = []
    for case in CASES:
        if case.parent.name == reader:
            (made / reader / case.name).mkdir(parents=True)
            found.append(read_case(case, made / reader / case.name)[0])
            found += sorted(path for path in case.glob("input/**/*") if path.is_file())
    return [
        path
        for path in found
        if path.is_file() and registry.load_reader(reader).sniff(Source.of(path))
    ]


def like(path: Path, place: str) -> bool:
    """Whether a file may lie at a place."""
    last = place.rpartition("/")[2].removesuffix(".zst")
    end = Path(last).suffix if "." in last[1:] else ".md"
    is_named = not any(sign in last for sign in "*$") and path.name == last
    return is_named or path.name.endswith(ENDS.get(end, end))


def put(reader: str, pattern: str, place: str, root: Path, made: Path) -> Iterator[Path]:
    """Each conversation that may lie there, one after the other."""
    target = root / re.sub(r"\*+", "x1", pattern) if pattern else root / "history.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    for path in conversations(reader, made):
        if like(path, place):
            if target.suffix == ".zst":
                target.write_bytes(load_zstd().compress(path.read_bytes()))
            else:
                shutil.copyfile(path, target)
            yield target


def is_found(reader: str, target: Path, env: dict[str, str], home: Path, cwd: Path | None) -> bool:
    found = Discovery(env, home, cwd).sessions()
    return any((session.reader, session.path) == (reader, target) for session in found)


@pytest.mark.parametrize(("reader", "place"), PLACES, ids=lambda value: str(value))
def test_a_conversation_at_a_place_is_found(
    reader: str, place: str, tmp_path: Path, made: Path
) -> None:
    first, _, pattern = place.partition("/")
    root = tmp_path / "there"
    root.mkdir()
    env: dict[str, str] = {}
    home, cwd = tmp_path / "home", None
    if first.startswith("$"):
        env = {first[1:]: str(root / "history.md" if not pattern else root)}
    elif first == ".":
        cwd = root
    else:
        home, pattern = root, place
    assert any(
        is_found(reader, target, env, home, cwd)
        for target in put(reader, pattern, place, root, made)
    )


@pytest.mark.parametrize(
    ("reader", "place"),
    [
        (name, place)
        for name, place in PLACES
        if place.startswith(tuple(f"{folder}/" for folder in MOVED))
    ],
    ids=lambda value: str(value),
)
def test_folders_of_a_home_may_lie_elsewhere(
    reader: str, place: str, tmp_path: Path, made: Path
) -> None:
    folder = next(folder for folder in MOVED if place.startswith(f"{folder}/"))
    root, home = tmp_path / "there", tmp_path / "home"
    targets = put(reader, place.removeprefix(f"{folder}/"), place, root, made)
    assert any(
        is_found(reader, target, {MOVED[folder]: str(root)}, home, None) for target in targets
    )
    assert Discovery({MOVED[folder]: "there"}, home, tmp_path).sessions() == []
    assert Discovery({MOVED[folder]: ""}, home, tmp_path).sessions() == []
