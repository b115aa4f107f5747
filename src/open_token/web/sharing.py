"""What a person decides about a session before they share it, and the session as it then is."""

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import msgspec

from open_token.api import build_context, find_signing_key
from open_token.context import Context, Selection
from open_token.errors import OpenTokenError, UsageError
from open_token.integrity.signing import load_signer
from open_token.jsontools.objects import get_content
from open_token.library.archive.names import slugify
from open_token.library.discovery import Session, open_session
from open_token.library.review import (
    FALSE_POSITIVE,
    KEEP,
    MASK,
    add_words,
    check_word,
    explain_lock,
    keep_values,
    remember_false_positives,
)
from open_token.model.document import Event
from open_token.options import ExportOptions
from open_token.passes import select
from open_token.pipeline import export, read_record
from open_token.redaction.findings import Finding, abbreviate, list_record_findings
from open_token.redaction.marker_factory import MarkerNumbering, build_factory
from open_token.redaction.media import count_media
from open_token.web.reading import Change, Reading, Snapshot, get_stamp
from open_token.web.workspace import Entry, Workspace
from open_token.writers.escape import to_one_line

LEVELS = ("secrets", "pii", "strict")
DECISIONS = (MASK, KEEP, FALSE_POSITIVE)
SUFFIXES = {"html": "html", "markdown": "md", "json": "open-token.json"}
"""The formats in which a session is shared, and how the names of their files end."""
_MAX_DRAFTS = 20
_MAX_PAGES = 3
_MAX_PLACES = 20
_MAX_CHOICES = 100_000
_MAX_NAME = 60


class Draft(msgspec.Struct, frozen=True):
    """What a person has decided so far; events go by their ids."""

    level: str = "secrets"
    media: str = ""
    """`keep` or `drop` all images and files; empty: as the level does."""
    decisions: dict[str, str] = {}
    """By the id of a finding."""
    words: list[str] = []
    dropped: list[str] = []
    without_media: list[str] = []
    first: str = ""
    end: str = ""


class Place(msgspec.Struct):
    """Where a finding stands, with the text around it."""

    where: str
    before: str
    after: str


class FindingRow(msgspec.Struct):
    """A finding as the screen shows it; of its value only the shape, unless it is kept."""

    id: str
    type: str
    rule: str
    level: str
    shape: str
    count: int
    marker: str
    """What stands in its place on the page."""
    places: list[Place]
    decision: str
    """One of DECISIONS; empty while nothing was decided."""
    lock: str
    value: str = ""


class Choice(msgspec.Struct):
    """An event that can be chosen or was left out."""

    id: str
    label: str


class State(msgspec.Struct):
    """A draft, and everything that the screen shows beside the page."""

    draft: Draft
    title: str
    findings: list[FindingRow]
    undecided: int
    prompts: list[Choice]
    left_out: list[Choice]
    media: int
    """Images and files that are in what is shared."""
    events: int
    version: str
    """That of the page."""
    signer: str
    """The key that signs; empty if there is none."""
    problem: str = ""
    """Why it cannot be signed."""


