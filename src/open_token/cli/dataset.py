"""`open-token dataset`: conversations of many sources as Parquet or JSON lines."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from open_token.api import build_context
from open_token.cli.shared.console import Console, escape_controls, format_size, pluralize
from open_token.cli.shared.export_options import (
    add_export_options,
    describe_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.jobs import add_jobs_option, parse_jobs
from open_token.cli.shared.progress import Progress
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.dataset import PROFILES
from open_token.errors import OutputError, UsageError
from open_token.options import split_option_words
from open_token.settings import load_settings
from open_token.storage.files import try_lock

if TYPE_CHECKING:
    from open_token.dataset.build import DatasetBuilder, Manifest

HELP = Help(
    summary="Write conversations of many sources as a dataset: Parquet or JSON lines.",
    usage=("dataset SOURCES... -o DIR [OPTIONS] [KEY=VALUE ...]", "dataset --documents DIR -o DIR"),
    sections=(
        Section(
            "Arguments",
            (("SOURCES", "Files, folders, patterns, archives, and URLs that fsspec opens"),),
        ),
    ),
    notes=(
        "Profiles: events (two tables, lossless), hf (columns of Hugging Face agent traces), "
        "scout (an Inspect Scout transcript database), docent (agent runs), sharegpt and "
        "openai-finetune (JSON lines).",
        "An interrupted dataset continues with the same command. Inputs that cannot be read "
        "are listed in errors.ndjson and do not stop it. Conversations that occur twice are "
        "written once. Texts are redacted as in `export`.",
        describe_options(),
    ),
    exit_codes=(
        ("0", "Written"),
        ("1", "Written, but some inputs could not be read"),
        ("2", "Invalid usage"),
        ("3", "Cannot read or write"),
        ("130", "Interrupted; the same command continues"),
    ),
    examples=(
        ("open-token dataset ~/.claude/projects ~/.codex/sessions -o traces", ""),
        ("open-token dataset logs.tar.gz -o hf --to hf redact=pii", "For `load_dataset`"),
        ("open-token dataset --documents traces -o documents", "Back to documents"),
    ),
)
_MIN_SHARD = 1
_MAX_SHARD = 65_536
_MEGABYTE = 1 << 20
_ENGINES = ("local", "ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sources and options."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    group = parser.add_argument_group("Dataset")
    group.add_argument("-o", "--output", metavar="DIR", help="Folder or URL of the dataset")
    group.add_argument(
        "--to",
        "--profile",
        dest="profile",
        metavar="PROFILE",
        default=PROFILES[0],
        help=f"{', '.join(PROFILES)} [default: {PROFILES[0]}]",
    )
    group.add_argument(
        "--shard-mb", metavar="N", default="64", help="Megabytes of input a shard [default: 64]"
    )
    group.add_argument(
        "--documents", metavar="DATASET", help="Write the documents of a dataset back as files"
    )
    engine = parser.add_argument_group("Engine")
    add_jobs_option(engine)
    engine.add_argument(
        "--engine", metavar="NAME", default="local", help="local or ray [default: local]"
    )
    engine.add_argument("--address", metavar="ADDRESS", help="The Ray cluster, such as auto")
    add_export_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Build or continue a dataset."""
    words, sources = split_option_words(args.words)
    if args.output is None:
        raise UsageError("where should the dataset go?", help="name a folder: -o DIR")
    require_packages()
    if args.documents is not None:
        return _write_documents(args, sources, console)
    if not sources:
        raise UsageError("no sources were given", help="name files, folders, archives or URLs")
    _check_choices(args)
    settings = load_settings(console.env, console.cwd)
    defaults = {"exported_at": "omit", **settings.defaults}
    options = resolve_export_options(args, words, defaults)
    warn_about_options(options, settings.policy, console)
    from open_token.dataset.build import DatasetBuilder

    context = build_context(options, settings, console.env)
    output = _resolve_output(args.output, console)
    builder = DatasetBuilder(
        output, args.profile, context, settings.folders, shard_bytes=_parse_shard_size(args)
    )
    with interrupt_on_signals(), _lock(output):
        try:
            return _build(builder, sources, args, console)
        except KeyboardInterrupt:
            console.info("\ninterrupted; the same command continues where this one stopped")
            return 130


