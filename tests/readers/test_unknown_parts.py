"""Parts of golden inputs in a form that no reader knows yet: they are exported or noted as omitted."""

import copy
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import KEY
from helpers.golden_cases import CASES, read_case
from helpers.source_texts import iter_strings, list_texts
from open_token.context import Context
from open_token.errors import InputError
from open_token.model.omissions import Note
from open_token.native.fidelity import ExportObserver, measure_fidelity
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, list_conversations
from open_token.sources.source import Source
from test_golden_texts import ALL

WORDS = "Words that nobody has ever heard before, and more than forty characters of them."
UNREAD = {"type": "hologram", "words": WORDS}
KINDS = ("type", "kind", "role", "say", "from", "sender", "part_kind", "event")
"""The fields by which a reader recognizes what something is."""
Path_ = tuple[Any, ...]
KNOWN: dict[str, set[str]] = {
    # The text of the whole is exported as its pieces.
    "ai_studio": {"added chunkedPrompt/chunks/4/parts"},
    # What the model got to read of an attachment; the attachment itself is exported.
    "claude_code": {"added 3/rendered", "item 3/rendered/0"},
    # The log of a prompt is noted as a whole.
    "continue_dev": {"item history/2/promptLogs/0", "text history/2/promptLogs/0/prompt"},
    # The copied context after a compaction is noted as a whole; the end of an item says what its
    # beginning says, and
    # what the screen shows of a message says what the message says.
    "codex": {
        "added 6/payload/replacement_history",
        "added 6/payload/replacement_history/0/content",
        "item 6/payload/replacement_history/0",
        "item 6/payload/replacement_history/0/content/0",
        "added 8/payload/item/content",
        "item 8/payload/item/content/0",
        "text 3/item/command",
    },
    # The end of an item, or of a call, says what its beginning says.
    "codex_app_server": {
        "added 11/params/item/content",
        "item 11/params/item/content/0",
        "text 19/params/item/command",
    },
    "cursor": {"text 8/tool_call/shellToolCall/args/command"},
    # A line that a later one with the same id replaces; a context and a result that stand in the
    # file twice.
    "gemini_cli": {
        "added 5/thoughts",
        "item 1/$set/messages/0/content/0",
        "item 4/toolCalls/0/result/0",
        "item 5/thoughts/0",
        "text 4/toolCalls/0/result/0/functionResponse/response/output",
    },
    # The pool of messages that events refer to, and the list of samples: what nobody names is
    # nowhere said.
    "inspect_ai": {"added ", "added events_data/messages"},
    # The last event of a stream says what those before it say.
    "openai_responses": {
        "added 0/response/1/item/content",
        "item 0/response/1/item/content/0",
        "item 0/response/2/response/output/0/content/0",
        "text 0/response/2/response/output/0/content/0/text",
    },
    # A later event says the whole item once more; a piece stands beside it.
    "openai_realtime": {
        "added 29/item/content",
        "item 29/item/content/0",
        "text 25/delta",
    },
    # The action says the same as the call.
    "openhands": {"text 0/history/2/tool_call/arguments"},
    # The arguments of the call say the same as its view on the screen; the copied context is noted
    # as a whole.
    "qwen_code": {
        "added 4/systemPayload/compressedHistory",
        "text 2/toolCallResult/resultDisplay/taskPrompt",
    },
    # The call says the same as the action, and the message the same as the response.
    "swe_agent": {
        "added messages/5/extra/response/choices",
        "added messages/7/extra/actions",
        "item messages/7/extra/actions/0",
    },
}
"""Changes after which something else says the same, or says that it is left out."""


class Exported(NamedTuple):
    """What came of an input."""

    kept: str
    notes: Counter[tuple[str, str]]
    places: set[str]

    def holds(self, text: str) -> bool:
        return text in self.kept


class Input(NamedTuple):
    """One file of a golden case that is JSON or JSON lines: the case, its place in there, what it
    holds."""

    case: Path
    name: str
    value: Any
    is_lines: bool

    @property
    def reader(self) -> str:
        return self.case.parent.name

    def written(self, value: Any) -> bytes:
        """Another value as it would stand in this file."""
        rows = value if self.is_lines else [value]
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    def source(self, data: bytes, made: Path) -> Source:
        """The case with other bytes in this file."""
        (made / "case" / self.name).write_bytes(data)
        opened, _ = read_case(made / "case", made)
        return Source.of_folder(opened, opened.name) if opened.is_dir() else Source.of(opened)


