"""One shard of a dataset: its inputs read, its files written, and a record of both.

`build_shard` is the same function for every engine. It depends on its arguments alone, so that a
shard that is written twice, after a crash or by two machines, has the same bytes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from open_token.context import Context
from open_token.dataset import TABLE_PROFILES
from open_token.dataset.conversation import ExportedConversation, FindCost
from open_token.dataset.inputs import Input, is_part_of_session, open_sources
from open_token.dataset.output import OutputFolder, open_output
from open_token.dataset.rows import build_lines, build_rows
from open_token.errors import InputError, OpenTokenError
from open_token.library.index.events import EventReader
from open_token.library.prices import PriceList
from open_token.registry import detect_format, list_conversations
from open_token.sources.folder_listings import FolderListings
from open_token.sources.source import Source

# A row group holds about this much text: readers that stream a dataset hold one at a time.
_ROW_GROUP_BYTES = 16 << 20
_ROW_GROUP_ROWS = 100_000
# Below this size a small conversation is not worth a thought about its bytes.
_ROW_OVERHEAD = 200
_ZSTD_LEVEL = 3
RECORDS = "_open_token/shards"
"""The folder of the records of finished shards."""
_NOT_A_CONVERSATION = ("input.unknown", "input.binary", "input.empty", "input.no-events")


class Shard(msgspec.Struct, frozen=True):
    """A part of the inputs that one process works on."""

    number: int
    inputs: list[Input]

    @property
    def bytes(self) -> int:
        """The size of its inputs."""
        return sum(item.bytes for item in self.inputs)


class ShardJob(msgspec.Struct, frozen=True):
    """What a process needs to know to build any shard of a dataset."""

    output: str
    profile: str
    context: Any
    """A `Context`; it holds functions of modules only, so that it can be sent to a process."""
    cache: str
    settings: str
    """The folders of the price list."""


class ErrorEntry(msgspec.Struct, frozen=True):
    """An input that is not in the dataset, and why."""

    source: str
    status: str
    """failed, or skipped: no reader knows it, or it holds no conversation."""
    code: str
    message: str


class FileRecord(msgspec.Struct, frozen=True):
    """One finished file of a dataset."""

    name: str
    table: str
    rows: int
    bytes: int
    hashes: list[str]
    """The content hash of each conversation in it, in order; one for each row but in `events`."""


class ShardRecord(msgspec.Struct):
    """What a finished shard consists of. It is written last: a shard without it does not exist."""

    number: int
    inputs: list[Input]
    files: list[FileRecord]
    errors: list[ErrorEntry]
    events: dict[str, int] = {}
    """The number of events of each conversation, by its content hash."""
    duplicates: int = 0
    source_bytes: int = 0


def build_shard(job: ShardJob, shard: Shard) -> ShardRecord:
    """Read the inputs of a shard, write its files, and store its record."""
    context: Context = job.context
    output = open_output(job.output)
    record = ShardRecord(shard.number, shard.inputs, [], [], source_bytes=shard.bytes)
    prices = PriceList(Path(job.cache), Path(job.settings))
    find_cost = _CostFinder(prices)
    with output.temporary() as folder:
        writer = _create_writer(job.profile, folder)
        for conversation in _read_conversations(shard, context, find_cost, record):
            if conversation.content_hash in record.events:
                record.duplicates += 1
                continue
            record.events[conversation.content_hash] = len(conversation.events)
            writer.add(conversation)
        prices.save()
        for path, table, partition, rows, hashes in writer.finish():
            name = name_file(job.profile, table, partition, shard.number)
            size = path.stat().st_size
            output.put(path, name)
            record.files.append(FileRecord(name, table, rows, size, hashes))
    write_record(output, record)
    return record


def write_record(output: OutputFolder, record: ShardRecord) -> None:
    """Store the record of a finished shard."""
    name = f"{RECORDS}/{record.number:05d}.json"
    output.write(name, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def read_records(output: OutputFolder) -> dict[int, ShardRecord]:
    """Return the records of the finished shards of a dataset."""
    records = {}
    for name in output.list(RECORDS):
        raw = output.read(f"{RECORDS}/{name}")
        if raw is not None and name.endswith(".json"):
            record = msgspec.json.decode(raw, type=ShardRecord)
            records[record.number] = record
    return records


def name_file(profile: str, table: str, partition: str, number: int) -> str:
    """Return the name of a file of a shard below the dataset."""
    if profile == "scout":
        return f"transcripts_{number:05d}.parquet"
    if profile == "hf":
        return f"data/train-{number:05d}.parquet"
    if profile in TABLE_PROFILES:
        return f"{table}/runtime={partition}/part-{number:05d}.parquet"
    return f"data/train-{number:05d}.jsonl"


class _CostFinder:
    """Estimates what a conversation cost; unknown if the price of one of its models is."""

    def __init__(self, prices: PriceList) -> None:
        self._prices = prices

    def __call__(self, counts: EventReader) -> float | None:
        total = 0.0
        for usage in counts.usage:
            cost = self._prices.estimate(
                usage.model,
                input=usage.input,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                output=usage.output,
            )
            if cost is None:
                return None
            total += cost
        return total if counts.usage else None


def _read_conversations(
    shard: Shard, context: Context, prices: FindCost, record: ShardRecord
) -> Iterator[ExportedConversation]:
    """Yield every conversation of a shard; what cannot be read is noted and does not stop it."""
    listings = FolderListings()
    for item in shard.inputs:
        try:
            for name, source in open_sources(item):
                source.listings = listings
                yield from _read_source(source, name, context, prices, record)
        except (OpenTokenError, OSError) as problem:
            record.errors.append(_describe_problem(item.name, problem))


def _read_source(
    source: Source, name: str, context: Context, prices: FindCost, record: ShardRecord
) -> Iterator[ExportedConversation]:
    try:
        reader = detect_format(source)
        if is_part_of_session(reader, name):
            return
        found = list_conversations(source, reader)
    except OpenTokenError as problem:
        record.errors.append(_describe_problem(name, problem))
        return
    ids: list[str | None] = [None]
    if len(found) > 1:
        ids = [conversation.id for conversation in found]
    for conversation_id in ids:
        source.conversation = conversation_id
        try:
            conversation = ExportedConversation.of(source, reader, name, context, prices)
        except Exception as problem:
            # One conversation must not cost the others, whatever is wrong with it.
            where = name if conversation_id is None else f"{name}#{conversation_id}"
            record.errors.append(_describe_problem(where, problem))
            continue
        yield conversation


def _describe_problem(name: str, problem: Exception) -> ErrorEntry:
    if isinstance(problem, InputError) and problem.code in _NOT_A_CONVERSATION:
        return ErrorEntry(name, "skipped", problem.code, problem.what)
    if isinstance(problem, OpenTokenError):
        return ErrorEntry(name, "failed", problem.code, problem.what)
    # Without its message, which may quote a conversation.
    return ErrorEntry(name, "failed", "internal", f"internal error ({type(problem).__name__})")


_Finished = tuple[Path, str, str, int, list[str]]


def _create_writer(profile: str, folder: Path) -> "_TableWriter | _LineWriter":
    if profile in TABLE_PROFILES:
        return _TableWriter(profile, folder)
    return _LineWriter(profile, folder)


class _TableWriter:
    """Writes the tables of a profile, one Parquet file for each table and runtime."""

    def __init__(self, profile: str, folder: Path) -> None:
        self._profile = profile
        self._folder = folder
        self._files: dict[tuple[str, str], _ParquetFile] = {}

    def add(self, conversation: ExportedConversation) -> None:
        """Add the rows of one conversation."""
        partition = conversation.receipt.reader if self._profile == "events" else ""
        for table, row in build_rows(conversation, self._profile):
            self._open(table, partition).add(row)

    def _open(self, table: str, partition: str) -> "_ParquetFile":
        key = (table, partition)
        if key not in self._files:
            path = self._folder / f"{len(self._files)}.parquet"
            self._files[key] = _ParquetFile(path, self._profile, table)
        return self._files[key]

    def finish(self) -> Iterator[_Finished]:
        """Close all files and yield them in order."""
        for (table, partition), file in sorted(self._files.items()):
            file.close()
            yield file.path, table, partition, file.rows, file.hashes


class _ParquetFile:
    """One Parquet file; rows are held until they make a row group."""

    def __init__(self, path: Path, profile: str, table: str) -> None:
        import pyarrow.parquet as parquet

        from open_token.dataset.schema import TABLES

        self.path = path
        self.rows = 0
        self.hashes: list[str] = []
        self._schema = TABLES[profile][table]
        self._writer = parquet.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            # Text that hardly repeats gains nothing from a dictionary, which costs memory.
            use_dictionary=[field.name for field in self._schema if str(field.type) == "string"],
        )
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._held_rows = 0
        self._held_bytes = 0

    def add(self, row: dict[str, Any]) -> None:
        """Add one row."""
        content_hash = row["content_hash"]
        if not self.hashes or self.hashes[-1] != content_hash:
            self.hashes.append(content_hash)
        size = _ROW_OVERHEAD
        for name, values in self._columns.items():
            value = row.get(name)
            values.append(value)
            if isinstance(value, str | list):
                size += _measure(value)
        self._held_rows += 1
        self._held_bytes += size
        if self._held_bytes >= _ROW_GROUP_BYTES or self._held_rows >= _ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._held_rows:
            return
        columns = [_to_array(self._columns[field.name], field.type) for field in self._schema]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(table, row_group_size=self._held_rows)
        self.rows += self._held_rows
        self._columns = {name: [] for name in self._schema.names}
        self._held_rows = 0
        self._held_bytes = 0

    def close(self) -> None:
        """Write what is held, and the end of the file."""
        self._flush()
        self._writer.close()


def _to_array(values: list[Any], kind: Any) -> Any:
    """Return a column; Arrow makes JSON values only from the text that they are stored as."""
    import pyarrow as pa

    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_list(kind) and isinstance(kind.value_type, pa.JsonType):
        texts = pa.array(values, pa.list_(kind.value_type.storage_type))
        items = pa.ExtensionArray.from_storage(kind.value_type, texts.values)
        return pa.ListArray.from_arrays(texts.offsets, items, type=kind)
    return pa.array(values, kind)


def _measure(value: str | list[str]) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(len(item) for item in value)


class _LineWriter:
    """Writes one JSON line for each conversation."""

    def __init__(self, profile: str, folder: Path) -> None:
        self._profile = profile
        self._path = folder / "0.jsonl"
        self._out = self._path.open("wb")
        self._rows = 0
        self._hashes: list[str] = []

    def add(self, conversation: ExportedConversation) -> None:
        """Add the lines of one conversation."""
        for line in build_lines(conversation, self._profile):
            self._out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            self._rows += 1
            self._hashes.append(conversation.content_hash)

    def finish(self) -> Iterator[_Finished]:
        """Close the file and yield it, unless it is empty."""
        self._out.close()
        if self._rows:
            yield self._path, "", "", self._rows, self._hashes
