"""docs/reference/readers.md says of every reader what the reader says of itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from open_token.readers import CONTAINERS, NAMES, load

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "readers.md"
HEAD = """# Readers

Each reader is one module of `src/open_token/readers`, and this page is made from what the modules say (`make accept`).
The content of a file decides which one reads it; `--from NAME` decides where it cannot. What a reader leaves out is
named and counted at each export; `native=full` keeps it all: [nothing lost](../how-to/nothing-lost.md).
`~/.config`, `~/.local/share`, `~/AppData/Roaming` and `~/AppData/Local` are also looked for where `XDG_CONFIG_HOME`,
`XDG_DATA_HOME`, `APPDATA` and `LOCALAPPDATA` say.
Behind each quirk stand the golden cases (`tests/golden/<reader>/`) or tests (`tests/readers/`) that show it.

"""
TESTS = Path(__file__).resolve().parent


def entry(name: str) -> str:
    reader = cast(Any, load(name))
    lines = [f"## {name}", "", f"{reader.TITLE}.", ""]
    told = {"Seen": reader.SEEN, "Carried": reader.CARRIES, "Not carried": reader.LEAVES}
    lines += [f"- {what}: {words.rstrip('.')}." for what, words in told.items()]
    forms = [kind for kind, names in CONTAINERS.items() if name in names]
    if forms:
        lines.append(f"- Also as: {', '.join(forms)}.")
    if hasattr(reader, "conversations"):
        lines.append("- May hold several conversations: `--conversation`.")
    if reader.PLACES:
        lines += ["- Looked for in:", *(f"  - `{_shown(place)}`" for place in reader.PLACES)]
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
    golden(PAGE, HEAD + "\n".join(map(entry, NAMES)))


def test_every_quirk_is_shown_by_something_that_is_there() -> None:
    tests = "".join(path.read_text() for path in (TESTS / "readers").glob("test_*.py"))
    for name in NAMES:
        for what, shown in quirks(name):
            missing = [
                by
                for by in shown
                if f"def {by}(" not in tests and not (TESTS / "golden" / name / by).is_dir()
            ]
            assert not missing, f"{name}: {what}"
