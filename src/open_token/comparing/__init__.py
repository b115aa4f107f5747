"""Where two runs part: steps are aligned by what they do, ids and times do not count, and the first
parting is told."""

from collections.abc import Sequence

from open_token.comparing.aligning import aligned
from open_token.comparing.judging import EQUAL, first_difference, parting_of, rows_of
from open_token.comparing.keys import Rules, give_keys, shown_face_of
from open_token.comparing.report import Difference
from open_token.comparing.sentence import sentence
from open_token.comparing.shell import spoken
from open_token.comparing.steps import Run
from open_token.errors import UsageError

LEVELS = ("semantic", "exact")


def compare(
    a: Run, b: Run, *, names: tuple[str, str], level: str, ignore: Sequence[str] = ()
) -> Difference:
    """Compare two runs; `ignore` are JSON pointers into a step, `*` for any name."""
    ignored = tuple(pointer(text) for text in ignore)
    notes: list[str] = []
    _share_folder(a, b)
    _share_folder(b, a)
    by_type = not _marks_agree(a, b)
    translated = frozenset() if level == "exact" else _translated(a, b, notes)
    rules = Rules(level == "exact", ignored, by_type, translated)
    marks = give_keys(a, rules), give_keys(b, rules)
    if all(marks) and by_type:
        notes.append(
            "masked values compare by their type alone: marks of two conversations cannot be told apart"
        )
    rows = rows_of(a.steps, b.steps, *aligned(a.steps, b.steps))
    made = Difference(level, (a, b), names, rows)
    made.faces = shown_face_of(a, rules), shown_face_of(b, rules)
    made.first, made.parting, made.notes = first_difference(rows), parting_of(rows), notes
    made.sentence = sentence(made)
    return made


def check_level(level: str) -> None:
    """Refuse a level that there is not."""
    if level not in LEVELS:
        raise UsageError(f"there is no level '{level[:60]}'", help=f"it takes {', '.join(LEVELS)}")


def pointer(text: str) -> tuple[str, ...]:
    """A JSON pointer in its parts."""
    if not text.startswith("/") or len(text) > 1000:
        raise UsageError(
            "this is no JSON pointer into a step",
            where=text[:60],
            help="write it as /arguments/timeout, /result or /arguments/*/id",
        )
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def _share_folder(run: Run, other: Run) -> None:
    """See a run from the other's folder when that is the only one it names: it was handed over, or
    tells no folder."""
    if (
        run.cwd != other.cwd
        and other.cwd
        and not (run.cwd and run.names(run.cwd))
        and run.names(other.cwd)
    ):
        run.see_from(other.cwd)


def _marks_agree(a: Run, b: Run) -> bool:
    """Whether equal values have equal marks: within one conversation, or under the key of a
    team."""
    one, other = a.conversation, b.conversation
    ways = {str((run.conversation.get("redaction") or {}).get("strategy")) for run in (a, b)}
    return (one.get("id") is not None and one.get("id") == other.get("id")) or ways == {"hash"}


def _translated(a: Run, b: Run, notes: list[str]) -> frozenset[str]:
    """The deeds for which the runs have no tool in common; runs of two runtimes lose what only a
    runtime says."""
    tools = [{step.tool for step in run.steps if step.kind == "call"} for run in (a, b)]
    if all(tools) and not tools[0] & tools[1]:
        _set_aside(a, b, notes)
        _hear_shells(a, b)
    deeds = [
        {step.deed.name: set[str]() for step in run.steps if step.deed.known} for run in (a, b)
    ]
    for run, known in zip((a, b), deeds, strict=True):
        for step in run.steps:
            if step.deed.known:
                known[step.deed.name].add(step.tool)
    shared = deeds[0].keys() & deeds[1].keys()
    made = frozenset(deed for deed in shared if not deeds[0][deed] & deeds[1][deed])
    if made:
        notes.append(f"tools of different names compare by what they do: {', '.join(sorted(made))}")
    return made


def _set_aside(a: Run, b: Run, notes: list[str]) -> None:
    """Take out the prompts and reminders of the runtimes: those of two never match, and hide where
    the runs part."""
    counts = []
    for run in (a, b):
        kept = [step for step in run.steps if not step.is_setting]
        counts.append(len(run.steps) - len(kept))
        run.steps[:] = kept
        for number, step in enumerate(kept, 1):
            step.number = number
    if any(counts):
        notes.append(
            f"runs of two runtimes: prompts and reminders of their own are left out ({counts[0]} and {counts[1]})"
        )


def _hear_shells(a: Run, b: Run) -> None:
    """Take what agents say in a shell for what it does: the other agent may have a tool for it."""
    for run in (a, b):
        for step in run.steps:
            if step.deed.name == "run":
                step.deed = spoken(step.deed, run.cwd)


__all__ = ["EQUAL", "LEVELS", "Difference", "check_level", "compare", "pointer"]
