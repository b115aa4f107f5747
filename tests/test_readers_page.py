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

"""


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
    return "\n".join(lines) + "\n"


def _shown(place: str) -> str:
    return place if place.startswith(("$", "./")) else f"~/{place}"


def test_the_page_is_what_the_readers_say(golden: Callable[[Path, str | bytes], None]) -> None:
    golden(PAGE, HEAD + "\n".join(map(entry, NAMES)))
