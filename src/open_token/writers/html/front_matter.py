"""HTML around the conversation: header with its facts, toolbar, timeline strip, outline, footer."""

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from open_token.formats.definition import Agent
from open_token.model.document import Integrity, Record
from open_token.model.omissions import summarize_omissions
from open_token.registry import list_agents
from open_token.writers.escape import escape_attribute, escape_html, to_one_line
from open_token.writers.overview import FileEdit, Overview
from open_token.writers.rows import format_count, format_duration

_MAX_MODELS = 4
_MAX_FILES = 500
_MAX_EDITS = 30
_MAX_NOTES = 100
_MAX_REDACTION_NOTES = 200
_CHAPTER_TURNS = 3
"""With fewer prompts the outline also has messages of the model."""

_KEYS = (
    ("j k", "next, previous event"),
    ("J K", "next, previous prompt"),
    ("e E", "next, previous failure"),
    ("Enter o", "open or close a row"),
    ("x", "open or close all of this prompt"),
    ("d", "open all diffs"),
    ("f", "Brief, Full, All"),
    ("t", "thoughts on or off"),
    ("i", "injected messages on or off"),
    ("/ n N", "find, next match, previous match"),
    ("c y", "copy the link, the text of an event"),
    ("g g, G", "start, end"),
    ("m", "outline"),
    ("1-9", "go to a prompt"),
)
_INTEGRITY_HELP = (
    "The hash is SHA-256 over the canonical bytes (RFC 8785) of the events on this page. Whoever "
    "has the JSON export of the same conversation with the same options can compare: the same hash "
    "means the same events, none changed, added or removed since. The page also holds a hash of "
    "its own bytes: open-token verify tells whether it was changed. Neither says who made the "
    "export, nor that the events are true; for that, sign the JSON export."
)

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")

_STRIP_WIDTH = 1000
_STRIP_HEIGHT = 40
_STRIP_COLUMNS = 250
_MAX_TICKS = 400
_FAILURE_HEIGHT = 14


def render_header(
    record: Record, integrity: Integrity | None, overview: Overview, title: str
) -> str:
    """Render the title, the size of the conversation, and notes on what is missing in it."""
    facts = [*_describe_place(record, overview), *_describe_models(record)]
    facts.append(format_count(len(overview.turns), "prompt"))
    calls = format_count(overview.calls, "call")
    if overview.failures:
        calls += f" ({len(overview.failures):,} failed)"
    facts.append(calls)
    if overview.duration:
        facts.append(format_duration(overview.duration))
    if overview.began:
        facts.append(_format_date(overview.began))
    if overview.context:
        largest = max(tokens for _, _, tokens in overview.context)
        facts.append(f"{largest:,} tokens of context")
    facts += _describe_usage(overview)
    facts_line = "".join(f"<span>{escape_html(fact)}</span>" for fact in facts)
    details = (
        _render_files(overview)
        + _render_redaction(record)
        + _render_missing(record, overview)
        + _render_integrity(integrity)
    )
    return (
        f'<h1 dir="auto">{escape_html(title)}</h1><p class="meta">{facts_line}</p>'
        f"{_render_resume(record)}"
        f'<div class="marks">{details}</div>'
    )


def _find_agent(record: Record) -> Agent | None:
    """Return the agent whose session it is: by the reader, or in a document by a participant."""
    names = {
        participant.get("name")
        for participant in record.participants
        if participant.get("kind") == "system"
    }
    for agent in list_agents():
        if agent.name == record.reader or agent.title in names:
            return agent
    return None


def _describe_place(record: Record, overview: Overview) -> list[str]:
    agent = _find_agent(record)
    facts = [agent.title] if agent is not None else []
    if overview.cwd:
        facts.append(to_one_line(_find_folder_name(overview.cwd), 60))
    if overview.branch:
        facts.append("branch " + to_one_line(overview.branch, 60))
    return facts


def _find_folder_name(folder: str) -> str:
    """Return the last part of a path, which may be of another system than this one."""
    path = PureWindowsPath(folder)
    name = path.name if path.drive else PurePosixPath(folder).name
    return name or folder