def require_packages() -> None:
    """Raise an error that says what to install, if datasets cannot be written here."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise UsageError(
            "datasets need the package pyarrow", help='pip install "open-token-cli[dataset]"'
        )


def _check_choices(args: argparse.Namespace) -> None:
    if args.profile not in PROFILES:
        raise UsageError(
            f"unknown profile: {args.profile[:40]}", help=f"it is one of {', '.join(PROFILES)}"
        )
    if args.engine not in _ENGINES:
        raise UsageError(
            f"unknown engine: {args.engine[:40]}", help=f"it is one of {', '.join(_ENGINES)}"
        )
    if args.address is not None and args.engine != "ray":
        raise UsageError("--address needs --engine ray", help="add it, or leave --address out")


def _parse_shard_size(args: argparse.Namespace) -> int:
    text = args.shard_mb
    is_number = text.isascii() and text.isdecimal()
    if not is_number or not _MIN_SHARD <= int(text) <= _MAX_SHARD:
        raise UsageError(
            f"--shard-mb must be a number from {_MIN_SHARD} to {_MAX_SHARD}",
            help="for example --shard-mb 256",
        )
    return int(text) * _MEGABYTE


def _resolve_output(text: str, console: Console) -> str:
    if "://" in text:
        return text
    path = console.cwd / os.path.expanduser(text)
    if path.exists() and not path.is_dir():
        raise UsageError("the output must be a folder", where=text, help="name a folder")
    return str(path)


@contextlib.contextmanager
def _lock(output: str) -> Iterator[None]:
    """Hold a local dataset alone, and remove what a killed process left in it."""
    if "://" in output:
        yield
        return
    from open_token.dataset.output import remove_unfinished

    folder = Path(output, "_open_token")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OutputError(
            f"cannot write the dataset: {problem.strerror}",
            where=output,
            help="choose another folder",
        ) from None
    with try_lock(folder / "lock") as is_ours:
        if not is_ours:
            raise OutputError(
                "another process is writing this dataset",
                where=output,
                help="wait until it ends, or choose another folder",
            )
        remove_unfinished(folder)
        yield


def _build(
    builder: "DatasetBuilder", sources: list[str], args: argparse.Namespace, console: Console
) -> int:
    due = builder.plan(sources, console.cwd)
    for name in builder.changed_inputs:
        console.warn(
            f"changed since its shard was finished, and left as it was: {escape_controls(name)}"
        )
    from open_token.dataset.build import Engine, run_local

    engine: Engine = run_local(parse_jobs(args))
    if args.engine == "ray":
        from open_token.dataset.ray_engine import run_on_ray

        engine = run_on_ray(args.address)
    total = sum(shard.bytes for shard in due)
    done = 0
    lost = 0
    with Progress(total, console, f"reading {pluralize(len(due), 'shard')}", has_rate=True) as bar:
        for progress in builder.run(due, engine):
            done += progress.shard.bytes
            bar(done)
            if progress.problem is not None:
                lost += 1
                bar.clear()
                console.warn(
                    f"shard {progress.shard.number}: {escape_controls(progress.problem.what)}"
                )
    if lost:
        raise OutputError(
            f"{pluralize(lost, 'shard')} could not be written",
            help="run the same command again: finished shards are not repeated",
        )
    manifest = builder.finish()
    if args.json:
        console.print_json(msgspec.to_builtins(manifest))
    console.info(_summarize(manifest))
    return 1 if manifest.failed else 0


def _summarize(manifest: "Manifest") -> str:
    parts = [
        pluralize(manifest.conversations, "conversation"),
        pluralize(manifest.events, "event"),
        f"{format_size(manifest.source_bytes)} -> {format_size(manifest.bytes)}",
    ]
    if manifest.duplicates:
        parts.append(f"{pluralize(manifest.duplicates, 'duplicate')} left out")
    if manifest.failed:
        parts.append(f"{manifest.failed:,} could not be read (errors.ndjson)")
    if manifest.skipped:
        parts.append(f"{manifest.skipped:,} without a conversation skipped")
    return ", ".join(parts)


def _write_documents(args: argparse.Namespace, sources: list[str], console: Console) -> int:
    if sources:
        raise UsageError(
            "--documents takes no further sources", help="name one dataset: --documents DIR"
        )
    from open_token.dataset.read import write_documents

    target = _resolve_output(args.output, console)
    location = _resolve_output(args.documents, console)
    count = write_documents(location, target)
    if args.json:
        console.print_json({"schema": "open-token/dataset-documents/1", "documents": count})
    console.info(f"wrote {pluralize(count, 'document')} to {escape_controls(target)}")
    return 0
