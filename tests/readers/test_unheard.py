"""Formats move: parts of golden inputs in a form that no reader knows yet are kept, or told as lost; never silent."""

import copy
import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from conftest import KEY
from golden_cases import CASES
from open_token.context import Context
from open_token.errors import InputError
from open_token.fidelity import Witness, judge
from open_token.model import Note
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.readers import NAMES, conversations
from open_token.source import Source
from spoken import strings, texts
from test_golden_words import ALL

WORDS = "Words that nobody has ever heard before, and more than forty characters of them."
UNHEARD = {"type": "hologram", "words": WORDS}
KINDS = ("type", "kind", "role", "say", "from", "sender", "part_kind", "event")
"""The fields that tell a reader what something is."""
Path_ = tuple[Any, ...]
KNOWN: dict[str, set[str]] = {
    # Blocks that are unknown are kept as they are, and the words that a message has beside them are not told again.
    "claude_ai_export": {"item 0/chat_messages/0/content/0", "text 0/chat_messages/0/content/0/text"},
    # What the model got to read of an attachment; the attachment itself is told.
    "claude_code": {"item 3/rendered/0"},
    # The copied context after a compaction is noted as a whole; the end of an item says what its beginning says.
    "codex": {
        "item 6/payload/replacement_history/0",
        "item 6/payload/replacement_history/0/content/0",
        "text 3/item/command",
    },
    # A line that a later one with the same id replaces.
    "gemini_cli": {"item 5/thoughts/0"},
    # The action says the same as the call.
    "openhands": {"text 0/history/2/tool_call/arguments"},
    # The arguments of the call say the same as its view on the screen.
    "qwen_code": {"text 2/toolCallResult/resultDisplay/taskPrompt"},
    # The call says the same as the action.
    "swe_agent": {"item messages/7/extra/actions/0"},
}
"""Changes after which something else says the same, or says that it is left out."""


class Told(NamedTuple):
    """What came of an input."""

    kept: str
    notes: Counter[tuple[str, str]]

    def holds(self, text: str) -> bool:
        return text in self.kept


def exports(data: bytes, reader: str, name: str, witness: Witness | None = None) -> Iterator[tuple[bytes, list[Note]]]:
    """Every conversation of an input: the export and the notes."""
    source = Source(name, data=data)
    found = conversations(source, reader)
    for item in found if len(found) > 1 else [None]:
        source.conversation = item.id if item else None
        out = io.BytesIO()
        notes = export(source, out, Context(ExportOptions.of(ALL), key=KEY), reader, witness).notes
        yield out.getvalue(), notes


def told(data: bytes, reader: str, name: str) -> Told | None:
    """What the exports of an input say, and the notes; nothing when it is refused."""
    kept: set[str] = set()
    notes: Counter[tuple[str, str]] = Counter()
    try:
        for made, left in exports(data, reader, name):
            kept.update(strings(json.loads(made)))
            notes.update(count(left))
    except InputError:
        return None
    return Told("\0".join(kept), notes)


def count(notes: list[Note]) -> dict[tuple[str, str], int]:
    """How often what was left out; each with a code and a place."""
    assert all(note.code and note.place for note in notes)
    return {(note.code, note.detail): note.count for note in notes}


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    if path:
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value: Any, path: Path_, new: Any) -> Any:
    made = holder = copy.copy(value)
    for key in path[:-1]:
        holder[key] = copy.copy(holder[key])
        holder = holder[key]
    holder[path[-1]] = new
    return made


def inputs(reader: str) -> Iterator[tuple[str, Any, bool]]:
    """The golden inputs of a reader that are JSON in one file, and whether they are lines."""
    for case in CASES:
        (path,) = case.glob("input*")
        if case.parent.name == reader and path.is_file() and path.suffix in (".json", ".jsonl"):
            rows = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            try:
                values = [json.loads(row) for row in rows if row.strip()]
            except ValueError:
                continue  # a line that is only half there has a test of its own
            yield path.name, values if path.suffix == ".jsonl" else values[0], path.suffix == ".jsonl"


def written(value: Any, is_lines: bool) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in value) if is_lines else json.dumps(value).encode()


def unheard(value: Any, whole: Told) -> Iterator[tuple[str, Path_, Any]]:
    """Each item of a list that says something, as a thing of another kind, and with its kind renamed."""
    for path, item in places(value):
        if isinstance(item, dict) and isinstance(path[-1], int) and says(item, whole):
            yield "item", path, UNHEARD
            for name in KINDS:
                if isinstance(item.get(name), str):
                    yield name, path, {**item, name: "hologram"}
        elif isinstance(item, str) and says(item, whole):
            yield "text", path, [UNHEARD]


def says(item: Any, whole: Told) -> bool:
    return any(map(whole.holds, texts(json.dumps([item]).encode(), "")))


def shape(what: str, path: Path_, records: Any) -> tuple[Any, ...]:
    """Changes at the same place of several records of one kind are one."""
    record = records[path[0]] if isinstance(records, list) else records
    kind = [record.get(name) for name in KINDS[:3]] if isinstance(record, dict) else []
    return what, tuple("" if isinstance(key, int) else key for key in path), json.dumps(kind)


class Change(NamedTuple):
    """One part of an input in a form that nobody knows."""

    what: str
    path: Path_
    name: str
    before: bytes
    after: bytes


def changes(reader: str) -> Iterator[tuple[Change, Told]]:
    """Every change once, with what came of the input before it."""
    seen: set[Any] = set()
    for name, value, is_lines in inputs(reader):
        before = written(value, is_lines)
        whole = told(before, reader, name)
        for what, path, new in unheard(value, whole) if whole else ():
            if whole and (mark := shape(what, path, value)) not in seen:
                seen.add(mark)
                yield Change(what, path, name, before, written(changed(value, path, new), is_lines)), whole


def is_silent(change: Change, before: Told, reader: str) -> bool:
    """Whether something is lost, and no note says so; of a text that is none it is enough that the report does."""
    after = told(change.after, reader, change.name)
    if after is None or not lost(after, before, change.after, reader):
        return False
    if any(number > before.notes[key] for key, number in after.notes.items()):
        return False
    if change.what != "text":
        return True
    return unkept(change.after, reader, change.name) <= unkept(change.before, reader, change.name)


def unkept(data: bytes, reader: str, name: str) -> int:
    """How many characters are not kept, as the report counts them."""
    witness, source = Witness(), Source(name, data=data)
    list(exports(data, reader, name, witness))
    report = judge(source, reader, witness, [])
    return report.said - report.said_kept


def lost(after: Told, before: Told, data: bytes, reader: str) -> bool:
    said = set(texts(data, reader))
    return any(not after.holds(text) for text in said if text == WORDS or before.holds(text))


@pytest.mark.parametrize("reader", NAMES)
def test_nothing_is_lost_in_silence(reader: str) -> None:
    silent = {
        f"{change.what} {'/'.join(map(str, change.path))}"
        for change, before in changes(reader)
        if is_silent(change, before, reader)
    }
    assert silent == KNOWN.get(reader, set())
