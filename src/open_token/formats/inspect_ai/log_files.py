"""The samples of a log: in one JSON document, as members of a zip, or in chunks of members."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from open_token.errors import InputError
from open_token.formats.shared.fields import as_dicts
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

Body = dict[str, Any]
_MEMBER = re.compile(r"samples/(.+_epoch_\d+)(?:\.json|/.+)", re.DOTALL)
_CHUNK = re.compile(r"(messages|events|calls|attachments)/(\d{1,12})\.json", re.ASCII)
_HEADERS = ("header.json", "_journal/start.json", "start.json")
_TITLE_LENGTH = 160
_cache: WeakKeyDictionary[Source, dict[str, Body]] = WeakKeyDictionary()


def list_samples(source: Source) -> list[Found]:
    """List every sample, in the order of the log."""
    if source.shape != "zip":
        return [_describe(name, sample) for name, sample in _load_samples(source).items()]
    summaries = {_get_name(summary): summary for summary in _read_summaries(source)}
    return [_describe(name, summaries.get(name, {})) for name in _find_members(source)]


def find_owner(source: Source, at: str) -> str | None:
    """Return the sample that a member of the zip, or an item of the document, belongs to."""
    if source.shape == "zip":
        match = _MEMBER.fullmatch(at)
        return match[1] if match else None
    if not at.startswith("/samples/"):
        return None
    number = at.removeprefix("/samples/")
    if not number.isdecimal() or len(number) > 15:
        return None
    return _index_positions(source).get(int(number))


@lru_cache(maxsize=2)
def _index_positions(source: Source) -> dict[int, str]:
    """Return the names of the samples of a document by their positions in its list."""
    samples = _get_document(source).get("samples")
    if not isinstance(samples, list):
        samples = []
    positions = [position for position, part in enumerate(samples) if isinstance(part, dict)]
    return dict(zip(positions, _load_samples(source), strict=True))


def read_header(source: Source) -> Body:
    """Return the description of the evaluation.

    A log that was cut off has only what was written at its start.
    """
    if source.shape != "zip":
        document = _get_document(source)
        return document if "eval" in document else {}
    for name in _HEADERS:
        member = _open_member(source, name)
        if member is not None and isinstance(member.document, dict):
            return member.document
    return {}


def read_sample(source: Source) -> Body:
    """Return the chosen sample, or the first."""
    if source.shape != "zip":
        return _choose_sample(source)
    members = _find_members(source)
    chosen = source.conversation
    if chosen is None:
        chosen = next(iter(members), None)
    if chosen is None or chosen not in members:
        raise _no_sample_error(source)
    member = members[chosen]
    return _join_chunks(source, chosen) if member is None else _read_object(source, member)


def _choose_sample(source: Source) -> Body:
    samples = _load_samples(source)
    chosen = source.conversation
    if chosen is None:
        chosen = next(iter(samples), None)
    if chosen is None or chosen not in samples:
        raise _no_sample_error(source)
    return samples[chosen]


def _get_document(source: Source) -> Body:
    document = source.document
    return document if isinstance(document, dict) else {}


def _load_samples(source: Source) -> dict[str, Body]:
    """Return the samples of a document by name; a document may be a single sample."""
    if source in _cache:
        return _cache[source]
    document = _get_document(source)
    if "eval" in document or not document:
        samples = as_dicts(document.get("samples"))
    else:
        samples = [document]
    by_name: dict[str, Body] = {}
    for number, sample in enumerate(samples, 1):
        name = _get_name(sample)
        if name in by_name:
            name = f"{name}#{number}"
        by_name[name] = sample
    _cache[source] = by_name
    return by_name


def _get_name(sample: Body) -> str:
    return f"{sample.get('id')}_epoch_{sample.get('epoch', 1)}"


def _find_members(source: Source) -> dict[str, str | None]:
    """Return the samples of a zip with the member that holds each; None for one in chunks."""
    members: dict[str, str | None] = {}
    for name in source.members:
        match = _MEMBER.fullmatch(name)
        if not match:
            continue
        sample = match[1]
        if name == f"samples/{sample}.json":
            members[sample] = name
        else:
            members.setdefault(sample, None)
    return members


def _read_summaries(source: Source) -> Iterator[Body]:
    """Yield the summaries of the samples; before the log is finished they are in its journal."""
    if "summaries.json" in source.members:
        names = ["summaries.json"]
    else:
        names = [name for name in source.members if name.startswith("_journal/summaries/")]
    for name in names:
        member = _open_member(source, name)
        if member is not None:
            yield from as_dicts(member.document)


def _describe(name: str, sample: Body) -> Found:
    return Found(
        name,
        title=_get_title(sample.get("input")),
        started_at=to_utc(sample.get("started_at")),
        updated_at=to_utc(sample.get("completed_at")),
        messages=_count_messages(sample),
    )


def _get_title(value: Any) -> str | None:
    messages = as_dicts(value)
    text = messages[0].get("content") if messages else value
    if not isinstance(text, str) or not text:
        return None
    return " ".join(text.split())[:_TITLE_LENGTH]


def _count_messages(sample: Body) -> int | None:
    messages = sample.get("messages")
    if isinstance(messages, list):
        return len(messages)
    count = sample.get("message_count")
    return count if type(count) is int else None


def _read_object(source: Source, name: str) -> Body:
    member = _open_member(source, name)
    document = member.document if member is not None else None
    if not isinstance(document, dict):
        raise _no_sample_error(source)
    return document


def _join_chunks(source: Source, name: str) -> Body:
    """Join a sample from its chunks, which refer to attachments and messages by number."""
    prefix = f"samples/{name}/"
    chunks: dict[str, list[tuple[int, str]]] = {}
    for member in source.members:
        if not member.startswith(prefix):
            continue
        match = _CHUNK.fullmatch(member.removeprefix(prefix))
        if match:
            chunks.setdefault(match[1], []).append((int(match[2]), member))
    sample = _read_object(source, f"{prefix}sample.json")
    attachments = _read_chunks(source, chunks.get("attachments", []))
    return sample | {
        "events": _read_chunks(source, chunks.get("events", [])),
        "events_data": {"messages": _read_chunks(source, chunks.get("messages", []))},
        "attachments": {str(number): text for number, text in enumerate(attachments)},
        "metadata": f"{prefix}metadata.json" in source.members,
    }


def _read_chunks(source: Source, chunks: list[tuple[int, str]]) -> list[Any]:
    items: list[Any] = []
    for _, name in sorted(chunks):
        member = _open_member(source, name)
        if member is not None and isinstance(member.document, list):
            items += member.document
    return items


def _open_member(source: Source, name: str) -> Source | None:
    try:
        return source.member(name)
    except InputError as problem:
        # Newer versions compress with zstd, which is method 93 of zip files.
        if "method 93" in problem.what:
            raise InputError(
                "this log is compressed with zstd, and the package that reads it is not installed",
                where=source.name,
                help=(
                    "pip install backports.zstd, or convert it to JSON first: "
                    "inspect log dump FILE > COPY.json"
                ),
                code="input.zstd",
            ) from None
        raise


def _no_sample_error(source: Source) -> InputError:
    return InputError(
        "this log holds no such sample" if source.conversation else "this log holds no samples",
        where=source.name,
        help=(
            "was it written with --no-log-samples, or was it cut off before the first sample "
            "was done?"
        ),
        code="input.no-events",
    )
