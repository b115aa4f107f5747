"""native=full: every unit of the source beside the events, so that nothing of it is lost and it can
be restored."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from open_token.blocks import Blocks
from open_token.folding import SHORTEST, Carried, fold
from open_token.likeness import liken
from open_token.model import Event, Record
from open_token.nearby import Nearby
from open_token.sources.source import Source
from open_token.storage.files import Spool
from open_token.units import Unit, owned
from open_token.walk import pointed, weight

_IN_ONE = 256
_BYTES_IN_ONE = 1 << 18


@dataclass(frozen=True)
class Followed:
    """Events and what stands behind them; may be walked any number of times."""

    first: Any
    then: Any

    def __iter__(self) -> Iterator[Event]:
        yield from self.first
        yield from self.then


def with_native(record: Record, source: Source, module: Any, *, conceal: bool = False) -> Record:
    """The record with the source's own values behind its events; the module is that of the source's
    reader."""
    actor, participants = _runtime(record)
    spool = Spool()
    number = record.next_event_number
    for data in _together(_annotations(record, source, module, conceal)):
        event: Event = {
            "id": f"evt_{number:06d}",
            "seq": 0,
            "type": "annotation",
            "actor_id": actor,
            "visibility": "metadata",
            "content": {"mime": "application/json", "data": data},
        }
        number += 1
        spool.append(event, weight(data))
    return replace(
        record,
        participants=participants,
        events=Followed(record.events, spool),
        next_event_number=number,
    )


def _together(pieces: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Small annotations that follow each other as one."""
    held: list[dict[str, Any]] = []
    size = 0
    for piece in pieces:
        heavy = weight(piece)
        if held and size + heavy > _BYTES_IN_ONE:
            yield _joined(held)
            held, size = [], 0
        held.append(piece)
        size += heavy
    if held:
        yield _joined(held)


def _joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """The first that holds records, and then the others without what they share."""
    first = next((piece for piece in pieces if piece["record"]), pieces[0])
    others = [
        {name: value for name, value in piece.items() if name not in ("kind", "reader")}
        for piece in pieces
        if piece is not first
    ]
    return {**first, "then": others} if others else first


def _runtime(record: Record) -> tuple[str, list[Any]]:
    """The actor that speaks for the runtime."""
    for known in record.participants:
        if known.get("kind") == "system" and known.get("name") == "runtime":
            return known["actor_id"], record.participants
    actor = f"act_{len(record.participants) + 1:03d}"
    return actor, [*record.participants, {"actor_id": actor, "kind": "system", "name": "runtime"}]


def _annotations(
    record: Record, source: Source, module: Any, conceal: bool
) -> Iterator[dict[str, Any]]:
    reader = module.definition.name
    carried, nearby = Carried(record.events), Nearby(record.events)
    for part, told in owned(source, module):
        about: dict[str, Any] = {"kind": "native", "reader": reader}
        if part.file:
            about["file"] = part.file
        facts = {"shape": part.shape, **part.facts}
        if not part.file:
            facts["name"] = PurePath(source.name).name
        units = (
            _folded_blocks(told, record)
            if part.shape == "text"
            else _folded(told, carried, conceal)
        )
        batches = _batches(about, units, nearby)
        first = next(batches, None)
        yield {**about, "record": 0, "value": facts} if first is None else {**first, "about": facts}
        yield from batches


def _folded(units: Iterator[Unit], carried: Carried, conceal: bool) -> Iterator[Unit]:
    for unit in units:
        yield replace(unit, value=fold(unit.value, carried.find, conceal=conceal))


def _folded_blocks(units: Iterator[Unit], record: Record) -> Iterator[Unit]:
    said = [
        (f"{event['id']}#{pointer}", text)
        for event in record.events
        for pointer, text in pointed(event["content"], "/content")
        if len(text) >= SHORTEST
    ]
    blocks = Blocks(said)
    for unit in units:
        yield replace(unit, value=blocks.fold(unit.value))


def _batches(
    about: dict[str, Any], units: Iterator[Unit], nearby: Nearby
) -> Iterator[dict[str, Any]]:
    """Units that follow each other share one annotation: the first is its value, the others are
    more."""
    held: list[Unit] = []
    size = 0
    for unit in units:
        if held and (len(held) == _IN_ONE or size > _BYTES_IN_ONE or not _follows(unit, held[-1])):
            yield _annotation(about, held, nearby)
            held, size = [], 0
        held.append(unit)
        size += weight(unit.value)
    if held:
        yield _annotation(about, held, nearby)


def _follows(unit: Unit, before: Unit) -> bool:
    return unit.number == before.number + 1 and unit.at == before.at


def _annotation(about: dict[str, Any], held: list[Unit], nearby: Nearby) -> dict[str, Any]:
    first = held[0]
    value, *more = liken([unit.value for unit in held], nearby)
    made = {**about, "record": first.number}
    if first.at:
        made |= {"at": first.at, "place": first.place} if first.place else {"at": first.at}
    made["value"] = value
    if more:
        made["more"] = more
    return made
