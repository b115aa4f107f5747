"""Where a log of Inspect AI keeps its samples: in one document, as members of a zip, or in chunks
of members."""

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
_TITLE = 160
_known: WeakKeyDictionary[Source, dict[str, Body]] = WeakKeyDictionary()


def found(source: Source) -> list[Found]:
    """Every sample, in the order of the log."""
    if source.shape != "zip":
        return [_found(name, sample) for name, sample in _named(source).items()]
    told = {_name(summary): summary for summary in _summaries(source)}
    return [_found(name, told.get(name, {})) for name in _members(source)]


def owner(source: Source, at: str, value: Any) -> str | None:
    """The sample that a member of the zip, or an item of the document, is of."""
    if source.shape == "zip":
        match = _MEMBER.fullmatch(at)
        return match[1] if match else None
    if not at.startswith("/samples/"):
        return None
    number = at.removeprefix("/samples/")
    return _places(source).get(int(number)) if number.isdecimal() and len(number) < 16 else None


@lru_cache(maxsize=2)
def _places(source: Source) -> dict[int, str]:
    """The names of the samples of a document by their places in its list."""
    samples = _document(source).get("samples")
    listed = enumerate(samples) if isinstance(samples, list) else ()
    places = [place for place, part in listed if isinstance(part, dict)]
    return dict(zip(places, _named(source), strict=True))


def header(source: Source) -> Body:
    """What the log says of the whole run; a log that broke off has only what stood there at its
    start."""
    if source.shape != "zip":
        document = _document(source)
        return document if "eval" in document else {}
    for name in ("header.json", "_journal/start.json", "start.json"):
        member = _member(source, name)
        if member is not None and isinstance(member.document, dict):
            return member.document
    return {}


def sample(source: Source) -> Body:
    """The sample that was asked for, or the first."""
    wanted = source.conversation
    if source.shape != "zip":
        samples = _named(source)
        chosen = next(iter(samples), None) if wanted is None else wanted
        if chosen not in samples:
            raise _no_sample(source)
        return samples[chosen]
    names = _members(source)
    chosen = next(iter(names), None) if wanted is None else wanted
    if chosen is None or chosen not in names:
        raise _no_sample(source)
    return _whole(source, chosen) if names[chosen] is None else _one(source, str(names[chosen]))


def _document(source: Source) -> Body:
    document = source.document
    return document if isinstance(document, dict) else {}


def _named(source: Source) -> dict[str, Body]:
    """The samples of a document by name, found once for all of them; a document may be a single
    sample."""
    if source in _known:
        return _known[source]
    document = _document(source)
    samples = (
        as_dicts(document.get("samples")) if "eval" in document or not document else [document]
    )
    named: dict[str, Body] = {}
    for number, part in enumerate(samples, 1):
        name = _name(part)
        named[name if name not in named else f"{name}#{number}"] = part
    _known[source] = named
    return named


def _name(part: Body) -> str:
    return f"{part.get('id')}_epoch_{part.get('epoch', 1)}"


def _members(source: Source) -> dict[str, str | None]:
    """The samples of a zip: the member that holds each, None for one in chunks."""
    named: dict[str, str | None] = {}
    for name in source.members:
        match = _MEMBER.fullmatch(name)
        if match:
            whole = name == f"samples/{match[1]}.json"
            named[match[1]] = name if whole else named.get(match[1])
    return named


def _summaries(source: Source) -> Iterator[Body]:
    names = [name for name in source.members if name == "summaries.json"] or [
        name for name in source.members if name.startswith("_journal/summaries/")
    ]
    for name in names:
        member = _member(source, name)
        yield from as_dicts(member.document) if member is not None else ()


def _found(name: str, part: Body) -> Found:
    given = part.get("input")
    first = as_dicts(given)[0].get("content") if as_dicts(given) else given
    messages, count = part.get("messages"), part.get("message_count")
    return Found(
        name,
        title=" ".join(first.split())[:_TITLE] if isinstance(first, str) and first else None,
        started_at=to_utc(part.get("started_at")),
        updated_at=to_utc(part.get("completed_at")),
        messages=len(messages)
        if isinstance(messages, list)
        else count
        if type(count) is int
        else None,
    )


def _one(source: Source, name: str) -> Body:
    member = _member(source, name)
    document = member.document if member is not None else None
    if not isinstance(document, dict):
        raise _no_sample(source)
    return document


def _whole(source: Source, name: str) -> Body:
    """A sample put together from its chunks, in which attachments and messages are known by their
    numbers."""
    prefix = f"samples/{name}/"
    parts: dict[str, list[tuple[int, str]]] = {}
    for member in source.members:
        match = _CHUNK.fullmatch(member.removeprefix(prefix)) if member.startswith(prefix) else None
        if match:
            parts.setdefault(match[1], []).append((int(match[2]), member))

    def sequence(kind: str) -> list[Any]:
        items: list[Any] = []
        for _, member in sorted(parts.get(kind, ())):
            chunk = _member(source, member)
            items += (
                chunk.document if chunk is not None and isinstance(chunk.document, list) else []
            )
        return items

    shell = _one(source, f"{prefix}sample.json")
    attached = {str(number): text for number, text in enumerate(sequence("attachments"))}
    return shell | {
        "events": sequence("events"),
        "events_data": {"messages": sequence("messages")},
        "attachments": attached,
        "metadata": f"{prefix}metadata.json" in source.members,
    }


def _member(source: Source, name: str) -> Source | None:
    try:
        return source.member(name)
    except InputError as problem:
        # Newer versions pack with zstd, which zip files know as method 93.
        if "method 93" in problem.what:
            raise InputError(
                "this log is packed with zstd, and the package that reads it is not installed",
                where=source.name,
                help="pip install 'open-token[zstd]', or write it as JSON first: inspect log dump FILE > COPY.json",
                code="input.zstd",
            ) from None
        raise


def _no_sample(source: Source) -> InputError:
    return InputError(
        "this log holds no such sample" if source.conversation else "this log holds no samples",
        where=source.name,
        help="was it made with --no-log-samples, or did it break off before the first sample was done?",
        code="input.no-events",
    )
