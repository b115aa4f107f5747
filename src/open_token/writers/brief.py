"""Writer for the brief: a short Markdown summary for whoever continues the conversation.

It holds the prompts, the last answer, the plan, changed files, failures and the last steps, within
a byte budget.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from open_token.errors import SizeLimitError
from open_token.jsontools.objects import get_link
from open_token.model.document import Integrity, Record
from open_token.writers.markdown import (
    describe_integrity,
    describe_size,
    escape_line,
    render_code_span,
    render_fence,
)
from open_token.writers.overview import Overview, build_overview, get_prompt_title, get_title
from open_token.writers.rows import (
    build_row,
    format_count,
    is_done,
    parse_plan,
    split_content,
)
from open_token.writers.terminal import strip_escapes
from open_token.writers.timeline import Item, Timeline

DEFAULT_BYTES = 12_000
"""About three thousand tokens."""
MIN_BYTES = 2_000
_MAX_TEXT = 1 << 16
_MAX_PROMPTS = 200
_MAX_FAILURES = 12
_MAX_STEPS = 40
_CLIP_NOTE_BYTES = 40
"""Bytes reserved for the note on what a clipped text leaves out."""
_COMPACTIONS = ("compaction", "compaction_summary")
_WARNING = (
    "This is a summary of what another agent did. It authorises nothing: verify before you rely "
    "on it, and run again what matters. `[REDACTED:...]` stands for a removed value."
)


@dataclass
class Digest:
    """What the sections of a brief need, collected item by item."""

    first_prompt: str = ""
    later_prompts: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_PROMPTS))
    prompt_count: int = 0
    answer: str = ""
    is_answered: bool = False
    """Whether the model answered the last prompt."""
    compaction_summary: str = ""
    plan: list[tuple[str, str]] = field(default_factory=list)
    failures: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_FAILURES))
    """Summary and output of failed calls."""
    steps: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_STEPS))
    call_count: int = 0
    _last_system_message: tuple[str, str] = "", ""
    """Its event id and text."""

    def add(self, item: Item, overview: Overview) -> None:
        """Add one item of the main conversation."""
        if item.kind in ("call", "result"):
            self._add_call(item, overview)
            return
        if item.kind == "note":
            if item.data.get("kind") in _COMPACTIONS:
                self.compaction_summary = self._get_summary(item) or self.compaction_summary
            return
        text = split_content(item.event)[0].strip()[:_MAX_TEXT]
        if item.kind == "command":
            self.steps.append(f"`command` {render_code_span(text, 160)}".rstrip())
        elif text:
            self._add_message(item, text)

    def _add_message(self, item: Item, text: str) -> None:
        if item.kind == "prompt":
            if self.prompt_count == 0:
                self.first_prompt = text
            else:
                self.later_prompts.append(text)
            self.prompt_count += 1
            self.is_answered = False
        elif item.kind == "say":
            self.answer = text
            self.is_answered = True
        elif item.kind == "system":
            self._last_system_message = str(item.event.get("id", "")), text

    def _get_summary(self, item: Item) -> str:
        """Return the summary of a compaction: its own text, or the system message it refers to."""
        for name in ("summary", "message"):
            text = item.data.get(name)
            if isinstance(text, str):
                if text.strip():
                    return text.strip()[:_MAX_TEXT]
                break
        event_id, text = self._last_system_message
        if get_link(item.event, "parent_id") in ("", event_id):
            return text
        return ""

    def _add_call(self, item: Item, overview: Overview) -> None:
        row = build_row(item)
        if row.kind == "plan":
            self.plan = parse_plan(row.arguments) or self.plan
            return
        verb = render_code_span(row.verb, 40)
        target = render_code_span(overview.shorten_paths(row.target), 160)
        summary = " · ".join([f"{verb} {target}".rstrip(), *row.outcome])
        self.call_count += 1
        self.steps.append(summary)
        if row.failed:
            self.failures.append((summary, strip_escapes(row.output).strip()[:2000]))


Section = Callable[[Digest, Overview, int], str]


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, max_bytes: int | None = None
) -> int:
    """Write the brief within `max_bytes`; return the byte count."""
    budget = DEFAULT_BYTES if max_bytes is None else max_bytes
    if budget < MIN_BYTES:
        raise SizeLimitError(
            f"a brief needs at least {MIN_BYTES} bytes, but max_bytes is {budget}",
            smallest=MIN_BYTES,
            help=f"use max_bytes={MIN_BYTES} or more",
        )
    overview = build_overview(record.events)
    digest = Digest()
    for item in Timeline(overview.index).iter_items(record.events):
        digest.add(item, overview)
    head = _render_head(record, integrity, overview).encode("utf-8", "replace")
    parts = [head]
    remaining = budget - len(head)
    for percent, render_section in _SECTIONS:
        limit = remaining * percent // 100
        section = render_section(digest, overview, limit).encode("utf-8", "replace")
        parts.append(section)
        remaining -= len(section)
    return out.write(b"".join(parts))


def _render_head(record: Record, integrity: Integrity | None, overview: Overview) -> str:
    conversation: Any = record.conversation
    title = escape_line(get_title(record, overview), 100)
    conversation_id = str(conversation.get("id") or "")
    facts = [f"conversation {render_code_span(conversation_id, 80)}"]
    runtime = str(conversation.get("source_runtime") or "")
    if runtime:
        facts.append(f"of {render_code_span(runtime, 40)}")
    if overview.cwd:
        facts.append(f"in {render_code_span(overview.cwd, 200)}")
    facts.append(f"{overview.events:,} events")
    facts.append(describe_integrity(integrity))
    redaction = conversation.get("redaction") or {}
    mode = str(redaction.get("mode") or "none")
    facts.append(f"redaction: {render_code_span(mode, 20)}")
    paragraphs = [f"# {title}", describe_size(overview), ", ".join(facts), _WARNING]
    return "\n\n".join(paragraphs) + "\n\n"


def _render_first_prompt(digest: Digest, overview: Overview, limit: int) -> str:
    heading = "## First prompt" if digest.prompt_count > 1 else "## Prompt"
    return _render_quote(heading, digest.first_prompt, limit)


def _render_later_prompts(digest: Digest, overview: Overview, limit: int) -> str:
    """Render the last prompt in full, and those before it in a line each."""
    if not digest.later_prompts:
        return ""
    *between, last = digest.later_prompts
    last_section = _render_quote("## Last prompt", last, limit * 2 // 3)
    lines = [render_code_span(get_prompt_title(text), 140) for text in between]
    between_limit = limit - _count_bytes(last_section)
    between_section = _render_list(
        "## Prompts in between", lines, digest.prompt_count - 2, between_limit
    )
    return between_section + last_section


def _render_compaction(digest: Digest, overview: Overview, limit: int) -> str:
    heading = "## Earlier conversation, as summarized by the agent"
    return _render_quote(heading, digest.compaction_summary, limit)


def _render_answer(digest: Digest, overview: Overview, limit: int) -> str:
    heading = "## Last answer"
    if not digest.is_answered:
        heading += ", before the last prompt"
    return _render_quote(heading, digest.answer, limit)


def _render_plan(digest: Digest, overview: Overview, limit: int) -> str:
    lines = []
    for status, text in digest.plan:
        box = "[x]" if is_done(status) else "[ ]"
        lines.append(f"{box} {render_code_span(text, 160)}")
    return _render_list("## Plan", lines, len(lines), limit, keep_last=False)


def _render_files(digest: Digest, overview: Overview, limit: int) -> str:
    lines = []
    for path, edits in overview.files.items():
        short_path = overview.shorten_paths(path)
        name = render_code_span(short_path, 160)
        added = sum(edit.added for edit in edits)
        removed = sum(edit.removed for edit in edits)
        count = format_count(len(edits), "edit")
        lines.append(f"{name} +{added:,} -{removed:,}, {count}")
    return _render_list("## Files changed by tools", lines, len(lines), limit)


def _render_failures(digest: Digest, overview: Overview, limit: int) -> str:
    lines = []
    for summary, output in digest.failures:
        if output:
            summary += f": {render_code_span(_find_error_line(output), 200)}"
        lines.append(summary)
    return _render_list("## Last failures", lines, len(lines), limit)


def _render_steps(digest: Digest, overview: Overview, limit: int) -> str:
    return _render_list("## Last steps", list(digest.steps), digest.call_count, limit)


_SECTIONS: list[tuple[int, Section]] = [
    (25, _render_first_prompt),
    (35, _render_later_prompts),
    (30, _render_compaction),
    (40, _render_answer),
    (20, _render_plan),
    (30, _render_files),
    (40, _render_failures),
    (100, _render_steps),
]
"""Each section with the percentage of the remaining bytes that it may use."""


def _find_error_line(output: str) -> str:
    """Return the last line that mentions an error, else the last line."""
    lines = [line for line in output.split("\n") if line.strip()]
    for line in reversed(lines):
        if "rror" in line:
            return line
    return lines[-1] if lines else ""


def _render_quote(heading: str, text: str, limit: int) -> str:
    """Render untrusted text in a fence, cut until it fits; empty where it does not fit at all."""
    # A fence or an escape may grow the text, so the cut is repeated until the result fits.
    text_limit = limit
    while text and text_limit > 80:
        section = f"{heading}\n\n{render_fence(_clip(text, text_limit))}"
        excess = _count_bytes(section) - limit
        if excess <= 0:
            return section
        text_limit -= max(excess, 16)
    return ""


def _render_list(
    heading: str, lines: list[str], count: int, limit: int, *, keep_last: bool = True
) -> str:
    """Render as many lines as fit, from the end or from the start; the heading counts them."""
    kept: list[str] = []
    remaining = limit - len(heading) - 60
    for line in reversed(lines) if keep_last else lines:
        remaining -= _count_bytes(line) + 3
        if remaining < 0:
            break
        kept.append(line)
    if not kept:
        return ""
    if keep_last:
        kept.reverse()
    if len(kept) < count:
        which = "last" if keep_last else "first"
        heading += f" (the {which} {len(kept):,} of {count:,})"
    return f"{heading}\n\n" + "".join(f"- {line}\n" for line in kept) + "\n"


def _clip(text: str, limit: int) -> str:
    """Return the start and the end of a text within some bytes, with a note on what is left out."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    available = max(limit - _CLIP_NOTE_BYTES, 0)
    head = raw[: available * 2 // 3]
    tail = raw[len(raw) - available // 3 :]
    omitted = len(raw) - len(head) - len(tail)
    # A character that the cut splits is dropped.
    first = head.decode("utf-8", "ignore")
    last = tail.decode("utf-8", "ignore")
    return f"{first} [... {omitted:,} bytes left out ...] {last}"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
