"""Numbers the events 1..N and hashes them while they are written."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import orjson

from open_token.canonical import (
    CanonicalError,
    EventsHash,
    document_hash,
    dumps,
    event_bytes,
    events_hash,
    made_event_bytes,
    made_events_bytes,
)
from open_token.commitments import Committed, Disclosure, SourceFault, check
from open_token.context import Context
from open_token.errors import InputError, SigningError, UsageError
from open_token.merkle import Tree
from open_token.model import VERSION, Coercion, Event, Integrity, Note, Record
from open_token.signatures.statement import statement, unsigned

_RUN = 1 << 16
_SIGNATURE = 2000
"""The bytes that are kept free for a signature which is not made yet; by an RSA key of 4096 bits it
has 1,700."""

Sign = Callable[[bytes], dict[str, Any]]


class Seal:
    """Takes the events one by one, gives them their final seq, and knows the integrity object after
    the last."""

    def __init__(
        self,
        record: Record,
        level: str,
        source: Committed | None = None,
        tie: dict[str, Any] | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._record = record
        self._level = level
        self._sign = sign
        self._bytes = event_bytes if record.is_export else made_event_bytes
        self._at_once = level == "hash" and not record.is_export and source is None and sign is None
        self._hash = EventsHash()
        self._tree = Tree() if level == "tree" or sign is not None else None
        self._disclosure = Disclosure(source) if source is not None else None
        self._tie = tie
        self._seq_of = {item["id"]: 0 for item in record.coercions if "id" in item}
        self.count = 0
        """How many events were sealed."""
        self.notes: list[Note] = []
        """What sealing has to say, once integrity is known."""

    def take(self, event: Event) -> None:
        """Number and hash the next event."""
        event["seq"] = self.count + 1
        self._seal([event])

    def runs(
        self, events: Iterable[Event], encode: Callable[[Event, int], bytes]
    ) -> Iterator[tuple[list[Event], bytes]]:
        """Number, encode and hash events: some of them at a time, with their bytes."""
        run: list[Event] = []
        lines: list[bytes] = []
        size = 0
        for place, event in enumerate(events, self.count + 1):
            event["seq"] = place
            run.append(event)
            try:
                line = encode(event, place)
            except orjson.JSONEncodeError:
                self._seal(run)  # which says what is wrong with it
                raise
            lines.append(line)
            size += len(line)
            if size >= _RUN:
                self._seal(run)
                yield run, b"".join(lines)
                run, lines, size = [], [], 0
        if run:
            self._seal(run)
            yield run, b"".join(lines)

    def _seal(self, run: list[Event]) -> None:
        """Hash numbered events."""
        if self._seq_of:
            self._seq_of |= {
                event["id"]: event["seq"] for event in run if event["id"] in self._seq_of
            }
        if self._at_once and (array := made_events_bytes(run)) is not None:
            self._hash.add_all(array, len(run))
            self.count += len(run)
            return
        for event in run:
            self.count += 1
            if self._level != "none":
                self._hash_one(event)

    def _hash_one(self, event: Event) -> None:
        try:
            raw = self._bytes(event)
            if self._disclosure is not None:
                self._disclosure.take(event)
        except CanonicalError as problem:
            raise _unsealable(self.count, problem) from None
        self._hash.add(raw)
        if self._tree is not None:
            self._tree.add(raw)

    def integrity(self) -> Integrity | None:
        """What lets a reader verify the export; None when it was not asked for."""
        if self._level == "none":
            self._keep_signatures({})
            return None
        tree = self._tree if self._level == "tree" else None
        made = _integrity(self._record, self._hash.hexdigest(), self.count, tree, self._coercions())
        if self._disclosure is not None:
            made["source"] = self._disclosure.as_object()
        elif self._tie is not None:
            made["source"] = self._tie
        self._keep_signatures(made)
        if self._sign is not None:
            self._add_signature(made, self._sign)
        return made

    def _keep_signatures(self, made: Integrity) -> None:
        """An export that is written again as it was signed keeps its signatures; else they would be
        false."""
        known = carried_signatures(self._record)
        signed = (
            (self._record.integrity or {}).get("signatures") if self._record.is_export else None
        )
        if not signed:
            return
        try:
            is_same = _plain(made) == dumps(unsigned(self._record.integrity or {}))
        except CanonicalError:
            is_same = False
        if is_same and known:
            made["signatures"] = known
        dropped = (len(signed) if isinstance(signed, list) else 1) - (len(known) if is_same else 0)
        if dropped:
            told = "they are no signatures" if is_same else "what is written is not what was signed"
            self.notes.append(
                Note("signatures-dropped", "integrity.signatures", f"left out: {told}", dropped)
            )

    def _add_signature(self, made: Integrity, sign: Sign) -> None:
        assert self._tree is not None
        said = orjson.loads(orjson.dumps(unsigned(made)))
        over = statement(
            header(self._record), said, made["events_hash"], self.count, self._tree.root().hex()
        )
        entry = sign(over)
        known = self._that_hold(made.pop("signatures", []), over)
        if not any(
            item["scheme"] == entry["scheme"] and item["keyid"] == entry["keyid"] for item in known
        ):
            known.append(entry)
        made["signatures"] = known

    def _that_hold(self, known: list[dict[str, Any]], over: bytes) -> list[dict[str, Any]]:
        """Signatures beside which one may put one's own: those that are false, or that no reader
        looks at, go."""
        judged = import_module("open_token.signatures.judging")
        states = [item.state for item in judged.judge(known, over, None)][: judged.MOST - 1]
        held = [item for item, state in zip(known, states, strict=False) if state != judged.INVALID]
        if dropped := len(known) - len(held):
            told = "left out: they do not hold, or are too many"
            self.notes.append(Note("signatures-dropped", "integrity.signatures", told, dropped))
        return held

    def _coercions(self) -> list[Coercion]:
        placed: list[Coercion] = []
        for item in self._record.coercions:
            seq = self._seq_of.get(item.get("id", ""), item.get("seq", 0))
            if seq:
                placed.append({"seq": seq, "ptr": item["ptr"], "was": item["was"]})
        return placed


def seal(
    record: Record, context: Context, source: Committed | None = None, *, carried: bool = False
) -> Seal:
    """What seals the record's events as they are written, tied to those of its source where they
    were committed to."""
    if context.sign is not None and context.options.integrity == "none":
        raise UsageError(
            "what is to be signed needs integrity", help="leave integrity=none out, or do not sign"
        )
    tie = carried_tie(record, context) if carried else None
    return Seal(
        record,
        context.options.integrity,
        source,
        tie,
        _within(context.sign, context.options.max_bytes),
    )


def _within(sign: Sign | None, max_bytes: int | None) -> Sign | None:
    """With max_bytes a signature must fit into the room that was kept free for it."""
    if sign is None or max_bytes is None:
        return sign

    def short(said: bytes) -> dict[str, Any]:
        entry = sign(said)
        if len(orjson.dumps(entry)) > _SIGNATURE - 200:  # the rest is for indentation
            raise SigningError(
                "the signature of this key is too long beside max_bytes",
                help="sign with an Ed25519 key, or export without max_bytes",
                code="sign.key",
            )
        return entry

    return short


def carried_signatures(record: Record) -> list[dict[str, Any]]:
    """The signatures of an export that is exported again."""
    known = (record.integrity or {}).get("signatures") if record.is_export else None
    if not known or not isinstance(known, list):
        return []
    # Loaded only here: it knows how to run other programs, which is more than an export needs.
    is_one = import_module("open_token.signatures.judging").is_one
    return [item for item in known if is_one(item)]


def _plain(made: Integrity) -> bytes:
    """The canonical bytes of what was made, in the types of JSON."""
    return dumps(orjson.loads(orjson.dumps(unsigned(made))))


def carried_tie(record: Record, context: Context) -> dict[str, Any] | None:
    """With integrity=source: what ties an export that is exported again to its own source."""
    if context.options.integrity != "source" or not record.is_export or record.integrity is None:
        return None
    tie = record.integrity.get("source")
    return tie if isinstance(tie, dict) else None


def is_as_it_was(record: Record, tie: dict[str, Any]) -> bool:
    """Whether the events of an export are those that it was sealed with, and its tie to their
    source holds."""
    if record.integrity is None or events_hash(record.events) != record.integrity.get(
        "events_hash"
    ):
        return False
    try:
        return check(tie, record.events).root == tie.get("root")
    except SourceFault:
        return False


def commit(record: Record, context: Context) -> Committed | None:
    """With integrity=source: commitments to the events as the reader told them, before any pass
    changes them."""
    if context.options.integrity != "source":
        return None
    if context.key is None:
        raise UsageError(
            "integrity=source needs the local key, and there is none",
            help="let the settings folder be written (OPEN_TOKEN_HOME moves it), or export with integrity=hash",
        )
    source = Committed(context.key, str(record.conversation["id"]))
    for place, event in enumerate(record.events, 1):
        try:
            source.add(event)
        except CanonicalError as problem:
            raise _unsealable(place, problem) from None
    return source


def _unsealable(place: int, problem: CanonicalError) -> InputError:
    return InputError(
        f"event {place} cannot be sealed: {problem}",
        help="check the source with `open-token validate`, or export with integrity=none",
    )


def expected_integrity(
    record: Record, count: int, level: str, *, is_signed: bool = False
) -> Integrity | None:
    """An integrity object of the final size, before the events are known; without its tie to the
    source."""
    if level == "none":
        return None
    coercions: list[Coercion] = [
        {"seq": count, "ptr": c["ptr"], "was": c["was"]} for c in record.coercions
    ]
    made = _integrity(record, "0" * 64, count, Tree() if level == "tree" else None, coercions)
    if signatures := [
        *carried_signatures(record),
        *([{"sig": "0" * _SIGNATURE}] if is_signed else []),
    ]:
        made["signatures"] = signatures
    return made


def _integrity(
    record: Record, digest: str, count: int, tree: Tree | None, coercions: list[Coercion]
) -> Integrity:
    made: Integrity = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": digest,
        "profile": "ot-int/1",
        "c14n": "rfc8785",
        "event_count": count,
        "document_hash": document_hash(header(record), digest),
    }
    if tree is not None:
        made["tree"] = {"alg": "rfc9162-sha256", "size": count, "root": tree.root().hex()}
    if coercions:
        made["coercions"] = coercions
    return made


def header(record: Record) -> dict[str, object]:
    """The document without events and integrity."""
    made: dict[str, object] = {"open_token_version": VERSION}
    if record.exported_at:
        made["exported_at"] = record.exported_at
    made["conversation"] = record.conversation
    made["participants"] = record.participants
    return made
