"""Build the account of a redaction, `conversation.redaction`: level, strategy and counts by type."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from open_token.context import Context
from open_token.model.document import REDACTION_MODES, STRATEGIES, Record, Redaction
from open_token.redaction.lazy_patterns import lazy_compile

_KEPT_NOTE = lazy_compile(r"kept \d+ images? or files?, not searched")
_COUNT_NOTE = lazy_compile(r"masked (\d+) ([\w.-]+) \((\d+) distinct values?\)")


def stricter_level(one: str, other: str) -> str:
    """Return the level that masks more."""
    return max(one, other, key=REDACTION_MODES.index)


def build_redaction(
    before: Redaction | None,
    level: str,
    strategy: str,
    marker_counts: Counter[str],
    distinct: Mapping[str, int],
    remarks: list[str],
) -> Redaction | None:
    """Return the account after this redaction; counts are added to those of an earlier one."""
    before = before if isinstance(before, dict) else None
    if level == "none" and not marker_counts:
        return before
    earlier_mode = "none"
    earlier_strategy = None
    notes: list[str] = []
    if before:
        mode = before.get("mode")
        if mode in REDACTION_MODES:
            earlier_mode = mode
        if not marker_counts:
            earlier_strategy = before.get("strategy")
        notes = _filter_texts(before.get("notes"))
    new_remarks = _list_remarks_on_names(level)
    if marker_counts:
        notes = _add_counts(notes, marker_counts, distinct)
        new_remarks = remarks + new_remarks
    notes = notes + [remark for remark in new_remarks if remark not in notes]
    return {
        "mode": stricter_level(level, earlier_mode),
        "strategy": earlier_strategy if earlier_strategy in STRATEGIES else strategy,
        "notes": notes,
    }


def drops_media(context: Context, level: str) -> bool:
    """Return whether images and files are dropped: as asked, else from level `pii` on."""
    wanted = context.options.images
    return wanted == "drop" if wanted else level in ("pii", "strict")


def add_media_account(
    record: Record,
    context: Context,
    level: str,
    dropped: Counter[str],
    distinct: Mapping[str, int],
    kept: int = 0,
) -> Record:
    """Return the record with images and files in its account: those dropped, and those kept."""
    if not dropped and not kept:
        return record
    before = record.conversation.get("redaction")
    account = build_redaction(before, level, context.options.strategy, dropped, distinct, [])
    if account is None:
        return record
    account["notes"] = _set_kept_note(account["notes"], kept)
    return replace(record, conversation={**record.conversation, "redaction": account})


def has_kept_media(record: Record) -> bool:
    """Return whether the account of a record says that images or files were kept."""
    account = record.conversation.get("redaction")
    if not isinstance(account, dict):
        return False
    return any(map(_KEPT_NOTE.fullmatch, _filter_texts(account.get("notes"))))


def set_kept_media(record: Record, kept: int) -> Record:
    """Return the record with another number of images and files that were kept in its account."""
    account = record.conversation["redaction"]
    account = {**account, "notes": _set_kept_note(account["notes"], kept)}
    return replace(record, conversation={**record.conversation, "redaction": account})


def _set_kept_note(notes: list[str], kept: int) -> list[str]:
    """Return the notes with that on kept images in its old place; without it if none is kept.

    An earlier redaction may have kept what is dropped now. The place is the same each time, so that
    an export that is exported again stays as it is.
    """
    places = [place for place, note in enumerate(notes) if _KEPT_NOTE.fullmatch(note)]
    remaining = [note for note in notes if not _KEPT_NOTE.fullmatch(note)]
    if kept:
        plural = "" if kept == 1 else "s"
        note = f"kept {kept} image{plural} or file{plural}, not searched"
        remaining.insert(places[0] if places else len(remaining), note)
    return remaining


def _list_remarks_on_names(level: str) -> list[str]:
    """Return the remark that names are found less well without the lists of names."""
    if level not in ("pii", "strict"):
        return []
    from open_token.redaction.person_names.name_lists import list_missing_extras

    return list_missing_extras()


def _filter_texts(notes: Any) -> list[str]:
    """Return the notes of a document, which may be anything, as far as they are texts."""
    if not isinstance(notes, list):
        return []
    return [note for note in notes if isinstance(note, str)]


def _add_counts(
    notes: list[str], marker_counts: Counter[str], distinct: Mapping[str, int]
) -> list[str]:
    """Return the notes with one line a type that counts this and any earlier redaction."""
    lines: dict[str, str] = {}
    for note in notes:
        match = _COUNT_NOTE.fullmatch(note)
        lines[match[2] if match else note] = note
    for type_name in sorted(marker_counts):
        count = marker_counts[type_name]
        values = distinct[type_name]
        match = _COUNT_NOTE.fullmatch(lines.get(type_name, ""))
        if match:
            count += int(match[1])
            values += int(match[3])
        plural = "" if values == 1 else "s"
        lines[type_name] = f"masked {count} {type_name} ({values} distinct value{plural})"
    return list(lines.values())