def inputs(reader: str) -> Iterator[Input]:
    """The files of the golden cases of a reader, those in folders and zips too."""
    for case in CASES:
        for path in sorted(case.glob("input*")) + sorted(case.glob("input*/**/*")):
            if case.parent.name == reader and path.is_file() and path.suffix in (".json", ".jsonl"):
                rows = (
                    path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
                )
                try:
                    values = [json.loads(row) for row in rows if row.strip()]
                except ValueError:
                    continue  # a line that is only half there has a test of its own
                is_lines = path.suffix == ".jsonl"
                yield Input(
                    case,
                    path.relative_to(case).as_posix(),
                    values if is_lines else values[0],
                    is_lines,
                )


def exports(
    source: Source, reader: str, witness: ExportObserver | None = None
) -> Iterator[tuple[bytes, list[Note]]]:
    """Every conversation of an input: the export and the notes."""
    found = list_conversations(source, reader)
    for item in found if len(found) > 1 else [None]:
        source.conversation = item.id if item else None
        out = io.BytesIO()
        notes = export(source, out, Context(ExportOptions.of(ALL), key=KEY), reader, witness).notes
        yield out.getvalue(), notes


def export_all(source: Source, reader: str) -> Exported | None:
    """What the exports of an input say, and the notes; nothing when it is refused."""
    kept: set[str] = set()
    notes: Counter[tuple[str, str]] = Counter()
    where: set[str] = set()
    try:
        for made, left in exports(source, reader):
            kept.update(iter_strings(json.loads(made)))
            notes.update(count(left))
            where.update(note.place for note in left)
    except InputError:
        return None
    return Exported("\0".join(kept), notes, where)


def count(notes: list[Note]) -> dict[tuple[str, str], int]:
    """How often what was left out; each with a code and a place."""
    assert all(note.code and note.place for note in notes)
    return {(note.code, note.detail): note.count for note in notes}


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    yield path, value
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value: Any, path: Path_, new: Any) -> Any:
    if not path:
        return new
    made = holder = copy.copy(value)
    for key in path[:-1]:
        holder[key] = copy.copy(holder[key])
        holder = holder[key]
    holder[path[-1]] = new
    return made


def unread(value: Any, whole: Exported) -> Iterator[tuple[str, Path_, Any]]:
    """Each item of a list that says something, as a thing of another kind, with its kind renamed,
    and beside others."""
    for path, item in places(value):
        if isinstance(item, dict) and path and isinstance(path[-1], int) and says(item, whole):
            yield "item", path, UNREAD
            for name in KINDS:
                if isinstance(item.get(name), str):
                    yield name, path, {**item, name: "hologram"}
        elif (
            isinstance(item, list)
            and all(isinstance(part, dict) for part in item)
            and says(item, whole)
        ):
            yield "added", path, [*item, UNREAD]
        elif isinstance(item, str) and path and says(item, whole):
            yield "text", path, [UNREAD]


def says(item: Any, whole: Exported) -> bool:
    return any(map(whole.holds, list_texts(json.dumps([item]).encode(), "")))


def shape(what: str, path: Path_, records: Any) -> tuple[Any, ...]:
    """Changes at the same place of several records of one kind are one."""
    record = records[path[0]] if isinstance(records, list) and path else records
    kind = [record.get(name) for name in KINDS[:3]] if isinstance(record, dict) else []
    return what, tuple("" if isinstance(key, int) else key for key in path), json.dumps(kind)


class Change(NamedTuple):
    """One part of an input in a form that nobody knows."""

    what: str
    path: Path_
    input: Input
    before: bytes
    after: bytes

    def __str__(self) -> str:
        return " ".join([self.what, "/".join(map(str, self.path))])