def _describe_usage(overview: Overview) -> list[str]:
    facts: list[str] = []
    total = overview.input_tokens + overview.tokens
    if total:
        facts.append(f"{total:,} tokens, {overview.tokens:,} of them output")
    if overview.cached_tokens:
        share = overview.cached_tokens * 100 // max(1, overview.input_tokens)
        facts.append(f"{min(share, 100)} % of the input cached")
    if overview.cost:
        facts.append(f"${overview.cost:,.2f} according to the log")
    elif overview.estimated_cost:
        bound = "at least " if overview.has_unpriced_model else ""
        facts.append(f"{bound}${overview.estimated_cost:,.2f} estimated")
    return facts


def _render_resume(record: Record) -> str:
    """Render the command that resumes the session in its agent."""
    agent = _find_agent(record)
    session_id = str(record.conversation.get("id") or "")
    # What is copied to a shell must be a plain word.
    if agent is None or not agent.resume or not _PLAIN_ID.fullmatch(session_id):
        return ""
    command = escape_html(agent.resume.replace("{id}", session_id))
    return f'<p class="resume">resume with <code>{command}</code></p>'


def _describe_models(record: Record) -> list[str]:
    names: list[str] = []
    for participant in record.participants:
        if participant.get("kind") == "model":
            name = str(participant.get("model") or participant.get("name") or "")
            if name and name not in names:
                names.append(name)
    models = [to_one_line(name, 40) for name in names[:_MAX_MODELS]]
    if len(names) > _MAX_MODELS:
        models.append(f"{len(names) - _MAX_MODELS} more models")
    return models


def _format_date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%d %b %Y %H:%M UTC").lstrip("0")
    except (ValueError, OverflowError, OSError):
        return ""


def _render_details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary><div>{body}</div></details>"


def _render_files(overview: Overview) -> str:
    if not overview.files:
        return ""
    added, removed = overview.sum_edits()
    rows = "".join(
        _render_file(overview.shorten_paths(path), edits)
        for path, edits in list(overview.files.items())[:_MAX_FILES]
    )
    more = ""
    if len(overview.files) > _MAX_FILES:
        more = f"<p>and {len(overview.files) - _MAX_FILES:,} more files</p>"
    note = "<p>Counted from the edits of tools; changes by shell commands are not counted.</p>"
    summary = (
        f'{format_count(len(overview.files), "file")} changed <b class="plus">+{added:,}</b> '
        f'<b class="minus">-{removed:,}</b>'
    )
    return _render_details(summary, f'<div class="wide"><table>{rows}</table></div>{more}{note}')


def _render_file(path: str, edits: list[FileEdit]) -> str:
    links = " ".join(
        f'<a href="#{escape_attribute(edit.event_id)}">+{edit.added:,} -{edit.removed:,}</a>'
        for edit in edits[:_MAX_EDITS]
    )
    if len(edits) > _MAX_EDITS:
        links += f" and {len(edits) - _MAX_EDITS:,} more"
    added = sum(edit.added for edit in edits)
    removed = sum(edit.removed for edit in edits)
    return (
        f"<tr><td><code>{escape_html(to_one_line(path))}</code></td>"
        f"<td>+{added:,}</td><td>-{removed:,}</td><td>{links}</td></tr>"
    )


def _render_redaction(record: Record) -> str:
    redaction: Any = record.conversation.get("redaction", {})
    if not isinstance(redaction, dict):
        redaction = {}
    mode = to_one_line(str(redaction.get("mode") or "none"), 20)
    if mode == "none":
        body = "<p>Nothing was searched for and nothing was removed.</p>"
    else:
        body = (
            "<p>Markers of the form [REDACTED:type:hash] stand for values that were removed "
            "before this page was written; the page does not contain them.</p>"
        )
    notes = redaction.get("notes", [])[:_MAX_REDACTION_NOTES]
    if notes:
        items = [f"<li>{escape_html(to_one_line(str(note), 300))}</li>" for note in notes]
        body += f"<ul>{''.join(items)}</ul>"
    return _render_details(f"redaction: {escape_html(mode)}", body)


