"""A conversation as GitHub-flavoured Markdown: a story to paste, in which no stranger has a tag or
a picture."""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from open_token.model.document import Integrity, Record
from open_token.pages._blocks import as_text
from open_token.pages._escaped import attribute, one_line, plain
from open_token.pages._gathered import Gathered, gather, title_of_all
from open_token.pages._terminal import without_colours
from open_token.pages._tools import COMMANDS, word
from open_token.pages.quoted import fenced, prose
from open_token.pages.rows import duration, plural, row_of, said
from open_token.pages.story import Item, Story

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~!&@]|(?<!\w)_|_(?!\w)")
_SIGNS = {" ": " ", "+": "+", "-": "-", "@": "@"}


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, most: int | None = None
) -> int:
    """Write all of it; gives the count of bytes."""
    whole = gather(record.events)
    total = out.write(_head(record, integrity, whole).encode("utf-8", "replace"))
    for item in Story(whole.known).tell(record.events):
        total += out.write(_item(item, whole).encode("utf-8", "replace"))
    return total


def words(text: str, longest: int = 140) -> str:
    """A line of a stranger's in which no sign means anything."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", one_line(text, longest))


def _head(record: Record, integrity: Integrity | None, whole: Gathered) -> str:
    title = title_of_all(whole, str(record.conversation.get("title") or ""))
    lines = [f"# {words(title)}", "", counted(whole), ""]
    lines += [f"- {line}" for line in _marks(record, integrity, whole)]
    return "\n".join(lines) + "\n\n"


def counted(whole: Gathered) -> str:
    """How large it is, in a line."""
    failed = f" ({len(whole.failures):,} failed)" if whole.failures else ""
    told = [plural(len(whole.turns), "prompt"), plural(whole.calls, "call") + failed]
    if whole.began and whole.ended and whole.ended > whole.began:
        told.append(duration(whole.ended - whole.began))
    return " · ".join(told)


def _marks(record: Record, integrity: Integrity | None, whole: Gathered) -> Iterator[str]:
    yield f"conversation {words(str(record.conversation.get('id') or ''))}, {whole.events:,} events"
    if whole.files:
        edits = [edit for one in whole.files.values() for edit in one]
        sums = f"+{sum(edit[1] for edit in edits):,} -{sum(edit[2] for edit in edits):,}"
        told = f"{plural(len(whole.files), 'file')} changed by tools, {sums}"
        yield f"{told}; what commands of a shell changed is not counted"
    redaction: Any = record.conversation.get("redaction") or {}
    yield f"redaction: {words(str(redaction.get('mode') or 'none'))}"
    yield from (words(str(note), 300) for note in (redaction.get("notes") or [])[:100])
    if whole.missing:
        yield f"{plural(whole.missing, 'call')} without a recorded result"
    if whole.cut:
        yield f"{plural(whole.cut, 'event')} cut to fit max_bytes"
    yield from (
        words(f"{note.code}: {note.detail} ({note.place}, {note.count:,} times)", 300)
        for note in record.notes
    )
    yield f"sealed sha256:{integrity['events_hash']}" if integrity else "not sealed"


def _item(item: Item, whole: Gathered) -> str:
    if item.kind == "prompt":
        return _prompt(item, whole)
    if item.kind == "say":
        return f"{prose(said(item.event)[0])}{_others(said(item.event)[1])}\n\n"
    if item.kind in ("thought", "system"):
        return _aside(item)
    if item.kind == "note":
        return "" if item.is_quiet or item.data.get("kind") == "native" else _note(item)
    if item.kind == "span":
        inside = "".join(_item(inner, whole) for inner in item.inside)
        reason = item.data.get("spawn_reason") or item.data.get("description") or ""
        return _folded(
            str(item.data.get("kind") or "span"),
            str(reason),
            plural(len(item.inside), "step"),
            inside,
        )
    return _call(item, whole)


def _prompt(item: Item, whole: Gathered) -> str:
    text, blocks = said(item.event)
    quoted = "\n".join(f"> {line}".rstrip() for line in prose(text).split("\n"))
    number = whole.numbers.get(str(item.event.get("id", "")), 0)
    head = (
        f"## {number}. {words(whole.turns[number - 1].title, 100)}\n\n"
        if number and not item.within
        else ""
    )
    return f"{head}{quoted}\n{_others(blocks)}\n\n"


def _aside(item: Item) -> str:
    text, blocks = said(item.event)
    if item.data.get("redacted") is True:
        return ""
    # A user who is not public is the runtime itself, speaking to the model in the user's place.
    told = str(item.event.get("role") or "system")
    role = "thought" if item.kind == "thought" else "internal" if told == "user" else told
    return _folded(role, text, "", fenced(text) + _others(blocks))


def _note(item: Item) -> str:
    told = {key: value for key, value in item.data.items() if key != "kind"}
    text = next((value for value in told.values() if isinstance(value, str)), "")
    body = fenced(as_text(told), "json") if told else ""
    return _folded(
        str(item.data.get("kind") or item.event.get("type") or "note").replace("_", " "),
        text,
        "",
        body,
    )


def _call(item: Item, whole: Gathered) -> str:
    row = row_of(item)
    body = ""
    if row.changes:
        for change in row.changes:
            lines = "\n".join(_SIGNS[line.mark] + line.text for line in change.lines)
            body += f"{words(change.path)}\n\n{fenced(lines, 'diff')}"
    elif row.kind == "shell" and word(row.arguments, COMMANDS):
        body += fenced(word(row.arguments, COMMANDS), "sh")
    elif row.arguments:
        body += fenced(as_text(row.arguments), "json")
    body += "".join(_item(inner, whole) for inner in item.inside)
    if row.output.strip():
        body += fenced(without_colours(row.output))
    body += "" if row.missing else _others(row.blocks)
    return _folded(row.verb, whole.near(row.target), " · ".join(row.outcome), body)


def _others(blocks: list[Any]) -> str:
    made = []
    for block in blocks:
        if isinstance(block, dict) and "base64" in block:
            made.append(
                f"\n\n({words(str(block.get('media_type') or 'a file'))}, not shown here)\n"
            )
        else:
            made.append("\n\n" + fenced(as_text(block), "json"))
    return "".join(made)


def _folded(verb: str, target: str, outcome: str, body: str) -> str:
    """Tags of ours around what can be opened; the summary is HTML, so it is escaped as such."""
    head = " · ".join(part for part in (_plain(target), _plain(outcome)) if part)
    line = f"<b>{_plain(verb)}</b> {head}".rstrip()
    return f"<details><summary>{line}</summary>\n\n{body.strip(chr(10))}\n\n</details>\n\n"


def _plain(text: str) -> str:
    return attribute(one_line(plain(text)[:2000], 120)).replace("`", "&#96;").replace("@", "&#64;")
