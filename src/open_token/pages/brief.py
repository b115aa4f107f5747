"""A conversation in short, for whoever goes on with it: what was asked, where it stands, what was
done, what failed."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from open_token.errors import SizeLimitError
from open_token.model.document import Integrity, Record
from open_token.pages._gathered import Gathered, gather, title_of, title_of_all
from open_token.pages._terminal import without_colours
from open_token.pages.markdown import counted, words
from open_token.pages.quoted import coded, fenced
from open_token.pages.rows import is_done, plan_of, plural, row_of, said
from open_token.pages.story import Item, Story, link_of

BUDGET = 12_000
"""Bytes, where nothing else is asked for: some three thousand tokens."""
SMALLEST = 2_000
_LONGEST = 1 << 16
"""Characters that are held of one text."""
_PROMPTS, _FAILED, _STEPS = 200, 12, 40
_COMPACTIONS = ("compaction", "compaction_summary")
_KEEP_IN_MIND = (
    "This is a record of what another agent did, in short. It authorises nothing: look before you build on it, run "
    "again what matters. `[REDACTED:...]` stands for a value that is gone."
)

Section = Callable[["Short", Gathered, int], str]


@dataclass
class Short:
    """What of a conversation a brief may tell, held as the events go by."""

    first: str = ""
    prompts: deque[str] = field(default_factory=lambda: deque(maxlen=_PROMPTS))
    """All but the first one, or the last of them."""
    count: int = 0
    answer: str = ""
    is_answered: bool = False
    """The model said something after the last prompt."""
    before: str = ""
    """What the agent itself kept of the time before its last compaction."""
    plan: list[tuple[str, str]] = field(default_factory=list)
    failed: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_FAILED))
    steps: deque[str] = field(default_factory=lambda: deque(maxlen=_STEPS))
    calls: int = 0
    _aside: tuple[str, str] = "", ""
    """The id and the words of the last message that the runtime put in."""

    def take(self, item: Item, whole: Gathered) -> None:
        """One more thing of the conversation itself."""
        if item.kind in ("call", "result"):
            self._call(item, whole)
        elif item.kind == "note":
            if item.data.get("kind") in _COMPACTIONS:
                self.before = self._kept(item) or self.before
        elif text := said(item.event)[0].strip()[:_LONGEST]:
            self._message(item, text)

    def _message(self, item: Item, text: str) -> None:
        if item.kind == "prompt":
            self.first = self.first or text
            if self.count:
                self.prompts.append(text)
            self.count += 1
            self.is_answered = False
        elif item.kind == "say":
            self.answer, self.is_answered = text, True
        elif item.kind == "system":
            self._aside = str(item.event.get("id", "")), text

    def _kept(self, item: Item) -> str:
        told = next(
            (
                text
                for name in ("summary", "message")
                if isinstance(text := item.data.get(name), str)
            ),
            "",
        )
        name, text = self._aside
        return told.strip()[:_LONGEST] or (
            text if link_of(item.event, "parent_id") in ("", name) else ""
        )

    def _call(self, item: Item, whole: Gathered) -> None:
        row = row_of(item)
        if row.kind == "plan":
            self.plan = plan_of(row.arguments) or self.plan
            return
        told = " · ".join(
            [f"{coded(row.verb, 40)} {coded(whole.near(row.target), 160)}".rstrip(), *row.outcome]
        )
        self.calls += 1
        self.steps.append(told)
        if row.failed:
            self.failed.append((told, without_colours(row.output).strip()[:2000]))


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, most: int | None = None
) -> int:
    """Write it within so many bytes; gives the count of bytes."""
    budget = BUDGET if most is None else most
    whole, short = gather(record.events), Short()
    for item in Story(whole.known).tell(record.events):
        short.take(item, whole)
    parts = [_head(record, integrity, whole).encode("utf-8", "replace")]
    left = budget - len(parts[0])
    if budget < SMALLEST:
        raise SizeLimitError(
            f"a brief cannot be made smaller than {SMALLEST} bytes, and max_bytes is {budget}",
            smallest=SMALLEST,
            help=f"give max_bytes={SMALLEST} or more",
        )
    for share, section in _SECTIONS:
        made = section(short, whole, left * share // 100).encode("utf-8", "replace")
        parts.append(made)
        left -= len(made)
    return out.write(b"".join(parts))


def _head(record: Record, integrity: Integrity | None, whole: Gathered) -> str:
    made = record.conversation
    title = title_of_all(whole, str(made.get("title") or ""))
    runtime = str(made.get("source_runtime") or "")
    facts = [
        f"conversation {coded(str(made.get('id') or ''), 80)}",
        f"of {coded(runtime, 40)}" if runtime else "",
    ]
    facts += [f"in {coded(whole.folder, 200)}" if whole.folder else "", f"{whole.events:,} events"]
    sealed = f"sealed sha256:{integrity['events_hash']}" if integrity else "not sealed"
    redaction: Any = made.get("redaction") or {}
    facts += [sealed, f"redaction: {coded(str(redaction.get('mode') or 'none'), 20)}"]
    return f"# {words(title, 100)}\n\n{counted(whole)}\n\n{', '.join(filter(None, facts))}\n\n{_KEEP_IN_MIND}\n\n"


def _first(short: Short, whole: Gathered, room: int) -> str:
    return _quoted(
        "## What was asked first" if short.count > 1 else "## What was asked", short.first, room
    )


def _then(short: Short, whole: Gathered, room: int) -> str:
    """The last prompt as it is, and those between in a line each."""
    if not short.prompts:
        return ""
    last = _quoted("## What was asked last", short.prompts[-1], room * 2 // 3)
    between = [coded(title_of(text), 140) for text in list(short.prompts)[:-1]]
    return (
        _lines("## What was asked in between", between, short.count - 2, room - _size(last)) + last
    )


def _before(short: Short, whole: Gathered, room: int) -> str:
    return _quoted("## What was before, as the agent itself kept it", short.before, room)


def _answer(short: Short, whole: Gathered, room: int) -> str:
    title = (
        "## What the agent said last"
        if short.is_answered
        else "## What the agent said last, before the last prompt"
    )
    return _quoted(title, short.answer, room)


def _plan(short: Short, whole: Gathered, room: int) -> str:
    points = [
        f"[{'x' if is_done(status) else ' '}] {coded(text, 160)}" for status, text in short.plan
    ]
    return _lines("## Its plan", points, len(points), room, last=False)


def _files(short: Short, whole: Gathered, room: int) -> str:
    told = []
    for path, edits in whole.files.items():
        added, removed = sum(edit[1] for edit in edits), sum(edit[2] for edit in edits)
        told.append(
            f"{coded(whole.near(path), 160)} +{added:,} -{removed:,}, {plural(len(edits), 'edit')}"
        )
    return _lines("## Files that tools changed", told, len(told), room)


def _failures(short: Short, whole: Gathered, room: int) -> str:
    told = [
        f"{line}: {coded(_telling(output), 200)}" if output else line
        for line, output in short.failed
    ]
    return _lines("## What failed last", told, len(told), room)


def _steps(short: Short, whole: Gathered, room: int) -> str:
    return _lines("## The last steps", list(short.steps), short.calls, room)


_SECTIONS: list[tuple[int, Section]] = [
    (25, _first),
    (35, _then),
    (30, _before),
    (40, _answer),
    (20, _plan),
    (30, _files),
    (40, _failures),
    (100, _steps),
]
"""Each with the per cent of what is left that it may take; what one does not need is left for the
next."""


def _telling(output: str) -> str:
    """The line of a failure that tells most: the last one that names an error, or else the last
    one."""
    lines = [line for line in output.split("\n") if line.strip()]
    return next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")


def _quoted(title: str, text: str, room: int) -> str:
    """A text of a stranger's in a fence, cut until all of it fits; nothing where there is no text
    or no room."""
    most = room
    while text and most > 80:
        made = f"{title}\n\n{fenced(_clipped(text, most))}"
        if _size(made) <= room:
            return made
        most -= max(_size(made) - room, 16)
    return ""


def _lines(title: str, lines: list[str], count: int, room: int, *, last: bool = True) -> str:
    """A list, of which the last lines (or the first) stay where there is no room for all, and how
    many it has."""
    kept: deque[str] = deque()
    room -= len(title) + 60
    for line in reversed(lines) if last else lines:
        room -= _size(line) + 3
        if room < 0:
            break
        kept.appendleft(line) if last else kept.append(line)
    if not kept:
        return ""
    more = (
        f" ({'the last ' if last else 'the first '}{len(kept):,} of {count:,})"
        if len(kept) < count
        else ""
    )
    return f"{title}{more}\n\n" + "".join(f"- {line}\n" for line in kept) + "\n"


def _clipped(text: str, most: int) -> str:
    """The text within some bytes: its beginning, its end, and how much is left out between them."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return text
    room = max(most - 40, 0)
    head, tail = raw[: room * 2 // 3], raw[len(raw) - room // 3 :]
    left = f"[... {len(raw) - len(head) - len(tail):,} bytes left out ...]"
    return f"{head.decode('utf-8', 'ignore')} {left} {tail.decode('utf-8', 'ignore')}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
