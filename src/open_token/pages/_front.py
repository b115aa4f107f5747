"""What stands around the conversation: its facts and honest marks, the bar of controls, the
outline, the keys."""

from datetime import UTC, datetime

from open_token.model.document import Integrity, Record
from open_token.pages._escaped import attribute, escaped, one_line
from open_token.pages._gathered import Gathered
from open_token.pages._strip import strip
from open_token.pages.rows import duration, plural

_MODELS, _FILES, _EDITS, _NOTES = 4, 500, 30, 100
_KEYS = (
    ("j k", "next, previous event"), ("J K", "next, previous prompt"), ("e E", "next, previous failure"),
    ("Enter o", "open or close a row"), ("x", "open or close all of this prompt"), ("d", "open all differences"),
    ("f", "Brief, Full, All"), ("t", "thoughts on or off"), ("/ n N", "find, next hit, previous hit"),
    ("c y", "copy the link, the text of an event"), ("g g, G", "start, end"), ("m", "outline"),
    ("1-9", "go to a prompt"),
)  # fmt: skip
_PROVES = (
    "The hash is SHA-256 over the canonical bytes (RFC 8785) of the events that this page shows. Whoever has the JSON "
    "export of the same conversation with the same options can compare: the same hash means the same events, none "
    "changed, added or left out since. It does not say who made the export, nor that what the events tell is true. "
    "This page itself is not signed: the JSON export is what can be verified, with open-token verify."
)


def facts(record: Record, integrity: Integrity | None, whole: Gathered, title: str) -> str:
    """The head: what it is, how large, how long, and what of it is not there."""
    failed = f" ({len(whole.failures):,} failed)" if whole.failures else ""
    told = [
        *_models(record),
        plural(len(whole.turns), "prompt"),
        plural(whole.calls, "call") + failed,
        *(
            [duration(whole.ended - whole.began)]
            if whole.began and whole.ended and whole.ended > whole.began
            else []
        ),
        *([_date(whole.began)] if whole.began else []),
        *(
            [f"{max(size for *_, size in whole.context):,} tokens of context"]
            if whole.context
            else []
        ),
        *([f"{whole.tokens:,} tokens written"] if whole.tokens else []),
        *([f"${whole.cost:,.2f} by the log"] if whole.cost else []),
    ]
    line = "".join(f"<span>{escaped(words)}</span>" for words in told)
    marks = _files(whole) + _redactions(record) + _missing(record, whole) + _seal(integrity)
    return f'<h1 dir="auto">{escaped(title)}</h1><p class="meta">{line}</p><div class="marks">{marks}</div>'


def _models(record: Record) -> list[str]:
    names = [
        str(person.get("model") or person.get("name") or "")
        for person in record.participants
        if person.get("kind") == "model"
    ]
    known = [one_line(name, 40) for name in dict.fromkeys(names) if name]
    return known[:_MODELS] + (
        [f"{len(known) - _MODELS} more models"] if len(known) > _MODELS else []
    )


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%d %b %Y %H:%M UTC").lstrip("0")
    except (ValueError, OverflowError, OSError):
        return ""


def _mark(words: str, body: str) -> str:
    return f"<details><summary>{words}</summary><div>{body}</div></details>"


def _files(whole: Gathered) -> str:
    if not whole.files:
        return ""
    added = sum(edit[1] for edits in whole.files.values() for edit in edits)
    removed = sum(edit[2] for edits in whole.files.values() for edit in edits)
    rows = "".join(
        _file(whole.near(path), edits) for path, edits in list(whole.files.items())[:_FILES]
    )
    more = (
        f"<p>and {len(whole.files) - _FILES:,} more files</p>" if len(whole.files) > _FILES else ""
    )
    note = "<p>Counted from the edits that tools report; what commands of a shell changed is not counted.</p>"
    words = f'{plural(len(whole.files), "file")} changed <b class="plus">+{added:,}</b> <b class="minus">-{removed:,}</b>'
    return _mark(words, f'<div class="wide"><table>{rows}</table></div>{more}{note}')


def _file(path: str, edits: list[tuple[str, int, int]]) -> str:
    links = " ".join(
        f'<a href="#{attribute(name)}">+{added:,} -{removed:,}</a>'
        for name, added, removed in edits[:_EDITS]
    )
    more = f" and {len(edits) - _EDITS:,} more" if len(edits) > _EDITS else ""
    added, removed = sum(edit[1] for edit in edits), sum(edit[2] for edit in edits)
    return (
        f"<tr><td><code>{escaped(one_line(path))}</code></td><td>+{added:,}</td><td>-{removed:,}</td>"
        f"<td>{links}{more}</td></tr>"
    )


