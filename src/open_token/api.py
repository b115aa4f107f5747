"""The Python API.

These functions read the clock, the environment and the settings, and then run the pipeline.
Packages that an export does not need (diff, signatures) are imported where they are used.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from open_token.context import ENGINES, Context
from open_token.errors import InputError, UsageError
from open_token.jsontools.timestamps import format_utc, from_epoch
from open_token.model.document import Export, Found, Usage
from open_token.options import ExportOptions
from open_token.pipeline import BoundedBuffer, Receipt, read_record
from open_token.pipeline import export as run_pipeline
from open_token.registry import detect_format, load_reader, select_conversation
from open_token.registry import list_conversations as list_conversations
from open_token.settings import Settings, load_settings, load_signing_settings
from open_token.sources.source import Source
from open_token.storage.files import Folders, atomic_file, load_local_key, read_existing
from open_token.writers import EXCHANGE_FORMATS, PAGE_FORMATS

if TYPE_CHECKING:
    from open_token.comparison import Difference
    from open_token.comparison.steps import Transcript
    from open_token.integrity.signatures.trust import Signer, Trust
    from open_token.integrity.verify import Verdict
    from open_token.library.blame import BlamedLine
    from open_token.library.discovery import Session
    from open_token.library.index import FoundSession
    from open_token.library.prices import PriceList

# Both conversations of a diff are held in memory.
MAX_DIFF_BYTES = 256 << 20


def export(
    source: str | Path | bytes,
    *,
    reader: str | None = None,
    conversation: str | None = None,
    sign_key: str | Path | None = None,
    **options: Any,
) -> Export:
    """Return a conversation of any runtime as an Open-Token document.

    `source` is a path or the bytes themselves. `reader` names the format if the content is
    ambiguous, `conversation` selects one of several by id or number, and `sign_key` is the file of
    a key to sign with. The options are those of the command line: `export("session.jsonl",
    redact="pii", max_bytes=200_000)`.
    """
    context = load_context({**options, "mode": "json", "pretty": False})
    opened, reader = _open_conversation(source, reader, conversation)
    out = io.BytesIO()
    run_pipeline(opened, out, _with_signer(context, sign_key), reader)
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
    """Write an export to a file atomically, in constant memory, and return a receipt.

    `to="html"`, `"markdown"` or `"brief"` writes a page for people instead of the document,
    `"atif"` or `"otel"` a file for other tools, which is built in memory.
    """
    formats = (*PAGE_FORMATS, *EXCHANGE_FORMATS)
    if to is not None and to not in formats:
        raise UsageError(
            "unknown output format",
            help=f"to takes {', '.join(formats)}; mode chooses json or ndjson",
        )
    if to is not None and sign_key is not None:
        raise UsageError(
            "only an export can be signed", help="sign the export itself, mode=json or mode=ndjson"
        )
    context = _with_signer(load_context(options), sign_key)
    opened, reader = _open_conversation(source, reader, conversation)
    with atomic_file(Path(target)) as out:
        return run_pipeline(opened, out, context, reader, to=to)


def _with_signer(context: Context, key: str | Path | None) -> Context:
    if key is None:
        return context
    from open_token.integrity.signing import load_signer

    return replace(context, sign=load_signer(Path(key).expanduser()))


def conversations(source: str | Path | bytes, *, reader: str | None = None) -> list[Found]:
    """List the conversations of a file; an empty list if its format cannot hold several."""
    opened = _open_source(source)
    return list_conversations(opened, reader or detect_format(opened))


def read(source: str | Path | bytes) -> Export:
    """Read an Open-Token file, JSON or NDJSON, as one document, without running any pass."""
    opened = _open_source(source)
    if not load_reader("open_token").sniff(opened):
        raise InputError(
            "this is not an Open-Token export",
            where=opened.name,
            help="use open_token.export() to make one",
        )
    options = {"redact": "none", "include": "include-internal", "internal": "full"}
    context = Context(ExportOptions.of(options))
    record = read_record(opened, context, "open_token", expand=False)
    document: Export = {"open_token_version": "0.1"}
    if record.exported_at:
        document["exported_at"] = record.exported_at
    document["conversation"] = record.conversation
    document["participants"] = record.participants
    document["events"] = list(record.events)
    if record.integrity:
        document["integrity"] = record.integrity
    return document


def _open_source(source: str | Path | bytes) -> Source:
    if isinstance(source, bytes):
        return Source("<bytes>", data=source)
    path = Path(source)
    if path.is_dir():
        return Source.of_folder(path)
    return Source.of(path)


def _open_conversation(
    source: str | Path | bytes, reader: str | None, conversation: str | None
) -> tuple[Source, str | None]:
    opened = _open_source(source)
    if conversation is not None:
        reader = reader or detect_format(opened)
        select_conversation(opened, reader, conversation)
    return opened, reader


def diff(
    a: str | Path | bytes | Export,
    b: str | Path | bytes | Export,
    *,
    level: str = "semantic",
    ignore: Sequence[str] = (),
    **options: Any,
) -> "Difference":
    """Return where two sessions diverge.

    Each is a path, bytes, or a document from `export` or `read`, which is compared as it is. The
    options are those of an export: what is read is redacted first. `level="exact"` compares
    everything but ids, times and counts; `ignore` takes JSON pointers into a step, such as
    `/arguments/timeout`.
    """
    from open_token.comparison import check_level, compare

    check_level(level)
    left = _read_run(a, level, options)
    right = _read_run(b, level, options)
    names = (_name_source(a), _name_source(b))
    return compare(left, right, names=names, level=level, ignore=ignore)


def _read_run(
    given: str | Path | bytes | Export, level: str, options: Mapping[str, Any]
) -> "Transcript":
    from open_token.comparison.steps import build_transcript

    if isinstance(given, dict):
        return build_transcript(given, level)
    context = load_context({**options, "mode": "ndjson", "pretty": False, "integrity": "none"})
    run, _ = read_steps(_open_source(given), context, None, level)
    return run


def read_steps(
    source: Source, context: Context, reader: str | None, level: str, *, with_cost: bool = False
) -> tuple["Transcript", Receipt]:
    """Return the steps of a conversation as an export would show them, redacted alike."""
    from open_token.comparison.steps import TranscriptBuilder

    recorder = TranscriptBuilder(level, with_cost=with_cost)
    too_long = InputError(
        "this conversation is too long to compare",
        where=source.name,
        help="cut it to what fits, for example max_bytes=200000000 drop=oldest",
        code="diff.long",
    )
    discard = BoundedBuffer(MAX_DIFF_BYTES, too_long, keep=False)
    receipt = run_pipeline(source, discard, context, reader, recorder)
    return recorder.build_from_record(), receipt


def _name_source(given: str | Path | bytes | Export) -> str:
    if isinstance(given, str | Path):
        return str(given)
    if isinstance(given, bytes):
        return "<bytes>"
    return "<document>"


def sign(document: Export, key: str | Path | None = None, *, scheme: str = "sshsig") -> Export:
    """Return the document with one more signature, by the given key or `sign_key` of the settings.

    The document must verify. If this key has signed it already, it is returned unchanged.
    """
    from open_token.integrity.signing import load_signer, sign_document

    signer = load_signer(find_signing_key(key, os.environ), scheme)
    return cast(Export, sign_document(cast(dict[str, Any], document), signer))


def find_signing_key(named: str | Path | None, env: Mapping[str, str]) -> Path:
    """Return the key file to sign with: the one named, or else the one of the settings."""
    if named is not None:
        return _expand_path(named, "signing key")
    key = load_signing_settings(env).key
    if key is None:
        raise UsageError(
            "no signing key was given",
            help='name a private SSH key, or set sign_key = "~/.ssh/id_ed25519" in config.toml',
        )
    return key


def verify(document: Any, *, trust: str | Path | None = None) -> "Verdict":
    """Return whether a document is unchanged since it was written, and who signed it.

    `trust` is a file in OpenSSH's allowed_signers format, or a public key; by default the list of
    the settings is used.
    """
    from open_token.integrity.verify import verify as verify_document

    return verify_document(document, load_trust(trust, os.environ))


def load_trust(named: str | Path | None, env: Mapping[str, str]) -> "Trust | None":
    """Return the trusted signers of a file, or else of the settings; None if there is no list."""
    from open_token.integrity.signatures.trust import Trust

    if named is None:
        path = load_signing_settings(env).signers
    else:
        path = _expand_path(named, "list of trusted signers")
    if path is None:
        return None

    @cache
    def load_signers() -> "tuple[Signer, ...]":
        return _read_signers(path)

    # A broken list in the settings must not get in the way of checking unsigned files.
    if named is not None:
        load_signers()
    return Trust(load_signers, datetime.now(UTC))


def _read_signers(path: Path) -> "tuple[Signer, ...]":
    from open_token.integrity.signatures.trust import read_signers

    raw = read_existing(path)
    if raw is None:
        raise InputError(
            "the list of trusted signers does not exist",
            where=str(path),
            help="check the path",
            code="sign.trust",
        )
    return read_signers(raw, str(path))


def _expand_path(name: str | Path, what: str) -> Path:
    # An empty name, such as an unset variable, must not fall back to the settings.
    if name == "":
        raise UsageError(
            f"the name of the {what} is empty", help="name a file, or leave the option out"
        )
    return Path(name).expanduser()


def load_context(
    words: Mapping[str, Any], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Context:
    """Return the context of an export: arguments override the environment, and that files."""
    env = os.environ if env is None else env
    settings = load_settings(env, cwd or Path.cwd())
    options = ExportOptions.of({**settings.defaults, **words})
    return build_context(options, settings, env)


def build_context(options: ExportOptions, settings: Settings, env: Mapping[str, str]) -> Context:
    """Return the context of an export with the given options and settings."""
    return Context(
        options=options,
        now=_read_clock(env),
        key=load_local_key(settings.folders),
        team_key=settings.team_key,
        policy=settings.policy,
        rule_cache=settings.folders.cache,
        screen=settings.screen,
        engine=_read_engine(env),
        estimate_cost=_CostEstimator(settings.folders),
    )


class _CostEstimator:
    """Estimates costs by the price list, which is loaded at the first question."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._prices: PriceList | None = None

    def __call__(self, model: str, usage: Usage) -> float | None:
        if self._prices is None:
            from open_token.library.prices import PriceList

            self._prices = PriceList(self._folders.cache, self._folders.settings)
        cost = self._prices.estimate(
            model,
            input=usage.get("input_tokens", 0),
            cache_read=usage.get("cache_read_tokens", 0),
            cache_write=usage.get("cache_write_tokens", 0),
            output=usage.get("output_tokens", 0),
        )
        self._prices.save()
        return cost


