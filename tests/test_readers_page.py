"""docs/reference/readers.md says of every reader what the reader says of itself."""

from collections.abc import Callable
from pathlib import Path

from open_token.registry import READERS, load_reader

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "readers.md"
HEAD = """# Readers

Each reader is a package in `src/open_token/agents` or `src/open_token/formats`. This page is generated from their
definitions (`make accept`). The content of a file decides which reader it is for; `--from NAME` overrides that. What a
reader omits is named and counted in every export; `native=full` preserves it: [nothing lost](../how-to/nothing-lost.md).
`~/.config`, `~/.local/share`, `~/AppData/Roaming` and `~/AppData/Local` are also looked for where `XDG_CONFIG_HOME`,
`XDG_DATA_HOME`, `APPDATA` and `LOCALAPPDATA` say.
`Checked` names the versions of real files that a reader was run against, and behind "from descriptions only" what nobody
here has seen; an experimental reader has seen none, and every export of it says so.
Behind each quirk stand the golden cases (`tests/golden/<reader>/`) or tests (`tests/readers/`) that show it.

"""
TESTS = Path(__file__).resolve().parent


def entry(name: str) -> str:
    reader = load_reader(name).definition
    mark = " **Experimental:** never checked on a real file." if reader.is_experimental else ""
    lines = [f"## {name}", "", f"{reader.title}.{mark}", ""]
    result = {"Checked": reader.checked, "Included": reader.includes, "Omitted": reader.omits}
    lines += [f"- {what}: {words.rstrip('.')}." for what, words in result.items()]
    if reader.containers:
        lines.append(f"- Also as: {', '.join(reader.containers)}.")
    if reader.holds_several:
        lines.append("- May hold several conversations: `--conversation`.")
    if reader.places:
        lines += ["- Looked for in:", *(f"  - `{_shown(place)}`" for place in reader.places)]
    lines += [
        "- Quirks:",
        *(f"  - {what}: {', '.join(f'`{shown}`' for shown in by)}" for what, by in quirks(name)),
    ]
    return "\n".join(lines) + "\n"


def quirks(name: str) -> list[tuple[str, list[str]]]:
    """What a format does that a reader must know of, and what shows it: a line each in quirks.txt
    of its cases."""
    lines = (TESTS / "golden" / name / "quirks.txt").read_text().splitlines()
    return [(what, shown.split()) for what, shown in (line.split(" | ") for line in lines)]


def _shown(place: str) -> str:
    return place if place.startswith(("$", "./")) else f"~/{place}"


def test_the_page_is_what_the_readers_say(golden: Callable[[Path, str | bytes], None]) -> None:
    golden(PAGE, HEAD + "\n".join(map(entry, READERS)))


def test_every_quirk_is_shown_by_something_that_is_there() -> None:
    folders = ("agents", "formats", "readers")
    paths = [path for folder in folders for path in (TESTS / folder).rglob("test_*.py")]
    tests = "".join(path.read_text() for path in paths)
    for name in READERS:
        for what, shown in quirks(name):
            missing = [
                by
                for by in shown
                if f"def {by}(" not in tests and not (TESTS / "golden" / name / by).is_dir()
            ]
            assert not missing, f"{name}: {what}"


def test_what_was_never_seen_is_said_in_one_way() -> None:
    for name in READERS:
        reader = load_reader(name).definition
        seen, phrase, described = reader.checked.partition("from descriptions only: ")
        assert reader.is_experimental == (not seen), f"{name}: is_experimental and checked differ"
        assert not phrase or described, f"{name}: say what was described"
        for word in ("documentation", "described", "not seen", "no real"):
            assert word not in reader.checked, f"{name}: write `from descriptions only: ...`"