@dataclass
class _Share:
    """A session that somebody is about to share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    draft: Draft = field(default_factory=Draft)
    found_for: tuple[object, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    media: int = 0
    page_for: tuple[object, ...] = ()
    page: Snapshot | None = None


class Sharing:
    """The drafts of this process. Nothing is written until somebody asks for a file."""

    def __init__(self, workspace: Workspace, reading: Reading) -> None:
        self._workspace = workspace
        self._reading = reading
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._shares: OrderedDict[str, _Share] = OrderedDict()

    def change(self, entry: Entry, draft: Draft) -> State:
        """Replace the draft of a session; return what it makes of it."""
        check_draft(draft)
        share = self._get_share(entry.key)
        with share.lock:
            share.draft = draft
            return self._describe(entry, share)

    def describe(self, entry: Entry) -> State:
        """Return the draft of a session, which begins with the user's own level."""
        share = self._get_share(entry.key)
        with share.lock:
            return self._describe(entry, share)

    def open_page(self, entry: Entry) -> Snapshot:
        """Return the page of a session as it would be published."""
        share = self._get_share(entry.key)
        with share.lock:
            return self._open_page(entry, share)

    def describe_change(self, entry: Entry, version: str) -> Change | None:
        """Return what has changed on the page since a version; None if nothing has."""
        return self._reading.describe_change(self.open_page(entry), version)

    def reveal(self, entry: Entry, finding_id: str) -> str:
        """Return the value of a finding."""
        share = self._get_share(entry.key)
        with share.lock:
            self._search(entry, share)
            for finding in share.findings:
                if self._identify(finding) == finding_id:
                    return finding.value
        raise UsageError(
            "there is no such finding", help="the page may have changed: load it again"
        )

    def count_undecided(self, entry: Entry) -> int:
        """Return how many findings nothing was decided on."""
        return self.describe(entry).undecided

    def publish(self, entry: Entry, to: str, out: BinaryIO, *, is_signed: bool) -> None:
        """Write a session as its draft has it, and remember what was called a false positive."""
        share = self._get_share(entry.key)
        with share.lock:
            context = self._build_context(entry, share)
            if is_signed:
                if to != "json":
                    raise UsageError("only JSON can be signed", help="a page has no signature")
                key = find_signing_key(None, self._workspace.env)
                context = replace(context, sign=load_signer(key, is_alone=True))
            source = open_session(entry.session)
            export(source, out, context, entry.session.reader, to=None if to == "json" else to)
            false_positives = [
                finding
                for finding in share.findings
                if share.draft.decisions.get(self._identify(finding)) == FALSE_POSITIVE
            ]
            if false_positives:
                folders = self._workspace.settings.folders
                remember_false_positives(false_positives, context, folders)

    def choose_name(self, entry: Entry, to: str) -> str:
        """Return the name of the file for a session."""
        page = self.open_page(entry)
        stem = slugify(page.title, _MAX_NAME) or "session"
        return f"{stem}.{SUFFIXES[to]}"

    def _get_share(self, key: str) -> _Share:
        with self._lock:
            share = self._shares.get(key)
            if share is None:
                level = self._workspace.build_context().options.redact
                share = _Share(draft=Draft(level=level))
                self._shares[key] = share
            self._shares.move_to_end(key)
            while len(self._shares) > _MAX_DRAFTS:
                self._shares.popitem(last=False)
            # A page takes much more memory than the decisions do.
            for old in list(self._shares.values())[:-_MAX_PAGES]:
                old.page = None
                old.page_for = ()
                old.findings = []
                old.found_for = ()
        return share

    def _identify(self, finding: Finding) -> str:
        """Return what names a finding and says nothing about its value."""
        named = f"{finding.type}\0{finding.canonical}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, named, hashlib.sha256).hexdigest()[:16]

    def _build_plain_context(self, session: Session, draft: Draft) -> Context:
        """Return the context of a draft in which every finding is masked."""
        settings = self._workspace.settings
        words: dict[str, Any] = {**settings.defaults, "mode": "json", "redact": draft.level}
        if draft.media:
            words["images"] = draft.media
        context = build_context(ExportOptions.of(words), settings, self._workspace.env)
        selection = Selection(
            frozenset(draft.dropped), frozenset(draft.without_media), draft.first, draft.end
        )
        context = replace(context, selection=selection, source=str(session.path))
        return add_words(context, draft.words)

    def _search(self, entry: Entry, share: _Share) -> Context:
        """Find what would be masked, unless that is known; return the context for it."""
        draft = share.draft
        context = self._build_plain_context(entry.session, draft)
        wanted = (get_stamp(entry.session), replace_decisions(draft))
        if share.found_for != wanted:
            source = open_session(entry.session)
            record = select(read_record(source, context, entry.session.reader), context)
            share.findings = list_record_findings(record, context)
            share.media = count_media(record.events)
            share.found_for = wanted
        return context

    def _build_context(self, entry: Entry, share: _Share) -> Context:
        context = self._search(entry, share)
        decided = []
        for finding in share.findings:
            decision = share.draft.decisions.get(self._identify(finding), MASK)
            is_locked = bool(explain_lock(finding, context))
            decided.append((finding, MASK if is_locked else decision))
        return keep_values(context, decided)

    def _open_page(self, entry: Entry, share: _Share) -> Snapshot:
        context = self._build_context(entry, share)
        wanted = (share.found_for, context.screen.kept)
        if share.page is None or share.page_for != wanted:
            share.page = Snapshot(entry.session, context, share.page)
            share.page_for = wanted
        return share.page

    def _describe(self, entry: Entry, share: _Share) -> State:
        page = self._open_page(entry, share)
        context = self._build_plain_context(entry.session, share.draft)
        rows = list(self._iter_rows(share, context, str(page.record.conversation.get("id", ""))))
        signer, problem = self._find_signer()
        whole = self._reading.open(entry.key, entry.session, self._workspace.build_context())
        return State(
            draft=share.draft,
            title=page.title,
            findings=rows,
            undecided=sum(not row.decision for row in rows),
            prompts=[Choice(turn.id, turn.title) for turn in whole.overview.turns],
            left_out=_name_events(whole, (*share.draft.dropped, *share.draft.without_media)),
            media=share.media,
            events=page.overview.events,
            version=self._reading.remember_version(page),
            signer=signer,
            problem=problem,
        )

    def _iter_rows(
        self, share: _Share, context: Context, conversation_id: str
    ) -> Iterator[FindingRow]:
        factory = build_factory(context, conversation_id, MarkerNumbering())
        for finding in share.findings:
            row_id = self._identify(finding)
            lock = explain_lock(finding, context)
            decision = MASK if lock else share.draft.decisions.get(row_id, "")
            places = [
                Place(abbreviate(place.where), place.before, place.after)
                for place in finding.places[:_MAX_PLACES]
            ]
            yield FindingRow(
                id=row_id,
                type=finding.type,
                rule=finding.rule,
                level=finding.level,
                shape=finding.shape,
                count=finding.count,
                marker=factory.build_marker(finding.type, finding.value),
                places=places,
                decision=decision,
                lock=lock,
                # It is on the page anyway.
                value="" if decision in ("", MASK) else finding.value,
            )

    def _find_signer(self) -> tuple[str, str]:
        """Return the name of the key that signs, or why there is none."""
        try:
            key = find_signing_key(None, self._workspace.env)
            load_signer(key, is_alone=True)
        except OpenTokenError as problem:
            return "", problem.what
        return key.name, ""