def changes(reader: str, made: Path) -> Iterator[tuple[Change, Exported]]:
    """Every change once, with what came of the input before it."""
    seen: set[Any] = set()
    case: Path | None = None
    for given in inputs(reader):
        before = given.written(given.value)
        if given.case != case:
            case = given.case
            shutil.rmtree(made / "case", ignore_errors=True)
            shutil.copytree(case, made / "case")
            whole = export_all(given.source(before, made), reader)
        for what, path, new in unread(given.value, whole) if whole else ():
            mark = shape(what, path, given.value)
            if whole and mark not in seen:
                seen.add(mark)
                yield (
                    Change(
                        what, path, given, before, given.written(changed(given.value, path, new))
                    ),
                    whole,
                )
        given.source(before, made)


def is_silent(change: Change, before: Exported, after: Exported, made: Path) -> bool:
    """Whether something is lost, and no note says so; of a text that is none it is enough that the
    report does."""
    given = change.input
    if not lost(after, before, change.after, given.reader):
        return False
    if any(number > before.notes[key] for key, number in after.notes.items()):
        return False
    if change.what != "text":
        return True
    return unkept(given, change.after, made) <= unkept(given, change.before, made)


def unkept(given: Input, data: bytes, made: Path) -> int:
    """How many characters are not kept, as the report counts them."""
    witness, source = ExportObserver(), given.source(data, made)
    list(exports(source, given.reader, witness))
    source.conversation = None
    report = measure_fidelity(source, given.reader, witness, [])
    return report.said - report.said_kept


def lost(after: Exported, before: Exported, data: bytes, reader: str) -> bool:
    said = set(list_texts(data, reader))
    return any(not after.holds(text) for text in said if text == WORDS or before.holds(text))


def is_misplaced(change: Change, before: Exported, after: Exported) -> bool:
    """Whether a line that nobody knows is noted, and no note of a new kind says which line it
    is."""
    is_line = change.what == "item" and change.input.is_lines and len(change.path) == 1
    if not is_line or "/" in change.input.name or change.input.reader == "session_server":
        return False  # which counts turns
    if after.notes.keys() <= before.notes.keys():
        return False
    return not any(re.search(rf"\bline {change.path[0] + 1}\b", place) for place in after.places)


@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_lost_in_silence(reader: str, tmp_path: Path) -> None:
    """What is not in the export is noted, and a note about a line says which one."""
    silent = set()
    misplaced = []
    for change, before in changes(reader, tmp_path):
        after = export_all(change.input.source(change.after, tmp_path), reader)
        if after is None:
            continue
        if is_silent(change, before, after, tmp_path):
            silent.add(str(change))
        if is_misplaced(change, before, after):
            misplaced.append(str(change))
    assert silent == KNOWN.get(reader, set())
    assert misplaced == []


MOVED = {
    "codex": (
        [
            {"type": "thread.started", "thread_id": "t"},
            {"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": WORDS}},
            {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": WORDS}},
        ],
        [(1, "item", "text"), (2, "item", "text")],
    ),
    "grok_cli": (
        [
            {"type": "system", "content": WORDS},
            {"type": "user", "content": WORDS, "prompt_index": 0},
            {"type": "assistant", "content": "Yes.", "model_id": "m"},
        ],
        [(0, "content"), (1, "content")],
    ),
    "openai_chat": (
        [
            {
                "model": "m",
                "messages": [
                    {"role": "user", "content": WORDS},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [{"id": "c", "function": {"name": "f"}}],
                    },
                    {"role": "tool", "tool_call_id": "c", "content": WORDS},
                ],
            }
        ],
        [(0, "messages", 0, "content"), (0, "messages", 2, "content")],
    ),
}
"""Records by reader, and the places of words that a newer version might give another name."""


@pytest.mark.parametrize(
    ("reader", "path"),
    [(reader, path) for reader, (_, paths) in MOVED.items() for path in paths],
    ids=str,
)
def test_words_under_another_name_are_noted(reader: str, path: Path_) -> None:
    records = json.loads(json.dumps(MOVED[reader][0]))
    holder = records
    for key in path[:-1]:
        holder = holder[key]
    holder["renamed"] = holder.pop(path[-1])
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    after = export_all(Source("x", data=data), reader)
    assert after
    assert "no-content" in {code for code, _ in after.notes}
