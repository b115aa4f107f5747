"""Speed of every reader: export with redact=none against parsing and printing the same bytes, in
one run.

    python bench/readers.py [READER ...]

For each reader the largest conversation in ../shared/corpus, else its largest golden case: as it
is, and grown to 5 MB, its records repeated with fresh ids. Both sides run in one process, in turn,
as often as a fifth of a second allows; CPU seconds, the best of five. Small files show the fixed
cost of an export, too."""

import gc
import io
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format, list_conversations
from open_token.sources.source import Source

ROOT = Path(__file__).resolve().parents[1]
PLACES = (ROOT.parent / "shared" / "corpus", ROOT / "tests" / "golden")
CONTEXT = Context(ExportOptions.of({"redact": "none", "mode": "ndjson", "exported_at": "omit"}))
SLICE = 0.2
LARGE = 5_000_000
_ID = re.compile("(?:^|.*_)u?u?ids?|.*[a-z](?:Id|ID|Uuid)|session")


class Sink(io.RawIOBase):
    """Takes all and keeps nothing."""

    def write(self, data: object) -> int:
        """Its length, as a file says it."""
        return len(data)  # type: ignore[arg-type]


def largest() -> dict[str, tuple[int, Path]]:
    """For each reader its largest input that is JSON."""
    found: dict[str, tuple[int, Path]] = {}
    for place in PLACES:
        for path in sorted(place.rglob("*")):
            size = path.stat().st_size if path.is_file() else 0
            if not size or path.name in ("expected.json", "notes.txt", "options.txt"):
                continue
            try:
                source = Source.of(path)
                reader = (
                    detect_format(source) if source.shape in ("lines", "document", "glued") else ""
                )
            except OpenTokenError:
                continue
            known = found.get(reader)
            if reader and (known is None or (size > known[0] and place in known[1].parents)):
                found[reader] = size, path
    return found


def seconds(run: Callable[[], None]) -> float:
    """What one run takes."""
    best = 9e9
    run()
    for _ in range(5):
        count, start = 0, time.process_time()
        while time.process_time() - start < SLICE:
            run()
            count += 1
        best = min(best, (time.process_time() - start) / count)
    return best


def ours(path: Path, reader: str) -> Callable[[], None]:
    """An export; of a file that holds several, of all of them."""

    def run() -> None:
        source = Source.of(path)
        found = list_conversations(source, reader)
        for item in found if len(found) > 1 else [None]:
            source.conversation = item.id if item else None
            export(source, Sink(), CONTEXT, reader)  # type: ignore[arg-type]

    return run


def limit(path: Path) -> Callable[[], None]:
    """Parse and print the same bytes."""
    source = Source.of(path)
    raw = path.read_bytes()
    if source.shape == "lines":
        lines = [line for line in raw.splitlines() if line.strip()]
        return lambda: [None for line in lines if orjson.dumps(orjson.loads(line)) is None].clear()
    if source.shape == "glued":
        texts = [orjson.dumps(value) for _, value in source.records()]
        return lambda: [None for text in texts if orjson.dumps(orjson.loads(text)) is None].clear()
    return lambda: orjson.dumps(orjson.loads(raw)) and None


def grown(path: Path) -> bytes:
    """The same conversation with its records repeated until it is large, each time with fresh
    ids."""
    source = Source.of(path)
    if source.shape != "document":
        first, *rest = [record for _, record in source.records()]
        return b"".join(orjson.dumps(item) + b"\n" for item in [first, *repeated(rest or [first])])
    whole = source.document
    longest = max(
        list(lists(whole, 2)) or lists(whole, 1),
        key=lambda found: len(orjson.dumps(found)),
        default=[],
    )
    longest += list(repeated(list(longest)))
    return orjson.dumps(whole)


def lists(value: Any, least: int) -> Iterator[list[Any]]:
    """The lists of at least so many objects that a document is made of, outermost first."""
    if (
        isinstance(value, list)
        and len(value) >= least
        and all(isinstance(item, dict) for item in value)
    ):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from lists(item, least)


def repeated(records: list[Any]) -> Iterator[Any]:
    """Copies up to the size that is wanted."""
    size, round_ = 0, 0
    while records and size < LARGE:
        for record in records:
            fresh = renamed(record, f"-{round_}") if round_ else record
            size += len(orjson.dumps(fresh))
            yield fresh
        round_ += 1


def renamed(value: Any, mark: str) -> Any:
    """The same value with another name wherever an id stands."""
    if isinstance(value, list):
        return [renamed(item, mark) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item + mark if isinstance(item, str) and _ID.fullmatch(key) else renamed(item, mark)
        for key, item in value.items()
    }


def compare(reader: str, path: Path, note: str) -> None:
    """One row."""
    size = path.stat().st_size
    mine, bound = seconds(ours(path, reader)), seconds(limit(path))
    gc.collect()
    print(
        f"{reader:20} {size / 1e3:9.1f} kB  {mine / bound:6.2f}x  {size / mine / 1e6:7.1f} MB/s  {note}",
        flush=True,
    )


def main() -> None:
    """Two rows a reader."""
    gc.disable()
    wanted = sys.argv[1:] or READERS
    with tempfile.TemporaryDirectory() as folder:
        for reader, (_, path) in sorted(largest().items()):
            if reader not in wanted:
                continue
            compare(reader, path, path.name)
            large = Path(folder) / path.name
            try:
                large.write_bytes(grown(path))
                compare(reader, large, "the same, grown")
            except (OpenTokenError, TypeError) as problem:
                print(f"{reader:20} cannot be grown: {problem}")


if __name__ == "__main__":
    main()
