"""A session as a page: the same rows as an exported page, and what has changed in it since."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.library.discovery import Session, open_session
from open_token.model.document import Event, Record
from open_token.pipeline import BoundedBuffer, export
from open_token.writers.html import PAGE_END, render_page
from open_token.writers.html.front_matter import render_header, render_outline, render_strip
from open_token.writers.html.sections import Block, group_items, render_block, render_heading
from open_token.writers.overview import build_overview, get_title
from open_token.writers.timeline import Item, Timeline

_MAX_SESSIONS = 6
_MAX_VERSIONS = 30
_PAGE_HEAD = '<link rel="stylesheet" href="/web/assets/page.css">'
_PAGE_SCRIPT = (
    '<script src="/web/assets/page.js"></script>'
    '<script type="module" src="/web/assets/reader.js"></script>'
)


class ChangedBlock(msgspec.Struct):
    """A block of a later version."""

    turn: int
    html: str | None
    """None if it is the same as before."""


class Change(msgspec.Struct):
    """What makes a page show a later version of its session."""

    version: str
    events: int
    header: str
    strip: str
    outline: str
    headings: list[str]
    blocks: list[ChangedBlock]


class _Collector:
    """Observes an export and keeps what it sees."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.events: list[Event] = []
        self.take = self.events.append

    def meet(self, record: Record) -> None:
        self.record = record


@dataclass(frozen=True)
class _RenderedBlock:
    sources: list[Any]
    """Everything that its HTML depends on."""
    html: str
    digest: str


class Snapshot:
    """A session as it was when it was read; its blocks are rendered when they are needed."""

    def __init__(
        self, session: Session, context: Context, previous: "Snapshot | None" = None
    ) -> None:
        collector = _Collector()
        discard = BoundedBuffer(None, InputError("unlimited"), keep=False)
        receipt = export(open_session(session), discard, context, session.reader, collector)
        assert collector.record is not None
        self.stamp = get_stamp(session)
        self.integrity = receipt.integrity
        self.record = collector.record.with_events(collector.events)
        self.overview = build_overview(collector.events, self.record.bind_prices())
        self.title = get_title(self.record, self.overview)
        items = Timeline(self.overview.index).iter_items(collector.events)
        self.blocks: list[Block] = list(group_items(items, self.overview))
        self._last_answers = {turn.last_answer for turn in self.overview.turns}
        self._rendered: dict[int, _RenderedBlock] = {}
        self._previous = dict(previous._rendered) if previous else {}

    def render(self, head: str = _PAGE_HEAD, script: str = _PAGE_SCRIPT) -> Iterator[str]:
        """Render the page piece by piece; `head` refers to its style, `script` to its scripts."""
        yield from render_page(
            self.record,
            self.integrity,
            self.overview,
            self._render_sections(),
            head,
            script,
        )
        yield PAGE_END.decode()

    def _render_sections(self) -> Iterator[str]:
        yield '<section class="turn">'
        turn = 0
        for number, block in enumerate(self.blocks):
            if block.turn != turn:
                turn = block.turn
                heading = render_heading(turn, self.overview.turns[turn - 1])
                yield f'</section>\n<section class="turn">{heading}'
            yield self.get_block(number).html
        yield f'</section><data id="ot-version" value="{self.compute_version()}"></data>'

    def get_block(self, number: int) -> _RenderedBlock:
        """Return a block; what is the same as in the previous snapshot is not rendered again."""
        rendered = self._rendered.get(number)
        if rendered is not None:
            return rendered
        block = self.blocks[number]
        sources = list(self._iter_sources(block))
        rendered = self._previous.pop(number, None)
        if rendered is None or rendered.sources != sources:
            html = render_block(block, self.overview, self._last_answers)
            digest = hashlib.blake2b(html.encode("utf-8", "replace"), digest_size=8)
            rendered = _RenderedBlock(sources, html, digest.hexdigest())
        self._rendered[number] = rendered
        return rendered

    def list_digests(self) -> list[str]:
        """Return the digests of all blocks."""
        return [self.get_block(number).digest for number in range(len(self.blocks))]

    def compute_version(self) -> str:
        """Return what identifies the blocks of this snapshot."""
        return hashlib.blake2b("".join(self.list_digests()).encode(), digest_size=8).hexdigest()

    def describe_change(self, known: list[str]) -> Change:
        """Return what makes a page with blocks of these digests show this snapshot."""
        blocks: list[ChangedBlock] = []
        for number, block in enumerate(self.blocks):
            rendered = self.get_block(number)
            is_same = known[number : number + 1] == [rendered.digest]
            blocks.append(ChangedBlock(block.turn, None if is_same else rendered.html))
        return Change(
            version=self.compute_version(),
            events=self.overview.events,
            header=render_header(self.record, self.integrity, self.overview, self.title),
            strip=render_strip(self.overview),
            outline=render_outline(self.overview),
            headings=[
                render_heading(number, turn) for number, turn in enumerate(self.overview.turns, 1)
            ],
            blocks=blocks,
        )

    def _iter_sources(self, block: Block) -> Iterator[Any]:
        """Yield everything that the HTML of a block depends on."""
        yield block.day
        for item in block.items:
            yield str(item.event.get("id")) in self._last_answers
            yield from _iter_item_sources(item)


def _iter_item_sources(item: Item) -> Iterator[Any]:
    yield item.kind
    yield item.event
    yield item.result
    yield item.facts
    yield item.about
    yield item.span_event_ids
    for child in item.children:
        yield from _iter_item_sources(child)


def get_stamp(session: Session) -> tuple[object, ...]:
    """Return what changes with a session."""
    return session.bytes, session.mtime_ns, session.modified


class Reading:
    """The sessions that somebody reads: the current snapshot of each, and earlier versions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()
        self._versions: OrderedDict[str, list[str]] = OrderedDict()
        """The digests of the blocks of each version."""

    def open(self, key: str, session: Session, context: Context) -> Snapshot:
        """Return a session as it is now; it is read again only if it has changed."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            snapshot = self._snapshots.get(key)
            if snapshot is None or snapshot.stamp != get_stamp(session):
                snapshot = Snapshot(session, context, snapshot)
        with self._lock:
            self._snapshots[key] = snapshot
            self._snapshots.move_to_end(key)
            while len(self._snapshots) > _MAX_SESSIONS:
                old, _ = self._snapshots.popitem(last=False)
                self._locks.pop(old, None)
        return snapshot

    def remember_version(self, snapshot: Snapshot) -> str:
        """Remember what a page shows; return the name of that version."""
        version = snapshot.compute_version()
        with self._lock:
            self._versions[version] = snapshot.list_digests()
            self._versions.move_to_end(version)
            while len(self._versions) > _MAX_VERSIONS:
                self._versions.popitem(last=False)
        return version

    def describe_change(self, snapshot: Snapshot, version: str) -> Change | None:
        """Return what has changed since a version; None if nothing has."""
        if self.remember_version(snapshot) == version:
            return None
        with self._lock:
            known = self._versions.get(version, [])
        return snapshot.describe_change(known)