def search(
    text: str,
    *,
    agent: str = "",
    folder: str | Path = "",
    project: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    role: str = "",
    tool: str = "",
    path: str = "",
    pattern: str = "",
    limit: int = 20,
    hits: int = 3,
    update: bool = True,
) -> "list[FoundSession]":
    """Search all sessions on this machine, newest first; the index is updated before.

    `text` has words, "phrases", prefixes* and -exclusions. `role` is person, agent, command,
    output, thinking or system; `pattern` is a regular expression (RE2) that the text must match. At
    most `limit` sessions are returned, each with its first `hits` events that match. The texts are
    redacted.
    """
    from open_token.library.index import Filters, SearchIndex

    env = os.environ
    settings = load_settings(env, Path.cwd())
    filters = Filters(
        agent=agent.replace("-", "_"),
        folder=str(folder),
        project=project,
        since=since.timestamp() if since else None,
        until=until.timestamp() if until else None,
        role=role,
        tool=tool,
        path=path,
        pattern=pattern,
    )
    with SearchIndex(settings.folders.cache) as index:
        if update:
            sources = find_indexed_sessions(settings, env, Path.home(), Path.cwd())
            index.update(sources, build_index_context(settings, env))
        return index.search(text, filters, max_sessions=limit, max_hits=hits).sessions