def check_draft(draft: Draft) -> None:
    """Raise UsageError if a draft has something that no screen sends."""
    if draft.level not in LEVELS:
        raise UsageError(f"level takes {', '.join(LEVELS)}")
    if draft.media not in ("", "keep", "drop"):
        raise UsageError("media takes keep or drop")
    unknown = set(draft.decisions.values()) - set(DECISIONS)
    if unknown:
        raise UsageError(f"a decision is {', '.join(DECISIONS)}")
    for word in draft.words:
        check_word(word)
    if max(len(draft.decisions), len(draft.dropped), len(draft.without_media)) > _MAX_CHOICES:
        raise UsageError("the draft has too many decisions")


def replace_decisions(draft: Draft) -> Draft:
    """Return a draft without decisions: what it finds does not depend on them."""
    return msgspec.structs.replace(draft, decisions={})


def _name_events(page: Snapshot, event_ids: Iterable[str]) -> list[Choice]:
    """Name events by their words, as they are shown before anything is left out."""
    wanted = dict.fromkeys(event_ids)
    labels = {
        event["id"]: _label_event(event) for event in page.record.events if event["id"] in wanted
    }
    return [Choice(event_id, labels.get(event_id, event_id)) for event_id in wanted]


def _label_event(event: Event) -> str:
    content: Any = get_content(event)
    text = content if isinstance(content, str) else ""
    if event["type"] == "tool_use" and isinstance(content, Mapping):
        text = str(content.get("tool_name") or "")
    who = event.get("role") or event["type"].replace("_", " ")
    return to_one_line(f"{who}: {text}" if text else str(who), 80)
