"""Reads an uploaded file as a conversation: through the readers, in a folder of its own, within
bounds."""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from open_token.context import Context
from open_token.errors import MultipleConversationsError, OpenTokenError, UsageError
from open_token.jsontools.canonical import CanonicalError, EventsHash, encode_event
from open_token.model.document import Event, Record
from open_token.model.log_events import Json
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import (
    detect_format,
    load_reader,
    require_one_conversation,
    select_conversation,
)
from open_token.server import _bundle
from open_token.server.config import Limits
from open_token.server.refusals import Refused, bad
from open_token.sources.source import Source

T = TypeVar("T")
_NAMED = 50
_log = logging.getLogger("open_token.server")


@dataclass
class Incoming:
    """A conversation that may become a session."""

    reader: str
    record: Record
    files: list[_bundle.File] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    count: int = 0
    seq_of: dict[str, int] = field(default_factory=dict)
    """The places of the events in which something could not stay as it was."""

    @property
    def title(self) -> str | None:
        """What the conversation is called."""
        return cast(Json, self.record.conversation).get("title")

    @property
    def models(self) -> list[str]:
        """The models that took part, each once."""
        named = [cast(Json, person).get("model") for person in self.record.participants]
        return list(dict.fromkeys(name for name in named if isinstance(name, str)))

    def events(self) -> Iterator[Json]:
        """The events with their places."""
        for place, event in enumerate(self.record.events, 1):
            yield {**event, "seq": place}

    def about(self) -> Json:
        """What stands around the events."""
        record = self.record
        integrity: Any = record.integrity
        if integrity is None and record.coercions:
            placed = [
                {**item, "seq": self.seq_of.get(item.get("id", ""), 0)} for item in record.coercions
            ]
            integrity = {"coercions": placed}
        return {
            "conversation": record.conversation,
            "participants": record.participants,
            "exported_at": record.exported_at,
            "integrity": integrity,
        }


def plain_name(name: str | None) -> str:
    """The name of an upload as a file of ours may be called: a label, nothing of a path."""
    last = re.split(r"[/\\]", name or "")[-1]
    return re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII)[-100:].lstrip(".-") or "upload"


def understood(
    path: Path, limits: Limits, now: str, conversation: str | None, reader: str | None = None
) -> Incoming:
    """What a file holds, read by whichever reader knows it, or by the one that is named."""
    return _told(lambda: _understood(path, limits, now, conversation, reader))


def _understood(
    path: Path, limits: Limits, now: str, conversation: str | None, wanted: str | None
) -> Incoming:
    bundle = _bundle.opened(path, limits)
    source = Source(path.name, path=bundle.document if bundle else path)
    reader = load_reader(wanted).definition.name if wanted else detect_format(source)
    if conversation:
        select_conversation(source, reader, conversation)
    require_one_conversation(source, reader)
    context = Context(ExportOptions.of({"branches": "all", "redact": "none"}), now=now)
    found = Incoming(reader, read_record(source, context, reader))
    if bundle:
        found.files, found.warnings = bundle.files, bundle.warnings
    _examine(found)
    return found


def _examine(found: Incoming) -> None:
    """Count the events, and compare them with what the file says of its own integrity."""
    said = cast(Json, found.record.integrity or {}).get("events_hash")
    running: EventsHash | None = EventsHash() if isinstance(said, str) else None
    wanted = {item.get("id") for item in found.record.coercions}
    for event in found.events():
        found.count += 1
        if event["id"] in wanted:
            found.seq_of[event["id"]] = event["seq"]
        running = _hashed(running, cast(Event, event))
    if isinstance(said, str) and (running is None or running.hexdigest() != said):
        found.warnings.append(
            "the file was changed since it was made: its hash is not that of its events"
        )


def _hashed(running: EventsHash | None, event: Event) -> EventsHash | None:
    if running is not None:
        try:
            running.add(encode_event(event))
        except CanonicalError:
            return None
    return running


def _told(work: Callable[[], T]) -> T:
    """The result of some work on a stranger's file, or why there is none, in words for the one who
    sent it."""
    try:
        return work()
    except MultipleConversationsError as problem:
        ids = ", ".join(str(item.id)[:100] for item in problem.found[:_NAMED])
        rest = f" and {len(problem.found) - _NAMED:,} more" if len(problem.found) > _NAMED else ""
        raise bad(
            f"{problem.what}; choose one with the field `conversation`: {ids}{rest}", problem.code
        ) from None
    except UsageError as problem:
        raise bad(f"{problem.what}; {problem.help}", problem.code) from None
    except OpenTokenError as problem:
        where = f" ({problem.where})" if problem.where and "/" not in problem.where else ""
        raise bad(f"{problem.what}{where}", problem.code) from None
    except Refused:
        raise
    except Exception as problem:
        # A reader met something that nobody thought of. The sender learns that, and the log what
        # kind of thing it was.
        _log.warning("a reader failed on an upload: %s", type(problem).__name__)
        raise bad("this file cannot be read as a conversation", "input.reader") from None
