"""Builds a dataset: plans its shards, runs those that are not finished, and removes duplicates.

A dataset can be interrupted at any moment. The plan is stored before the first shard; a shard is
finished when its record is stored. The next call with the same options finishes what is missing,
and adds new inputs as further shards.
"""

import functools
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import msgspec

from open_token.context import Context
from open_token.dataset import SCHEMA_VERSION
from open_token.dataset.card import render_card
from open_token.dataset.deduplicate import remove_duplicates
from open_token.dataset.inputs import Input, find_inputs
from open_token.dataset.output import OutputFolder, open_output
from open_token.dataset.shard import (
    ErrorEntry,
    Shard,
    ShardJob,
    ShardRecord,
    build_shard,
    read_records,
)
from open_token.errors import OpenTokenError, OutputError, UsageError
from open_token.library.jobs import Outcome, run_jobs
from open_token.redaction.text_stream import get_text_level
from open_token.storage.files import Folders

PLAN = "_open_token/plan.json"
MANIFEST = "manifest.json"
ERRORS = "errors.ndjson"
CARD = "README.md"
DEFAULT_SHARD_BYTES = 64 << 20
Engine = Callable[[ShardJob, list[Shard]], Iterable[Outcome[Shard, ShardRecord]]]


class Plan(msgspec.Struct):
    """What a dataset is made of. Stored before the first shard, and extended by new inputs."""

    schema: str
    profile: str
    options: str
    """The export options as words."""
    redaction: str
    """The level that applies, to which a policy may have raised the option."""
    shards: list[Shard]


class DatasetFile(msgspec.Struct, frozen=True):
    """One file of a finished dataset."""

    name: str
    rows: int
    bytes: int


class Manifest(msgspec.Struct):
    """The summary of a dataset, in `manifest.json`."""

    schema: str
    profile: str
    options: str
    redaction: str
    conversations: int
    events: int
    duplicates: int
    failed: int
    skipped: int
    source_bytes: int
    bytes: int
    files: list[DatasetFile]


class Progress(msgspec.Struct, frozen=True):
    """What happened to one shard."""

    shard: Shard
    record: ShardRecord | None
    problem: OpenTokenError | None


class DatasetBuilder:
    """Builds one dataset in a folder or at a URL."""

    def __init__(
        self,
        output: str,
        profile: str,
        context: Context,
        folders: Folders,
        *,
        shard_bytes: int = DEFAULT_SHARD_BYTES,
    ) -> None:
        if context.options.native == "full":
            raise UsageError(
                "a dataset cannot hold native data", help="leave native=full out, or use `export`"
            )
        self._output = open_output(output)
        self._shard_bytes = shard_bytes
        options = context.options.as_words()
        redaction = _find_redaction(context)
        self._plan = Plan(SCHEMA_VERSION, profile, options, redaction, [])
        self._job = ShardJob(output, profile, context, str(folders.cache), str(folders.settings))
        self._records: dict[int, ShardRecord] = {}
        self.changed_inputs: list[str] = []
        """Inputs that have changed since their shard was finished; they stay as they were."""

    def plan(self, sources: list[str], cwd: Path) -> list[Shard]:
        """Find the inputs, store the plan, and return the shards that are not finished."""
        inputs = find_inputs(sources, cwd)
        if not inputs:
            raise UsageError(
                "there is nothing in these sources", help="name files that hold sessions"
            )
        self._load_plan()
        known = {item.location: item for shard in self._plan.shards for item in shard.inputs}
        self.changed_inputs = [
            item.name
            for item in inputs
            if item.location in known and item.stamp != known[item.location].stamp
        ]
        new = [item for item in inputs if item.location not in known]
        first = len(self._plan.shards)
        self._plan.shards += _split_into_shards(new, first, self._shard_bytes)
        if new or not known:
            self._output.write(PLAN, msgspec.json.encode(self._plan))
        self._records = read_records(self._output)
        return [shard for shard in self._plan.shards if shard.number not in self._records]

    def _load_plan(self) -> None:
        raw = self._output.read(PLAN)
        if raw is None:
            return
        plan = msgspec.json.decode(raw, type=Plan)
        if msgspec.structs.replace(plan, shards=[]) != self._plan:
            raise OutputError(
                "this dataset was begun with other options",
                where=self._output.location,
                help=f"it has profile {plan.profile} and options "
                f"'{plan.options or 'default'}' at redaction level {plan.redaction}; use them again, "
                "or another folder",
            )
        self._plan = plan

    def run(self, shards: list[Shard], engine: Engine) -> Generator[Progress, None, None]:
        """Build shards, and yield what becomes of each, in order."""
        for outcome in engine(self._job, shards):
            if outcome.result is not None:
                self._records[outcome.item.number] = outcome.result
            yield Progress(outcome.item, outcome.result, outcome.problem)

    def finish(self) -> Manifest:
        """Remove duplicates over all shards; write the manifest, the errors and the card."""
        self._records = remove_duplicates(self._output, self._plan.profile, self._records)
        records = [self._records[number] for number in sorted(self._records)]
        errors = [entry for record in records for entry in record.errors]
        manifest = self._summarize(records, errors)
        if errors:
            lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in errors)
            self._output.write(ERRORS, lines)
        else:
            self._output.remove(ERRORS)
        self._output.write(CARD, render_card(manifest, records).encode())
        self._output.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        return manifest

    def _summarize(self, records: list[ShardRecord], errors: list[ErrorEntry]) -> Manifest:
        files = [
            DatasetFile(file.name, file.rows, file.bytes)
            for record in records
            for file in record.files
        ]
        return Manifest(
            schema=self._plan.schema,
            profile=self._plan.profile,
            options=self._plan.options,
            redaction=self._plan.redaction,
            conversations=sum(len(record.events) for record in records),
            events=sum(sum(record.events.values()) for record in records),
            duplicates=sum(record.duplicates for record in records),
            failed=sum(entry.status == "failed" for entry in errors),
            skipped=sum(entry.status == "skipped" for entry in errors),
            source_bytes=sum(record.source_bytes for record in records),
            bytes=sum(file.bytes for file in files),
            files=files,
        )


def _find_redaction(context: Context) -> str:
    """Return what is masked: by the options, or by a policy that asks for more."""
    level = get_text_level(context)
    return "private-keys" if level == "none" else level or "none"


def run_local(jobs: int) -> Engine:
    """Return the engine that works on this machine, in up to `jobs` processes."""

    def run(job: ShardJob, shards: list[Shard]) -> Iterable[Outcome[Shard, ShardRecord]]:
        return run_jobs(functools.partial(build_shard, job), shards, min(jobs, len(shards)))

    return run


def read_manifest(output: OutputFolder) -> Manifest:
    """Return the manifest of a finished dataset."""
    raw = output.read(MANIFEST)
    if raw is None:
        raise UsageError(
            "there is no finished dataset here",
            where=output.location,
            help="write one with `open-token dataset SOURCES -o DIR`",
        )
    manifest: Manifest = msgspec.json.decode(raw, type=Manifest)
    return manifest


def _split_into_shards(inputs: list[Input], first: int, most: int) -> list[Shard]:
    """Return shards of about the same size; one large input is a shard of its own."""
    groups: list[list[Input]] = []
    size = 0
    for item in inputs:
        if not groups or size + item.bytes > most:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += item.bytes
    return [Shard(first + number, group) for number, group in enumerate(groups)]
