"""A source, exported whole and restored: is every record, row, member and block what it was?"""

from pathlib import Path
from typing import Any

from open_token.context import Context
from open_token.library.export_many import export_conversations
from open_token.library.restore import restore_files
from open_token.native.units import iter_owned_units, iter_parts
from open_token.registry import load_reader
from open_token.sources.source import Source

WHOLE: dict[str, Any] = {
    "redact": "none",
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "native": "full",
    "mode": "ndjson",
}
"""The options with which nothing is left out."""


def export_whole(
    source: Source, split: str | None = None, reader: str = ""
) -> dict[tuple[str, str], list[Any]]:
    """All units by file; with a reader those that an export may keep."""
    found = (
        iter_owned_units(source, load_reader(reader))
        if reader
        else ((part, part.units()) for part in iter_parts(source, split))
    )
    return {
        (part.file, part.shape): [(unit.at, unit.value) for unit in units] for part, units in found
    }


def is_identical(one: Any, other: Any) -> bool:
    """The same values of the same types, keys in the same order."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_identical(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_identical, one, other))
    return type(one) is type(other) and one == other


def check_restore(
    source: Source, reader: str, context: Context, made: Path
) -> tuple[int, list[str]]:
    """Export whole, restore, compare every unit of every file: the bytes written, what is not the
    same."""
    exported = export_conversations(source, reader, made / "exports", context)
    for failure in exported.failures:
        raise failure.problem
    restore_files(made / "exports", made / "back")
    split = load_reader(reader).definition.block_separator
    source.conversation = None
    wrong = []
    for (file, shape), units in export_whole(source, split, reader).items():
        if file.startswith("!"):
            continue
        back = Source.of(made / "back" / (file or Path(source.name).name).replace("..", "_"))
        if shape == "zip":
            wrong += [
                inner
                for (inner, kind), others in export_whole(back).items()
                if not is_identical(export_whole(source)[inner, kind], others)
            ]
            continue
        ((found, others),) = export_whole(back, None if file else split).items()
        if found[1] != shape or not is_identical(units, others):
            wrong.append(file or "the source")
    return sum(item.stat().st_size for item in (made / "exports").glob("*.ndjson")), wrong
