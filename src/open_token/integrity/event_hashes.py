"""Number the events and hash them while they are written, and build the integrity object."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from open_token.context import Context
from open_token.errors import InputError, SigningError, UsageError
from open_token.integrity.commitments import (
    CommitmentError,
    Disclosure,
    SourceCommitments,
    check_disclosure,
)
from open_token.integrity.merkle import MerkleTree
from open_token.integrity.signatures.statement import build_statement, without_signatures
from open_token.jsontools.canonical import (
    CanonicalError,
    EventsHash,
    encode_built_event,
    encode_built_events,
    encode_canonical,
    encode_event,
    hash_document,
    hash_events,
)
from open_token.model.document import VERSION, Coercion, Event, Integrity, Record
from open_token.model.omissions import Note

_RUN_BYTES = 1 << 16
# Space for a signature that is not made yet; an RSA key of 4096 bits takes 1,700 bytes.
_SIGNATURE_SPACE = 2000
_INDENTATION_SPACE = 200

Sign = Callable[[bytes], dict[str, Any]]


class EventHasher:
    """Gives events their final seq, hashes them, and builds the integrity object after the last.

    `notes` has what hashing has to report once `integrity` was called.
    """

    def __init__(
        self,
        record: Record,
        level: str,
        source: SourceCommitments | None = None,
        disclosure: dict[str, Any] | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._record = record
        self._level = level
        self._sign = sign
        self._encode = encode_event if record.is_export else encode_built_event
        needs_each_event = record.is_export or source is not None or sign is not None
        self._hashes_runs = level == "hash" and not needs_each_event
        self._hash = EventsHash()
        self._tree = MerkleTree() if level == "tree" or sign is not None else None
        self._new_disclosure = Disclosure(source) if source is not None else None
        self._kept_disclosure = disclosure
        self._seq_of_id = {item["id"]: 0 for item in record.coercions if "id" in item}
        self.count = 0
        self.notes: list[Note] = []

    def take(self, event: Event) -> None:
        """Number and hash the next event."""
        event["seq"] = self.count + 1
        self._hash_run([event])

    def runs(
        self, events: Iterable[Event], encode: Callable[[Event, int], bytes]
    ) -> Iterator[tuple[list[Event], bytes]]:
        """Number, encode and hash the events; yield runs of them with their encoded bytes."""
        run: list[Event] = []
        lines: list[bytes] = []
        size = 0
        for position, event in enumerate(events, self.count + 1):
            event["seq"] = position
            run.append(event)
            try:
                line = encode(event, position)
            except orjson.JSONEncodeError:
                self._hash_run(run)  # raises an error that says what is wrong
                raise
            lines.append(line)
            size += len(line)
            if size >= _RUN_BYTES:
                self._hash_run(run)
                yield run, b"".join(lines)
                run = []
                lines = []
                size = 0
        if run:
            self._hash_run(run)
            yield run, b"".join(lines)

    def _hash_run(self, run: list[Event]) -> None:
        if self._seq_of_id:
            for event in run:
                if event["id"] in self._seq_of_id:
                    self._seq_of_id[event["id"]] = event["seq"]
        if self._hashes_runs:
            # One call for all events is several times as fast; None: they need a closer look.
            array = encode_built_events(run)
            if array is not None:
                self._hash.add_all(array, len(run))
                self.count += len(run)
                return
        for event in run:
            self.count += 1
            if self._level != "none":
                self._hash_event(event)

    def _hash_event(self, event: Event) -> None:
        try:
            raw = self._encode(event)
            if self._new_disclosure is not None:
                self._new_disclosure.take(event)
        except CanonicalError as problem:
            raise _not_canonical(self.count, problem) from None
        self._hash.add(raw)
        if self._tree is not None:
            self._tree.add(raw)

    def integrity(self) -> Integrity | None:
        """Return the integrity object; None with integrity=none."""
        if self._level == "none":
            self._keep_signatures({})
            return None
        tree = self._tree if self._level == "tree" else None
        events_hash = self._hash.hexdigest()
        coercions = self._locate_coercions()
        integrity = _build_integrity(self._record, events_hash, self.count, tree, coercions)
        if self._new_disclosure is not None:
            integrity["source"] = self._new_disclosure.as_object()
        elif self._kept_disclosure is not None:
            integrity["source"] = self._kept_disclosure
        self._keep_signatures(integrity)
        if self._sign is not None:
            self._add_signature(integrity, self._sign)
        return integrity

    def _keep_signatures(self, integrity: Integrity) -> None:
        """Keep the signatures of an export that is written again exactly as it was signed."""
        if not self._record.is_export:
            return
        original = self._record.integrity or {}
        signed = original.get("signatures")
        if not signed:
            return
        kept: list[dict[str, Any]] = []
        reason = "what is written is not what was signed"
        if _is_same_integrity(integrity, original):
            kept = find_signatures(self._record)
            reason = "they are not signatures"
        if kept:
            integrity["signatures"] = kept
        total = len(signed) if isinstance(signed, list) else 1
        self._note_dropped(total - len(kept), reason)

    def _note_dropped(self, count: int, reason: str) -> None:
        if count:
            detail = f"left out: {reason}"
            self.notes.append(Note("signatures-dropped", "integrity.signatures", detail, count))

    def _add_signature(self, integrity: Integrity, sign: Sign) -> None:
        assert self._tree is not None
        unsigned = orjson.loads(orjson.dumps(without_signatures(integrity)))
        statement = build_statement(
            build_header(self._record),
            unsigned,
            integrity["events_hash"],
            self.count,
            self._tree.root().hex(),
        )
        entry = sign(statement)
        signatures = self._drop_invalid(integrity.pop("signatures", []), statement)
        signer = (entry["scheme"], entry["keyid"])
        if all((known["scheme"], known["keyid"]) != signer for known in signatures):
            signatures.append(entry)
        integrity["signatures"] = signatures

    def _drop_invalid(
        self, signatures: list[dict[str, Any]], statement: bytes
    ) -> list[dict[str, Any]]:
        """Return the signatures that are not known to be invalid, and that a reader would check."""
        from open_token.integrity.signatures.results import (
            INVALID,
            MAX_SIGNATURES,
            check_signatures,
        )

        results = list(check_signatures(signatures, statement, None))[: MAX_SIGNATURES - 1]
        pairs = zip(signatures, results, strict=False)
        kept = [signature for signature, result in pairs if result.state != INVALID]
        self._note_dropped(len(signatures) - len(kept), "they are invalid, or too many")
        return kept

    def _locate_coercions(self) -> list[Coercion]:
        """Return the coercions of events that are in the export, by their final seq."""
        located: list[Coercion] = []
        for item in self._record.coercions:
            seq = self._seq_of_id.get(item.get("id", ""), item.get("seq", 0))
            if seq:
                located.append({"seq": seq, "ptr": item["ptr"], "was": item["was"]})
        return located


def build_hasher(
    record: Record,
    context: Context,
    source: SourceCommitments | None = None,
    *,
    keep_disclosure: bool = False,
) -> EventHasher:
    """Return the hasher for a record; its events are tied to their source by the commitments."""
    options = context.options
    if context.sign is not None and options.integrity == "none":
        raise UsageError(
            "a signature needs integrity", help="leave integrity=none out, or do not sign"
        )
    disclosure = find_disclosure(record, context) if keep_disclosure else None
    sign = _limit_signature(context.sign, options.max_bytes)
    return EventHasher(record, options.integrity, source, disclosure, sign)


def _limit_signature(sign: Sign | None, max_bytes: int | None) -> Sign | None:
    """With max_bytes, a signature must fit into the space that was reserved for it."""
    if sign is None or max_bytes is None:
        return sign

    def sign_limited(statement: bytes) -> dict[str, Any]:
        entry = sign(statement)
        if len(orjson.dumps(entry)) > _SIGNATURE_SPACE - _INDENTATION_SPACE:
            raise SigningError(
                "the signature of this key is too long for max_bytes",
                help="sign with an Ed25519 key, or export without max_bytes",
                code="sign.key",
            )
        return entry

    return sign_limited


def find_signatures(record: Record) -> list[dict[str, Any]]:
    """Return the well-formed signatures of an export that is exported again."""
    if not record.is_export:
        return []
    signatures = (record.integrity or {}).get("signatures")
    if not signatures or not isinstance(signatures, list):
        return []
    # Imported here: it imports subprocess, which most exports do not need.
    from open_token.integrity.signatures.results import is_plain_signature

    return [entry for entry in signatures if is_plain_signature(entry)]


def _is_same_integrity(built: Integrity, original: Integrity) -> bool:
    """Return whether two integrity objects are the same, apart from their signatures."""
    try:
        plain = orjson.loads(orjson.dumps(without_signatures(built)))
        return encode_canonical(plain) == encode_canonical(without_signatures(original))
    except CanonicalError:
        return False


def find_disclosure(record: Record, context: Context) -> dict[str, Any] | None:
    """With integrity=source, return the source object of an export that is exported again."""
    if context.options.integrity != "source" or not record.is_export or record.integrity is None:
        return None
    disclosure = record.integrity.get("source")
    return disclosure if isinstance(disclosure, dict) else None


def is_unchanged_export(record: Record, disclosure: dict[str, Any]) -> bool:
    """Return whether the events of an export match its hash and its source object."""
    if record.integrity is None:
        return False
    if hash_events(record.events) != record.integrity.get("events_hash"):
        return False
    try:
        return check_disclosure(disclosure, record.events).root == disclosure.get("root")
    except CommitmentError:
        return False


def commit_to_source(record: Record, context: Context) -> SourceCommitments | None:
    """With integrity=source, commit to the events as they were read, before any pass."""
    if context.options.integrity != "source":
        return None
    if context.key is None:
        raise UsageError(
            "integrity=source needs the local key, and there is none",
            help="make the settings folder writable (OPEN_TOKEN_HOME moves it), or use integrity=hash",
        )
    commitments = SourceCommitments(context.key, str(record.conversation["id"]))
    for position, event in enumerate(record.events, 1):
        try:
            commitments.add(event)
        except CanonicalError as problem:
            raise _not_canonical(position, problem) from None
    return commitments


def _not_canonical(position: int, problem: CanonicalError) -> InputError:
    return InputError(
        f"event {position} cannot be hashed: {problem}",
        help="check the source with `open-token validate`, or export with integrity=none",
    )


def estimate_integrity(
    record: Record, count: int, level: str, *, is_signed: bool = False
) -> Integrity | None:
    """Return an integrity object of the final size, without a source object, before hashing."""
    if level == "none":
        return None
    coercions: list[Coercion] = [
        {"seq": count, "ptr": item["ptr"], "was": item["was"]} for item in record.coercions
    ]
    tree = MerkleTree() if level == "tree" else None
    integrity = _build_integrity(record, "0" * 64, count, tree, coercions)
    signatures = find_signatures(record)
    if is_signed:
        signatures.append({"sig": "0" * _SIGNATURE_SPACE})
    if signatures:
        integrity["signatures"] = signatures
    return integrity


def _build_integrity(
    record: Record,
    events_hash: str,
    count: int,
    tree: MerkleTree | None,
    coercions: list[Coercion],
) -> Integrity:
    integrity: Integrity = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": events_hash,
        "profile": "ot-int/1",
        "c14n": "rfc8785",
        "event_count": count,
        "document_hash": hash_document(build_header(record), events_hash),
    }
    if tree is not None:
        integrity["tree"] = {"alg": "rfc9162-sha256", "size": count, "root": tree.root().hex()}
    if coercions:
        integrity["coercions"] = coercions
    return integrity


def build_header(record: Record) -> dict[str, object]:
    """Return the document without events and integrity."""
    header: dict[str, object] = {"open_token_version": VERSION}
    if record.exported_at:
        header["exported_at"] = record.exported_at
    header["conversation"] = record.conversation
    header["participants"] = record.participants
    return header
