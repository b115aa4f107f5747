"""Removes conversations that several shards have, such as copies of a session in two folders.

The first shard that has a conversation keeps it. Only files that lose something are written again.
"""

from pathlib import Path

import msgspec

from open_token.dataset import TABLE_PROFILES
from open_token.dataset.output import OutputFolder
from open_token.dataset.shard import FileRecord, ShardRecord, write_record


def remove_duplicates(
    output: OutputFolder, profile: str, records: dict[int, ShardRecord]
) -> dict[int, ShardRecord]:
    """Return the records after every conversation is in one shard only."""
    owners: dict[str, int] = {}
    for number in sorted(records):
        for content_hash in records[number].events:
            owners.setdefault(content_hash, number)
    kept = {}
    for number, record in records.items():
        doubled = {name for name in record.events if owners[name] != number}
        kept[number] = _rewrite(output, profile, record, doubled) if doubled else record
    return kept


def _rewrite(
    output: OutputFolder, profile: str, record: ShardRecord, doubled: set[str]
) -> ShardRecord:
    """Write the files of a shard again without some conversations, and its record last.

    If this is interrupted, the record still names the conversations, and the next pass repeats it.
    """
    files = []
    with output.temporary() as folder:
        for file in record.files:
            path = folder / "rewritten"
            source = folder / "original"
            data = output.read(file.name)
            if data is None:
                continue
            source.write_bytes(data)
            if profile in TABLE_PROFILES:
                rows = _filter_table(source, path, doubled)
            else:
                rows = _filter_lines(source, path, file.hashes, doubled)
            hashes = [content_hash for content_hash in file.hashes if content_hash not in doubled]
            if rows:
                size = path.stat().st_size
                output.put(path, file.name)
                files.append(FileRecord(file.name, file.table, rows, size, hashes))
            else:
                output.remove(file.name)
    changed = msgspec.structs.replace(
        record,
        files=files,
        events={name: count for name, count in record.events.items() if name not in doubled},
        duplicates=record.duplicates + len(doubled),
    )
    write_record(output, changed)
    return changed


def _filter_table(source: Path, target: Path, doubled: set[str]) -> int:
    """Copy a Parquet file without the rows of some conversations; return the rows that stay."""
    import pyarrow as pa
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    rows = 0
    with (
        parquet.ParquetFile(source) as file,
        parquet.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer,
    ):
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            is_doubled = compute.is_in(table["content_hash"], pa.array(sorted(doubled)))
            table = table.filter(compute.invert(is_doubled))
            if table.num_rows:
                writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
    return rows


def _filter_lines(source: Path, target: Path, hashes: list[str], doubled: set[str]) -> int:
    rows = 0
    with source.open("rb") as stream, target.open("wb") as out:
        for line, content_hash in zip(stream, hashes, strict=True):
            if content_hash not in doubled:
                out.write(line)
                rows += 1
    return rows