def _render_missing(record: Record, overview: Overview) -> str:
    items: list[str] = []
    if overview.missing_results:
        items.append(f"{format_count(overview.missing_results, 'call')} without a recorded result")
    if overview.truncated:
        items.append(f"{format_count(overview.truncated, 'event')} cut to fit max_bytes")
    omitted = summarize_omissions(record.notes)
    if omitted:
        items.append(f"omitted: {omitted}")
    for note in record.notes[:_MAX_NOTES]:
        times = f", {note.count:,} times" if note.count > 1 else ""
        items.append(f"{note.code}: {note.detail} ({note.place}{times})")
    if not items:
        return ""
    hidden = max(0, len(record.notes) - _MAX_NOTES)
    summary = f"{format_count(len(items) + hidden, 'note')} on what is missing"
    if hidden:
        items.append(f"and {hidden:,} more")
    listed = "".join(f"<li>{escape_html(to_one_line(item, 300))}</li>" for item in items)
    return _render_details(summary, f"<ul>{listed}</ul>")


def _render_integrity(integrity: Integrity | None) -> str:
    if not integrity:
        body = "<p>The export was made with integrity=none: there is no hash to compare.</p>"
        return _render_details("no integrity hash", body)
    digest = escape_html(to_one_line(str(integrity.get("events_hash") or ""), 64))
    count = integrity.get("event_count", 0)
    return _render_details(
        f"integrity sha256:{digest[:8]}, what does this prove?",
        f"<p><code>sha256:{digest}</code>, {count:,} events</p><p>{_INTEGRITY_HELP}</p>",
    )


def render_toolbar(overview: Overview) -> str:
    """Render the controls, which only the script shows, and the timeline strip."""
    modes = "".join(_render_mode_button(mode) for mode in ("brief", "full", "all"))
    failures = ""
    if overview.failures:
        label = f"{len(overview.failures):,} failed"
        failures = f'<button type="button" data-do="e">{label}</button>'
    thoughts = ""
    injected = ""
    if overview.injected:
        label = f"{overview.injected:,} injected"
        injected = (
            f'<button type="button" data-do="i" aria-pressed="false" title="what the runtime '
            f'wrote in the place of a person, and commands to it">{label}</button>'
        )
    if overview.thoughts:
        thoughts = '<button type="button" data-do="t" aria-pressed="true">Thoughts</button>'
    return (
        '<div class="bar"><div class="tools">'
        f'<span class="seg" role="group" aria-label="How much is shown">{modes}</span>'
        '<div role="search"><input type="search" id="ot-find" placeholder="Find  ( / )" '
        'aria-label="Find"></div>'
        f'<span id="ot-hits" aria-live="polite"></span>{thoughts}{injected}{failures}'
        '<button type="button" data-do="m" class="phone">Outline</button>'
        '<button type="button" data-do="theme">Light / dark</button>'
        '<button type="button" data-do="?">Keys ?</button></div>'
        f"{render_strip(overview)}</div>"
    )


def _render_mode_button(mode: str) -> str:
    pressed = "true" if mode == "full" else "false"
    return (
        f'<button type="button" data-do="{mode}" aria-pressed="{pressed}">{mode.title()}</button>'
    )


class _Scale:
    """Horizontal positions on the strip: by active time, or by event count without times."""

    def __init__(self, overview: Overview) -> None:
        self._active = overview.active
        self._events = max(1, overview.events)

    def get_x(self, seconds: float, position: int) -> int:
        if self._active:
            share = seconds / self._active
        else:
            share = position / self._events
        return round(min(1.0, share) * (_STRIP_WIDTH - 4))