def blame(file: str | Path, *, update: bool = True) -> "list[BlamedLine]":
    """Return the lines of a file, each with the edit of a session that wrote it, if one did.

    The sessions are those of this machine; the search index is updated before.
    """
    from open_token.library.blame import blame_file
    from open_token.library.index import SearchIndex

    env = os.environ
    settings = load_settings(env, Path.cwd())
    context = build_index_context(settings, env)
    sessions = find_indexed_sessions(settings, env, Path.home(), Path.cwd())
    with SearchIndex(settings.folders.cache) as index:
        if update:
            index.update(sessions, context)
        return blame_file(Path(file), sessions, index, context)


def find_indexed_sessions(
    settings: Settings, env: Mapping[str, str], home: Path, cwd: Path | None
) -> "list[Session]":
    """Return the sessions that the search index covers: those found on this machine, and those in
    the user's archive whose source is gone."""
    from open_token.library.discovery import Discovery
    from open_token.library.index.update import iter_archived_sessions

    discovery = Discovery.of(env, home, cwd)
    sessions = discovery.sessions()
    discovery.remember()
    archive = settings.folders.data / "archive"
    if archive.is_dir():
        sessions += iter_archived_sessions(archive)
    return sessions


def build_index_context(settings: Settings, env: Mapping[str, str]) -> Context:
    """Return the context in which sessions are indexed: redacted as the user does by default, but
    never less than at level `secrets`, with hidden reasoning where the policy allows it."""
    levels = ("secrets", "pii", "strict")
    wanted = (str(settings.defaults.get("redact", "")), settings.policy.min_redact)
    level = max((name for name in wanted if name in levels), key=levels.index, default="secrets")
    internal = "summary" if settings.policy.forbid_internal_full else "full"
    options = ExportOptions.of(
        {
            "mode": "ndjson",
            "redact": level,
            "include": "include-internal",
            "internal": internal,
            "integrity": "none",
        }
    )
    return build_context(options, settings, env)


def _read_engine(env: Mapping[str, str]) -> str:
    engine = env.get("OPEN_TOKEN_ENGINE") or "auto"
    if engine not in ENGINES:
        raise UsageError(
            "unknown engine",
            where="OPEN_TOKEN_ENGINE in the environment",
            help=f"it takes {', '.join(ENGINES)}",
        )
    return engine


def _read_clock(env: Mapping[str, str]) -> str | None:
    """Return the current time, or SOURCE_DATE_EPOCH for reproducible exports."""
    epoch = env.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal():
        return from_epoch(int(epoch))
    return format_utc(datetime.now(UTC).replace(microsecond=0))
