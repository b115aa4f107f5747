"""Comparison of two sessions: steps are aligned by what they do, regardless of ids and times."""

from collections.abc import Sequence

from open_token.comparison.actions import interpret_command
from open_token.comparison.alignment import align_steps
from open_token.comparison.divergence import (
    EQUAL,
    build_rows,
    find_divergence,
    find_first_difference,
)
from open_token.comparison.keys import ComparisonRules, assign_keys, build_display_projection
from open_token.comparison.report import Difference, write_sentence
from open_token.comparison.steps import Transcript
from open_token.errors import UsageError

LEVELS = ("semantic", "exact")


def compare(
    a: Transcript,
    b: Transcript,
    *,
    names: tuple[str, str],
    level: str,
    ignore: Sequence[str] = (),
) -> Difference:
    """Compare two sessions; `ignore` are JSON pointers into a step, `*` for any name."""
    ignored = tuple(parse_pointer(text) for text in ignore)
    notes: list[str] = []
    # Paths first: actions, keys and similarity are all computed from relative paths.
    _adopt_cwd(a, b)
    _adopt_cwd(b, a)
    markers_by_type = not _have_comparable_markers(a, b)
    translated: frozenset[str] = frozenset()
    if level != "exact":
        translated = _find_translated_actions(a, b, notes)
    rules = ComparisonRules(level == "exact", ignored, markers_by_type, translated)
    markers_a = assign_keys(a, rules)
    markers_b = assign_keys(b, rules)
    if markers_by_type and markers_a and markers_b:
        notes.append(
            "redacted values compare by type only: "
            "markers of two conversations cannot be matched by hash"
        )
    pairs, moved = align_steps(a.steps, b.steps)
    rows = build_rows(a.steps, b.steps, pairs, moved)
    difference = Difference(level, (a, b), names, rows)
    difference.projections = (
        build_display_projection(a, rules),
        build_display_projection(b, rules),
    )
    difference.first = find_first_difference(rows)
    difference.divergence = find_divergence(rows)
    difference.notes = notes
    difference.sentence = write_sentence(difference)
    return difference


def check_level(level: str) -> None:
    """Raise an error for an unknown level."""
    if level not in LEVELS:
        raise UsageError(f"unknown level '{level[:60]}'", help=f"use {' or '.join(LEVELS)}")


def parse_pointer(text: str) -> tuple[str, ...]:
    """Parse a JSON pointer."""
    if not text.startswith("/") or len(text) > 1000:
        raise UsageError(
            "not a JSON pointer into a step",
            where=text[:60],
            help="write it as /arguments/timeout, /result or /arguments/*/id",
        )
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def _adopt_cwd(transcript: Transcript, other: Transcript) -> None:
    """Use the working directory of the other session where this one mentions only that.

    It was handed over from there, or its format does not record a working directory.
    """
    if not other.cwd or transcript.cwd == other.cwd:
        return
    if transcript.cwd and transcript.mentions(transcript.cwd):
        return
    if transcript.mentions(other.cwd):
        transcript.set_cwd(other.cwd)


def _have_comparable_markers(a: Transcript, b: Transcript) -> bool:
    """Return whether equal values have equal markers: one conversation, or a shared key."""
    conversation_id = a.conversation.get("id")
    if conversation_id is not None and conversation_id == b.conversation.get("id"):
        return True
    strategies = [
        str((transcript.conversation.get("redaction") or {}).get("strategy"))
        for transcript in (a, b)
    ]
    return strategies == ["hash", "hash"]


def _find_translated_actions(a: Transcript, b: Transcript, notes: list[str]) -> frozenset[str]:
    """Return the actions for which the sessions have no tool in common.

    Sessions of two runtimes are also prepared: prompts of the runtimes are dropped, and simple
    shell commands count as what they do.
    """
    tools_a = {step.tool for step in a.steps if step.kind == "call"}
    tools_b = {step.tool for step in b.steps if step.kind == "call"}
    if tools_a and tools_b and not tools_a & tools_b:
        _drop_runtime_prompts(a, b, notes)
        _interpret_commands(a)
        _interpret_commands(b)
    by_action_a = _group_tools(a)
    by_action_b = _group_tools(b)
    translated = [
        action
        for action in sorted(by_action_a.keys() & by_action_b.keys())
        if not by_action_a[action] & by_action_b[action]
    ]
    if translated:
        notes.append(f"tools with different names compare by what they do: {', '.join(translated)}")
    return frozenset(translated)


def _group_tools(transcript: Transcript) -> dict[str, set[str]]:
    tools: dict[str, set[str]] = {}
    for step in transcript.steps:
        if step.action.known:
            tools.setdefault(step.action.name, set()).add(step.tool)
    return tools


def _drop_runtime_prompts(a: Transcript, b: Transcript, notes: list[str]) -> None:
    """Remove prompts and reminders of the runtimes: those of two runtimes never match."""
    counts: list[int] = []
    for transcript in (a, b):
        steps = [step for step in transcript.steps if not step.is_runtime_prompt]
        counts.append(len(transcript.steps) - len(steps))
        transcript.steps[:] = steps
        for number, step in enumerate(steps, 1):
            step.number = number
    if any(counts):
        notes.append(
            "sessions of two runtimes: their system prompts, reminders and reasoning "
            f"are not compared ({counts[0]} and {counts[1]})"
        )


def _interpret_commands(transcript: Transcript) -> None:
    for step in transcript.steps:
        if step.action.name == "run":
            step.action = interpret_command(step.action, transcript.cwd)


__all__ = ["EQUAL", "LEVELS", "Difference", "check_level", "compare", "parse_pointer"]