def render_strip(overview: Overview) -> str:
    """Render context size over time as SVG, with links to prompts and failures as ticks."""
    scale = _Scale(overview)
    parts = [_render_context_area(overview, scale)]
    if overview.active:
        for seconds in overview.gaps[:_MAX_TICKS]:
            x = scale.get_x(seconds, 0)
            parts.append(f'<rect class="gap" x="{x}" y="0" width="2" height="{_STRIP_HEIGHT}"/>')
    for number, turn in enumerate(overview.turns[:_MAX_TICKS], 1):
        label = f"{number}. {turn.title[:80]}"
        parts.append(_render_tick("tick", scale.get_x(*turn.position), turn.id, label))
    for failure in overview.failures[:_MAX_TICKS]:
        x = scale.get_x(failure.seconds, failure.position)
        parts.append(_render_tick("fail", x, failure.event_id, f"{failure.tool} failed"))
    if overview.context:
        label = "context size over time"
    else:
        label = "course of the conversation"
    return (
        f'<svg viewBox="0 0 {_STRIP_WIDTH} {_STRIP_HEIGHT}" preserveAspectRatio="none" '
        f'role="group" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _render_tick(css_class: str, x: int, event_id: str, label: str) -> str:
    height = _STRIP_HEIGHT if css_class == "tick" else _FAILURE_HEIGHT
    escaped = escape_attribute(label)
    return (
        f'<a href="#{escape_attribute(event_id)}" aria-label="{escaped}"><title>{escaped}</title>'
        f'<rect class="{css_class}" x="{x}" y="{_STRIP_HEIGHT - height}" '
        f'width="3" height="{height}"/></a>'
    )


def _render_context_area(overview: Overview, scale: _Scale) -> str:
    """Render the context size as an area: the largest value in each column."""
    # One point a column, however long the conversation: the page must not grow with it.
    largest: dict[int, int] = {}
    for seconds, position, tokens in overview.context:
        x = scale.get_x(seconds, position)
        column = int(x * _STRIP_COLUMNS / _STRIP_WIDTH)
        largest[column] = max(largest.get(column, 0), tokens)
    top = max(largest.values(), default=0)
    if not top:
        y = _STRIP_HEIGHT - 3
        return f'<rect class="area" x="0" y="{y}" width="{_STRIP_WIDTH}" height="3"/>'
    points: list[str] = []
    for column in sorted(largest):
        share = largest[column] / top
        y = round(_STRIP_HEIGHT - share * (_STRIP_HEIGHT - 6))
        if not points:
            points += [f"0,{_STRIP_HEIGHT}", f"0,{y}"]
        left = column * _STRIP_WIDTH // _STRIP_COLUMNS
        points.append(f"{left},{y}")
    # The last value holds to the right edge; from there the area is closed along the bottom.
    points += [f"{_STRIP_WIDTH},{y}", f"{_STRIP_WIDTH},{_STRIP_HEIGHT}"]
    return f'<polygon class="area" points="{" ".join(points)}"/>'


def render_outline(overview: Overview) -> str:
    """Render the list of prompts; where they are few, with messages of the model as chapters."""
    # Many prompts are an outline already.
    has_chapters = len(overview.turns) < _CHAPTER_TURNS
    chapters: dict[int, list[str]] = {}
    if has_chapters:
        for chapter in overview.chapters:
            target = escape_attribute(chapter.event_id)
            title = escape_html(chapter.title)
            entry = f'<li class="sub"><a href="#{target}">{title}</a></li>'
            chapters.setdefault(chapter.turn, []).append(entry)
    items = chapters.get(0, [])
    for number, turn in enumerate(overview.turns, 1):
        facts: list[str] = []
        if turn.calls:
            facts.append(format_count(turn.calls, "call"))
        if turn.failed:
            facts.append(f"{turn.failed:,} failed")
        details = f"<small>{' · '.join(facts)}</small>" if facts else ""
        title = escape_html(to_one_line(turn.title, 70))
        items.append(
            f'<li><a href="#{escape_attribute(turn.id)}">{number}. {title}{details}</a></li>'
        )
        items += chapters.get(number, [])
    if overview.more_chapters and has_chapters:
        items.append(f'<li class="sub">and {overview.more_chapters:,} more</li>')
    return f'<nav id="ot-outline" aria-label="Outline"><ol>{"".join(items)}</ol></nav>'


def render_footer(record: Record, overview: Overview) -> str:
    """Render the list of keys, and what this page is."""
    keys = "".join(f"<dt>{key}</dt><dd>{label}</dd>" for key, label in _KEYS)
    exported = ""
    if record.exported_at:
        exported = f", exported {escape_html(to_one_line(record.exported_at, 40))}"
    conversation_id = escape_html(to_one_line(str(record.conversation.get("id") or ""), 120))
    return (
        f'<dialog id="ot-keys"><h2>Keys</h2><dl>{keys}</dl>'
        '<form method="dialog"><button>Close</button></form></dialog>'
        f"<footer>Conversation <code>{conversation_id}</code>, {overview.events:,} events"
        f"{exported}. Made by Open-Token. "
        "This page is one file: it loads nothing and sends nothing.</footer>"
    )
