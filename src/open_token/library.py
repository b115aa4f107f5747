"""What a Python program calls: reads the clock, the environment and the settings, then runs the
pipeline."""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from open_token.comparing import Difference, check_level, compare
from open_token.comparing.steps import Recorder, Run, run_of
from open_token.context import ENGINES, Context
from open_token.errors import InputError, UsageError
from open_token.model import Export, Found
from open_token.options import ExportOptions
from open_token.pages import KINDS
from open_token.pipeline import Bounded, Receipt
from open_token.pipeline import export as run
from open_token.pipeline import read as read_record
from open_token.registry import detect_format, load_reader, select_conversation
from open_token.registry import list_conversations as found_in
from open_token.settings import Settings, load_settings
from open_token.sources.source import Source
from open_token.storage.files import local_key, whole_file
from open_token.timestamps import format_utc, from_epoch
from open_token.writers import FORMS

MOST_COMPARED = 256 << 20
"""Bytes of a conversation that is compared: both are held in memory."""


def export(
    source: str | Path | bytes,
    *,
    reader: str | None = None,
    conversation: str | None = None,
    sign_key: str | Path | None = None,
    **options: Any,
) -> Export:
    """A conversation of any runtime as one Open-Token document.

    `source` is a path or the bytes themselves, `reader` names the format where the content does not
    tell,
    `conversation` chooses one of several by id or number; the options are those of the command
    line:
    `export("session.jsonl", redact="pii", max_bytes=200_000)`. With `sign_key`, the file of a key,
    it is signed.
    """
    out = io.BytesIO()
    words = {**options, "mode": "json", "pretty": False}
    opened, reader = _chosen(source, reader, conversation)
    run(opened, out, _signing(surroundings(words), sign_key), reader)
    return cast(Export, msgspec.json.decode(out.getvalue()))


def export_file(
    source: str | Path | bytes,
    target: str | Path,
    *,
    reader: str | None = None,
    conversation: str | None = None,
    sign_key: str | Path | None = None,
    to: str | None = None,
    **options: Any,
) -> Receipt:
    """Write the export to a file, whole or not at all, in constant memory; tells what was written.

    `to="html"`, `"markdown"` or `"brief"` writes a page for people in place of the document,
    `to="atif"` or `to="otel"` a file for the tools of others, which is held in memory."""
    known = (*KINDS, *FORMS)
    if to is not None and to not in known:
        raise UsageError(
            "there is no such form",
            help=f"to takes {', '.join(known)}; mode chooses json or ndjson",
        )
    if to is not None and sign_key is not None:
        raise UsageError(
            "only an export can be signed", help="sign the export itself, mode=json or mode=ndjson"
        )
    context = _signing(surroundings(options), sign_key)
    opened, reader = _chosen(source, reader, conversation)
    with whole_file(Path(target)) as out:
        return run(opened, out, context, reader, to=to)


def _signing(context: Context, key: str | Path | None) -> Context:
    if key is None:
        return context
    return replace(context, sign=import_module("open_token.signing").signer(Path(key).expanduser()))


def diff(
    a: str | Path | bytes | Export,
    b: str | Path | bytes | Export,
    *,
    level: str = "semantic",
    ignore: Sequence[str] = (),
    **options: Any,
) -> Difference:
    """Where two runs part.

    Each is a path, bytes, or a document that `export` or `read` gave, which is taken as it is. The
    options are those of an export: what is read is redacted first. `level="exact"` counts all but
    ids, times and counts; `ignore` takes JSON pointers into a step, as `/arguments/timeout`."""
    check_level(level)
    one, other = (_run(run, level, options) for run in (a, b))
    return compare(one, other, names=(_name(a), _name(b)), level=level, ignore=ignore)


def _run(given: str | Path | bytes | Export, level: str, options: Mapping[str, Any]) -> Run:
    if isinstance(given, dict):
        return run_of(given, level)
    context = surroundings({**options, "mode": "ndjson", "pretty": False, "integrity": "none"})
    return steps_of(_source(given), context, None, level)[0]


def steps_of(
    source: Source, context: Context, reader: str | None, level: str
) -> tuple[Run, Receipt]:
    """The steps of a conversation as an export would tell it: what is masked there is masked
    here."""
    recorder = Recorder(level)
    too_long = InputError(
        "this conversation is too long to be compared",
        where=source.name,
        help="cut it to what fits, for example max_bytes=200000000 drop=oldest",
        code="diff.long",
    )
    receipt = run(source, Bounded(MOST_COMPARED, too_long, keep=False), context, reader, recorder)
    return recorder.heard(), receipt


def _name(run: str | Path | bytes | Export) -> str:
    return (
        str(run)
        if isinstance(run, str | Path)
        else "<bytes>"
        if isinstance(run, bytes)
        else "<document>"
    )


def conversations(source: str | Path | bytes, *, reader: str | None = None) -> list[Found]:
    """What a file holds whose format can hold several conversations, such as a chat product's
    export; else nothing."""
    opened = _source(source)
    return found_in(opened, reader or detect_format(opened))


def _chosen(
    source: str | Path | bytes, reader: str | None, conversation: str | None
) -> tuple[Source, str | None]:
    opened = _source(source)
    if conversation is not None:
        reader = reader or detect_format(opened)
        select_conversation(opened, reader, conversation)
    return opened, reader


def read(source: str | Path | bytes) -> Export:
    """An Open-Token file, JSON or NDJSON, as one document; no pass runs over it."""
    opened = _source(source)
    if not load_reader("open_token").sniff(opened):
        raise InputError(
            "this is not an Open-Token export",
            where=opened.name,
            help="use open_token.export() to make one",
        )
    context = Context(
        ExportOptions.of({"redact": "none", "include": "include-internal", "internal": "full"})
    )
    record = read_record(opened, context, "open_token")
    document: Export = {"open_token_version": "0.1"}
    if record.exported_at:
        document["exported_at"] = record.exported_at
    document |= {
        "conversation": record.conversation,
        "participants": record.participants,
        "events": list(record.events),
    }
    if record.integrity:
        document["integrity"] = record.integrity
    return document


def _source(source: str | Path | bytes) -> Source:
    if isinstance(source, bytes):
        return Source("<bytes>", data=source)
    path = Path(source)
    return Source.of_folder(path) if path.is_dir() else Source.of(path)


def surroundings(
    words: Mapping[str, Any], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Context:
    """Options, clock, keys and policy for one export: what was said wins over the environment, that
    over the files."""
    env = os.environ if env is None else env
    settings = load_settings(env, cwd or Path.cwd())
    options = ExportOptions.of({**settings.defaults, **words})
    return context_for(options, settings, env)


def context_for(options: ExportOptions, settings: Settings, env: Mapping[str, str]) -> Context:
    """The context of one export."""
    return Context(
        options=options,
        now=_now(env),
        key=local_key(settings.folders),
        team_key=settings.team_key,
        policy=settings.policy,
        rule_cache=settings.folders.cache,
        screen=settings.screen,
        engine=_engine(env),
    )


def _engine(env: Mapping[str, str]) -> str:
    engine = env.get("OPEN_TOKEN_ENGINE") or "auto"
    if engine not in ENGINES:
        raise UsageError(
            "there is no such engine",
            where="OPEN_TOKEN_ENGINE in the environment",
            help=f"it takes {', '.join(ENGINES)}",
        )
    return engine


def _now(env: Mapping[str, str]) -> str | None:
    epoch = env.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal():
        return from_epoch(int(epoch))
    return format_utc(datetime.now(UTC).replace(microsecond=0))
