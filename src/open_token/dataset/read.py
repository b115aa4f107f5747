"""Reading a dataset: as Arrow tables, and as the documents that it was made of."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from open_token.dataset.build import Manifest, read_manifest
from open_token.dataset.output import OutputFolder, open_output
from open_token.dataset.rows import build_event
from open_token.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 4096


def list_files(location: str, table: str) -> list[str]:
    """Return the paths or URLs of the files of one table of a dataset."""
    output = open_output(location)
    return [output.path_of(name) for name in _list_names(read_manifest(output), table)]


def _list_names(manifest: Manifest, table: str) -> list[str]:
    is_events = manifest.profile == "events"
    names = [
        file.name for file in manifest.files if not is_events or file.name.startswith(f"{table}/")
    ]
    if is_events and table not in ("conversations", "events"):
        raise UsageError(
            f"this dataset has no table '{table[:40]}'", help="it has conversations and events"
        )
    return names


def read_arrow(location: str, table: str = "conversations") -> "pa.dataset.Dataset":
    """Return one table of a dataset as an Arrow dataset, which is read as it is used."""
    import pyarrow.dataset as arrow_dataset

    from open_token.dataset.schema import TABLES

    output = open_output(location)
    manifest = read_manifest(output)
    if manifest.profile not in TABLES:
        raise UsageError(
            f"a dataset of profile {manifest.profile} has no tables",
            help="read its files as JSON lines",
        )
    names = _list_names(manifest, table)
    schema = TABLES[manifest.profile].get(table) or next(iter(TABLES[manifest.profile].values()))
    paths = [output.path_of(name) for name in names]
    if not paths:
        return arrow_dataset.dataset(schema.empty_table())
    filesystem = _find_filesystem(output)
    if filesystem is not None:
        paths = [path.partition("://")[2] for path in paths]
    return arrow_dataset.dataset(paths, schema=schema, format="parquet", filesystem=filesystem)


def _find_filesystem(output: OutputFolder) -> Any:
    """Return the fsspec file system of a remote dataset; None for a local one."""
    from open_token.dataset.inputs import is_url, open_filesystem

    if not is_url(output.location):
        return None
    return open_filesystem(output.location)[0]


def iter_documents(location: str) -> Iterator[bytes]:
    """Yield every document of a dataset as `export pretty=false` wrote it, byte for byte."""
    output = open_output(location)
    manifest = read_manifest(output)
    if manifest.profile != "events":
        raise UsageError(
            f"documents cannot be made from profile {manifest.profile}",
            help="only the profile `events` is lossless",
        )
    events_names = set(_list_names(manifest, "events"))
    for name in _list_names(manifest, "conversations"):
        events_name = name.replace("conversations/", "events/", 1)
        paths = (output.path_of(name), output.path_of(events_name))
        events = iter(()) if events_name not in events_names else _iter_rows(output, paths[1])
        yield from _join(_iter_rows(output, paths[0]), events)


def _iter_rows(output: OutputFolder, path: str) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet as parquet

    filesystem = _find_filesystem(output)
    if filesystem is not None:
        path = path.partition("://")[2]
    with parquet.ParquetFile(path, filesystem=filesystem) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield from batch.to_pylist()


def _join(
    conversations: Iterator[Mapping[str, Any]], events: Iterator[Mapping[str, Any]]
) -> Iterator[bytes]:
    """Yield documents; the events of a file have the same order as its conversations."""
    for row in conversations:
        document: dict[str, Any] = {"open_token_version": row["open_token_version"]}
        if row["exported_at"]:
            document["exported_at"] = row["exported_at"]
        document["conversation"] = orjson.Fragment(row["conversation"])
        document["participants"] = orjson.Fragment(row["participants"])
        document["events"] = [build_event(next(events)) for _ in range(row["event_count"])]
        if row["integrity"]:
            document["integrity"] = orjson.Fragment(row["integrity"])
        yield orjson.dumps(document) + b"\n"


def write_documents(location: str, target: str) -> int:
    """Write every document of a dataset into a folder; return how many there are."""
    output = open_output(target)
    count = 0
    for data in iter_documents(location):
        count += 1
        identity = msgspec.json.decode(data, type=_Document).integrity.events_hash
        output.write(f"{identity[:16]}.json", data)
    return count


class _Integrity(msgspec.Struct):
    events_hash: str


class _Document(msgspec.Struct):
    integrity: _Integrity
