"""HTML of each item of a conversation, with the height it takes while it is closed."""

import re
from typing import Any, NamedTuple

from open_token.jsontools.objects import get_data, get_link, omit_keys
from open_token.writers.escape import escape_attribute, escape_html, render_id, to_one_line
from open_token.writers.html.blocks import (
    is_image,
    render_blocks,
    render_media,
    render_text,
    render_value,
)
from open_token.writers.html.markdown import render_markdown
from open_token.writers.html.tool_bodies import render_reply, render_tool_body
from open_token.writers.overview import Overview, SpanUsage, get_prompt_title
from open_token.writers.rows import build_row, format_count, format_duration, split_content
from open_token.writers.timeline import Item

# Heights in pixels and characters per line, as page.css has them.
_LINE_HEIGHT = 25
_ROW_HEIGHT = 30
_LINE_LENGTH = 88
_MESSAGE_PADDING = 16

_MAX_PROMPT_LINES = 12
_MAX_PROMPT_LENGTH = 900
_FOLDED_PROMPT_LINES = 6
_FOLDED_PROMPT_LENGTH = 600

# Bytes of a prompt that is sure to fit into its heading: then it is not shown again.
_HEADING_BYTES_NARROW = 28
_HEADING_BYTES_WIDE = 64

# Nothing of this needs escaping.
_PLAIN_LABEL = re.compile(r"[\w :.-]*", re.ASCII)

_CALL_FIELDS = ("tool_name", "arguments", "native_call_id", "truncated")
_NOTE_TEXTS = ("text", "message", "detail", "summary", "reason")


class RenderedItem(NamedTuple):
    """The HTML of an item."""

    html: str
    height: float
    is_row: bool | None
    """Whether it belongs in a box with neighbouring rows; None where that does not matter."""
    is_injected: bool = False
    """Whether it is hidden until the reader asks for what the runtime wrote."""
    after: str = ""
    """What is shown below the row even while it is closed: images, the answer of a person."""


def render_item(item: Item, overview: Overview, last_answers: set[str]) -> RenderedItem:
    """Render one item with everything inside it."""
    if item.kind == "prompt":
        return _render_prompt(item)
    if item.kind == "command":
        return _render_command(item)
    if item.kind == "say":
        return _render_answer(item, last_answers)
    if item.kind in ("thought", "system"):
        return _render_aside(item)
    if item.kind == "note":
        return _render_note(item)
    if item.kind == "span":
        return _render_span(item, overview)
    return _render_call(item, overview)