def _redactions(record: Record) -> str:
    about = record.conversation.get("redaction", {})
    notes = about.get("notes", []) if isinstance(about, dict) else []
    mode = one_line(str(about.get("mode") or "none"), 20) if isinstance(about, dict) else "none"
    items = "".join(f"<li>{escaped(one_line(str(note), 300))}</li>" for note in notes[:200])
    why = (
        "<p>Marks of the form [REDACTED:type:hash] stand for values that were taken out before this page was made; "
        "the page does not hold them.</p>"
        if mode != "none"
        else "<p>Nothing was looked for and nothing was taken out.</p>"
    )
    return _mark(f"redaction: {escaped(mode)}", f"{why}<ul>{items}</ul>" if items else why)


def _missing(record: Record, whole: Gathered) -> str:
    items = []
    if whole.missing:
        items.append(f"{plural(whole.missing, 'call')} without a recorded result")
    if whole.cut:
        items.append(f"{plural(whole.cut, 'event')} cut to fit max_bytes")
    for note in record.notes[:_NOTES]:
        times = f", {note.count:,} times" if note.count > 1 else ""
        items.append(f"{note.code}: {note.detail} ({note.place}{times})")
    if not items:
        return ""
    count = len(items) + len(record.notes[_NOTES:])
    items += [f"and {len(record.notes) - _NOTES:,} more"] if len(record.notes) > _NOTES else []
    listed = "".join(f"<li>{escaped(one_line(item, 300))}</li>" for item in items)
    return _mark(f"{plural(count, 'note')} on what is missing", f"<ul>{listed}</ul>")


def _seal(integrity: Integrity | None) -> str:
    if not integrity:
        return _mark(
            "not sealed", "<p>The export was made with integrity=none: nothing can be compared.</p>"
        )
    digest = one_line(str(integrity.get("events_hash") or ""), 64)
    told = (
        f"<p><code>sha256:{escaped(digest)}</code>, {integrity.get('event_count', 0):,} events</p>"
    )
    return _mark(
        f"sealed sha256:{escaped(digest[:8])}, what does this prove?", f"{told}<p>{_PROVES}</p>"
    )


def bar(whole: Gathered) -> str:
    """The controls, which the script shows, and the strip."""
    modes = "".join(
        f'<button type="button" data-do="{mode}" aria-pressed="{str(mode == "full").lower()}">{mode.title()}</button>'
        for mode in ("brief", "full", "all")
    )
    failures = (
        f'<button type="button" data-do="e">{len(whole.failures):,} failed</button>'
        if whole.failures
        else ""
    )
    thoughts = (
        '<button type="button" data-do="t" aria-pressed="true">Thoughts</button>'
        if whole.thoughts
        else ""
    )
    return (
        '<div class="bar"><div class="tools">'
        f'<span class="seg" role="group" aria-label="How much is shown">{modes}</span>'
        '<div role="search"><input type="search" id="ot-find" placeholder="Find  ( / )" aria-label="Find"></div>'
        f'<span id="ot-hits" aria-live="polite"></span>{thoughts}{failures}'
        '<button type="button" data-do="m" class="phone">Outline</button>'
        '<button type="button" data-do="theme">Light / dark</button>'
        '<button type="button" data-do="?">Keys ?</button></div>'
        f"{strip(whole)}</div>"
    )


def outline(whole: Gathered) -> str:
    """Prompts in order; where there are few, what the agent said itself gives the chapters."""
    items = _chapters(whole, 0)
    for number, turn in enumerate(whole.turns, 1):
        spent = [plural(turn.calls, "call")] if turn.calls else []
        spent += [f"{turn.failed:,} failed"] if turn.failed else []
        small = f"<small>{' · '.join(spent)}</small>" if spent else ""
        items.append(
            f'<li><a href="#{attribute(turn.id)}">{number}. {escaped(one_line(turn.title, 70))}{small}</a></li>'
        )
        items += _chapters(whole, number)
    if whole.more_chapters and len(whole.turns) < 3:
        items.append(f'<li class="sub">and {whole.more_chapters:,} more</li>')
    return f'<nav id="ot-outline" aria-label="Outline"><ol>{"".join(items)}</ol></nav>'


def _chapters(whole: Gathered, turn: int) -> list[str]:
    chapters = whole.chapters if len(whole.turns) < 3 else []
    return [
        f'<li class="sub"><a href="#{attribute(name)}">{escaped(words)}</a></li>'
        for number, name, words in chapters
        if number == turn
    ]


def foot(record: Record, integrity: Integrity | None, whole: Gathered) -> str:
    """The end: the keys, and what this page is."""
    keys = "".join(f"<dt>{key}</dt><dd>{words}</dd>" for key, words in _KEYS)
    when = f", exported {escaped(one_line(record.exported_at, 40))}" if record.exported_at else ""
    name = escaped(one_line(str(record.conversation.get("id") or ""), 120))
    return (
        f'<dialog id="ot-keys"><h2>Keys</h2><dl>{keys}</dl><form method="dialog"><button>Close</button></form></dialog>'
        f"<footer>Conversation <code>{name}</code>, {whole.events:,} events{when}. Made by Open-Token. "
        "This page is one file: it loads nothing and sends nothing.</footer>"
    )