def _estimate_height(text: str) -> float:
    lines = sum(1 + len(line) // _LINE_LENGTH for line in text.split("\n"))
    return _LINE_HEIGHT * lines + _MESSAGE_PADDING


def _get_id(item: Item) -> str:
    return str(item.event.get("id", ""))


def render_permalink(event_id: str, event: Any = None) -> str:
    """Render a link to an event, which shows its id and its time."""
    if not event_id:
        return ""
    ts = event.get("ts") if event else None
    time = f" {to_one_line(ts[11:19], 8)}" if isinstance(ts, str) else ""
    label = event_id[:40] + time
    if _PLAIN_LABEL.fullmatch(label) is None:
        label = escape_html(label)
    target = event_id
    if _PLAIN_LABEL.fullmatch(target) is None:
        target = escape_attribute(target)
    return f'<a class="perma" dir="ltr" href="#{target}">{label}</a>'


def render_truncation_note(event: Any) -> str:
    """Render how much of a text max_bytes removed, where it did."""
    data = get_data(event)
    if data.get("truncated") is not True:
        return ""
    details = ""
    length = data.get("original_length")
    if type(length) is int:
        remaining = len(split_content(event)[0])
        details = f": {remaining:,} of {length:,} characters are left"
    return f'<p class="facts"><mark>cut to fit{details}</mark></p>'


def _render_prompt(item: Item) -> RenderedItem:
    text, blocks = split_content(item.event)
    stripped = text.strip("\n")
    lines = stripped.split("\n")
    if len(lines) > _MAX_PROMPT_LINES or len(text) > _MAX_PROMPT_LENGTH:
        head = "\n".join(lines[:_FOLDED_PROMPT_LINES])[:_FOLDED_PROMPT_LENGTH]
        html = escape_html(head) + _render_rest(stripped[len(head) :])
        height = _estimate_height(head) + 40
    else:
        html = escape_html(stripped)
        height = _estimate_height(text)
    classes = "prompt"
    # A prompt of one short line is its own heading; it is not shown twice. Whether the heading
    # fits into one line depends on the window, which the style sheet decides by these classes.
    size = len(text.strip().encode("utf-8", "replace"))
    is_in_heading = not item.parent and get_prompt_title(text) == text.strip()
    if is_in_heading and size <= _HEADING_BYTES_WIDE:
        classes = "prompt same"
        height = 0.0
        if size <= _HEADING_BYTES_NARROW:
            html = ""
    shown = f'<div class="{classes}" dir="auto">{html}</div>' if html else ""
    event_id = _get_id(item)
    return RenderedItem(
        f'<div class="ev ask"{render_id(event_id)}>{render_permalink(event_id, item.event)}{shown}'
        f"{render_truncation_note(item.event)}{render_blocks(blocks)}</div>",
        height,
        False,
    )


def _render_command(item: Item) -> RenderedItem:
    """Render a command that the person ran, and that the model did not answer."""
    text, blocks = split_content(item.event)
    body = render_text(text) + render_blocks(blocks) + render_value(item.facts)
    body += render_truncation_note(item.event)
    rendered = _render_details(item, "tool k-shell inj", "command", to_one_line(text), "", body)
    return rendered._replace(is_injected=True)


def _render_rest(rest: str) -> str:
    count = rest.count("\n") + 1
    if count > 1:
        size = f"{count:,} more lines"
    else:
        size = f"{len(rest):,} more characters"
    body = escape_html(rest.removeprefix("\n"))
    return f'<details class="more"><summary>show {size}</summary>{body}</details>'


def _render_answer(item: Item, last_answers: set[str]) -> RenderedItem:
    text, blocks = split_content(item.event)
    event_id = _get_id(item)
    is_last = event_id in last_answers or item.parent is not None
    classes = "ev say" if is_last else "ev say mid"
    return RenderedItem(
        f'<div class="{classes}" dir="auto"{render_id(event_id)}>'
        f"{render_permalink(event_id, item.event)}{render_markdown(text)}"
        f"{render_truncation_note(item.event)}{render_blocks(blocks)}</div>",
        _estimate_height(text),
        False,
    )


def _render_aside(item: Item) -> RenderedItem:
    """Render reasoning or a system message, folded."""
    text, blocks = split_content(item.event)
    data = item.data
    if data.get("redacted") is True:
        text = ""
        blocks = []
        is_encrypted = data.get("encrypted") is True
        if is_encrypted:
            summary = "hidden by the provider"
        else:
            summary = "removed by internal=redacted"
    else:
        summary = to_one_line(text) or "(no text)"
    facts: list[str] = []
    if "summary" in data:
        facts.append("a summary")
    lines = text.count("\n") + 1
    if lines > 1:
        facts.append(f"{lines:,} lines")
    if item.kind == "thought":
        verb = "thought"
        classes = "think"
        body = f'<div dir="auto">{render_markdown(text)}</div>'
    else:
        role = str(item.event.get("role") or "system")
        # The runtime wrote a message of the user role that is not public.
        verb = "internal" if role == "user" else to_one_line(role, 20)
        classes = "sys inj"
        body = render_text(text) if text else ""
    body += render_blocks(blocks) + render_truncation_note(item.event)
    rendered = _render_details(item, classes, verb, summary, " · ".join(facts), body)
    return rendered._replace(is_injected=item.kind != "thought")


def _render_note(item: Item) -> RenderedItem:
    data = dict(item.data)
    kind = str(data.pop("kind", "") or item.event.get("type") or "note")
    kind = to_one_line(kind, 40)
    if kind == "native":
        # The source itself is no part of the page, but a link to its event must lead somewhere.
        return RenderedItem(f"<span{render_id(_get_id(item))}></span>", 0, None)
    text = next((data[name] for name in _NOTE_TEXTS if name in data), "")
    summary = to_one_line(text) if isinstance(text, str) else ""
    verb = kind.replace("_", " ")
    body = render_value(data)
    if item.is_machine_note:
        rendered = _render_details(item, "note quiet", verb, summary, "", body)
        return RenderedItem(rendered.html, 0, None)
    return _render_details(item, "note", verb, summary, "", body)


def _render_call(item: Item, overview: Overview) -> RenderedItem:
    row = build_row(item)
    outcome = list(row.outcome)
    # What the call or the facts of its result say already is not repeated.
    known = {**(row.arguments if isinstance(row.arguments, dict) else {}), **item.facts}
    about = {key: value for key, value in item.about.items() if known.get(key) != value}
    inner = render_value(omit_keys(about, "kind"))
    if item.children:
        steps = _count_steps(item)
        outcome.insert(0, steps)
        inner += f'<h3>{steps}</h3><div class="run">{_render_children(item, overview)}</div>'
    images = "".join(render_media(block) for block in row.blocks if is_image(block))
    row.blocks = [block for block in row.blocks if not is_image(block)]
    body = render_tool_body(row, inner)
    if item.kind == "call":
        extra = omit_keys(item.data, *_CALL_FIELDS)
        body += render_value(extra)
    if item.facts:
        facts = " · ".join(f"{name} {value}" for name, value in item.facts.items())
        body += f'<p class="facts">{escape_html(facts)}</p>'
    body += render_truncation_note(item.event)
    if item.result is not None:
        body += render_truncation_note(item.result)
    classes = f"tool k-{row.kind or 'other'}"
    if row.failed:
        classes += " bad"
    if row.missing:
        classes += " gone"
    # Tools of MCP servers are called `mcp__server__tool`.
    short_name = row.verb.rpartition("__")[2]
    verb = to_one_line(short_name or row.verb, 40)
    target = overview.shorten_paths(row.target)
    rendered = _render_details(item, classes, verb, target, " · ".join(outcome), body)
    after = render_reply(row)
    if images:
        after = f'<div class="shots">{images}</div>{after}'
    if item.parent is not None:
        # Inside a subagent the row is one of a list already.
        return rendered._replace(html=rendered.html + after)
    return rendered._replace(after=after)


def _render_children(item: Item, overview: Overview) -> str:
    return "".join(render_item(child, overview, set()).html for child in item.children)


def _count_steps(item: Item) -> str:
    calls = sum(child.kind in ("call", "result") for child in item.children)
    return format_count(calls, "step")


def _render_span(item: Item, overview: Overview) -> RenderedItem:
    data = item.data
    kind = to_one_line(str(data.get("kind") or "span"), 30).replace("_", " ")
    reason = ""
    for name in ("spawn_reason", "description", "subagent_type", "branch"):
        if data.get(name):
            reason = str(data[name])
            break
    outcome: list[str] = []
    if item.children:
        outcome.append(_count_steps(item))
    usage = overview.spans.get(get_link(item.event, "span_id"), SpanUsage())
    if usage.tokens:
        outcome.append(f"{usage.tokens:,} tok")
    if usage.began and usage.ended:
        outcome.append(format_duration(usage.ended - usage.began))
    body = render_value(omit_keys({**data, **item.about}, "kind"))
    body += f'<div class="run">{_render_children(item, overview)}</div>'
    return _render_details(item, "span", kind, to_one_line(reason), " · ".join(outcome), body)


def _render_details(
    item: Item, classes: str, verb: str, target: str, outcome: str, body: str
) -> RenderedItem:
    """Render a row that opens to its body; the ids of all its events are in there."""
    other_ids = [item.facts_id, *item.span_event_ids]
    if item.result is not None and item.result is not item.event:
        other_ids.insert(0, str(item.result.get("id", "")))
    links = "".join(
        f"<span{render_id(event_id)}>{render_permalink(event_id)}</span> "
        for event_id in other_ids
        if event_id
    )
    event_id = _get_id(item)
    html = (
        f'<details class="row {classes}"{render_id(event_id)}><summary>'
        f'<span class="k">{escape_html(verb)}</span> '
        f'<span class="w" dir="auto">{escape_html(target)}</span> '
        f'<span class="r">{escape_html(outcome)}</span></summary>'
        f'<div class="body">{body}'
        f'<p class="ids">{render_permalink(event_id, item.event)} {links}</p></div></details>'
    )
    return RenderedItem(html, _ROW_HEIGHT, True)
