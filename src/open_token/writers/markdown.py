"""Writer for GitHub-flavoured Markdown, safe to paste: text of the conversation is never markup.

Tags, images and links other than http are defused, also inside the prose of a message.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from open_token.agents.tools import COMMAND, find_text
from open_token.jsontools.objects import omit_keys
from open_token.model.document import Integrity, Record
from open_token.model.omissions import summarize_omissions
from open_token.writers.escape import escape_attribute, make_visible, to_one_line
from open_token.writers.html.blocks import format_value
from open_token.writers.overview import Overview, build_overview, get_title
from open_token.writers.rows import build_row, format_count, format_duration, split_content
from open_token.writers.terminal import strip_escapes
from open_token.writers.timeline import Item, Timeline

_MAX_NOTES = 100
# Characters with a meaning in Markdown or on GitHub. Inside a word an underscore has none.
_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~!&@]|(?<!\w)_|_(?!\w)")
# A line that begins or ends a code block: its indent, the fence, a language, anything else.
_FENCE = re.compile(r"( {0,12}|\t{0,3})(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([\w+#.-]{0,30})(.*)")
# Code in one or two backticks on one line. The limits keep the search linear.
_CODE_SPAN = re.compile(
    r"(?<!`)``(?!`)(?:[^`\n]|`(?!`)){1,2000}(?<!`)``(?!`)|(?<!`)`[^`\n]{1,2000}`(?!`)"
)
_BACKTICKS = re.compile("`+")
_OTHER_LINK = re.compile(r"\]\((?!https?://)")
# Images, definitions of links, tags, references, fences, and URLs that run code.
_ACTIVE = re.compile(
    r"!(?=\[)|\](?=:)|[<`&]|~{3,}|(?:javascript|data|vbscript|file):", re.IGNORECASE
)


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, max_bytes: int | None = None
) -> int:
    """Write the page; return the byte count. `max_bytes` was applied to the events already."""
    overview = build_overview(record.events)
    head = _render_head(record, integrity, overview)
    total = out.write(head.encode("utf-8", "replace"))
    for item in Timeline(overview.index).iter_items(record.events):
        total += out.write(_render_item(item, overview).encode("utf-8", "replace"))
    return total


def _render_head(record: Record, integrity: Integrity | None, overview: Overview) -> str:
    title = escape_line(get_title(record, overview))
    lines = [f"# {title}", "", describe_size(overview), ""]
    for fact in _iter_facts(record, integrity, overview):
        lines.append(f"- {fact}")
    return "\n".join(lines) + "\n\n"


def describe_size(overview: Overview) -> str:
    """Return the number of prompts and calls and the duration, in a line."""
    calls = format_count(overview.calls, "call")
    if overview.failures:
        calls += f" ({len(overview.failures):,} failed)"
    parts = [format_count(len(overview.turns), "prompt"), calls]
    if overview.duration:
        parts.append(format_duration(overview.duration))
    return " · ".join(parts)


def _iter_facts(record: Record, integrity: Integrity | None, overview: Overview) -> Iterator[str]:
    conversation_id = escape_line(str(record.conversation.get("id") or ""))
    yield f"conversation {conversation_id}, {overview.events:,} events"
    if overview.files:
        added, removed = overview.sum_edits()
        files = format_count(len(overview.files), "file")
        yield f"{files} changed by tools, +{added:,} -{removed:,}; shell commands are not counted"
    redaction: Any = record.conversation.get("redaction") or {}
    mode = escape_line(str(redaction.get("mode") or "none"))
    yield f"redaction: {mode}"
    notes = redaction.get("notes") or []
    for note in notes[:_MAX_NOTES]:
        yield escape_line(str(note), 300)
    if overview.missing_results:
        yield f"{format_count(overview.missing_results, 'call')} without a recorded result"
    if overview.truncated:
        yield f"{format_count(overview.truncated, 'event')} cut to fit max_bytes"
    omitted = summarize_omissions(record.notes)
    if omitted:
        yield f"omitted: {omitted}"
    for loss in record.notes:
        yield escape_line(f"{loss.code}: {loss.detail} ({loss.place}, {loss.count:,} times)", 300)
    yield describe_integrity(integrity)


def describe_integrity(integrity: Integrity | None) -> str:
    """Return the hash of the events, where there is one."""
    if integrity:
        return f"integrity sha256:{integrity['events_hash']}"
    return "no integrity hash"


def _render_item(item: Item, overview: Overview) -> str:
    if item.kind == "prompt":
        return _render_prompt(item, overview)
    if item.kind == "command":
        text = split_content(item.event)[0]
        return _render_details("command", text, "", render_fence(text))
    if item.kind == "say":
        text, blocks = split_content(item.event)
        return f"{sanitize_markdown(text)}{_render_blocks(blocks)}\n\n"
    if item.kind in ("thought", "system"):
        return _render_aside(item)
    if item.kind == "note":
        is_hidden = item.is_machine_note or item.data.get("kind") == "native"
        return "" if is_hidden else _render_note(item)
    if item.kind == "span":
        return _render_span(item, overview)
    return _render_call(item, overview)


def _render_prompt(item: Item, overview: Overview) -> str:
    text, blocks = split_content(item.event)
    lines = sanitize_markdown(text).split("\n")
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    event_id = str(item.event.get("id", ""))
    number = overview.turn_numbers.get(event_id, 0)
    heading = ""
    # Prompts of subagents are inside the call that started them, without a heading of their own.
    if number and not item.parent:
        turn = overview.turns[number - 1]
        title = escape_line(turn.title, 100)
        heading = f"## {number}. {title}\n\n"
    return f"{heading}{quoted}\n{_render_blocks(blocks)}\n\n"


def _render_aside(item: Item) -> str:
    """Render reasoning or a system message, folded."""
    if item.data.get("redacted") is True:
        return ""
    text, blocks = split_content(item.event)
    role = get_aside_role(item)
    return _render_details(role, text, "", render_fence(text) + _render_blocks(blocks))


def get_aside_role(item: Item) -> str:
    """Return who speaks in reasoning or a system message."""
    if item.kind == "thought":
        return "thought"
    role = str(item.event.get("role") or "system")
    # The runtime wrote this message in the name of the user.
    return "internal" if role == "user" else role


def _render_note(item: Item) -> str:
    kind = str(item.data.get("kind") or item.event.get("type") or "note")
    values = omit_keys(item.data, "kind")
    # Annotations have no common field for their text; the first string says most.
    strings = [value for value in values.values() if isinstance(value, str)]
    text = strings[0] if strings else ""
    body = ""
    if values:
        body = render_fence(format_value(values), "json")
    return _render_details(kind.replace("_", " "), text, "", body)


def _render_span(item: Item, overview: Overview) -> str:
    body = "".join(_render_item(child, overview) for child in item.children)
    kind = str(item.data.get("kind") or "span")
    reason = str(item.data.get("spawn_reason") or item.data.get("description") or "")
    steps = format_count(len(item.children), "step")
    return _render_details(kind, reason, steps, body)


def _render_call(item: Item, overview: Overview) -> str:
    row = build_row(item)
    command = ""
    if row.kind == "shell":
        command = find_text(row.arguments, COMMAND)
    body = ""
    if row.changes:
        for change in row.changes:
            lines = "\n".join(line.op + line.text for line in change.lines)
            body += f"{escape_line(change.path)}\n\n{render_fence(lines, 'diff')}"
    elif command:
        body += render_fence(command, "sh")
    elif row.arguments:
        body += render_fence(format_value(row.arguments), "json")
    for child in item.children:
        body += _render_item(child, overview)
    if row.output.strip():
        body += render_fence(strip_escapes(row.output))
    if not row.missing:
        body += _render_blocks(row.blocks)
    target = overview.shorten_paths(row.target)
    return _render_details(row.verb, target, " · ".join(row.outcome), body)


def _render_blocks(blocks: list[Any]) -> str:
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, dict) and "base64" in block:
            media_type = escape_line(str(block.get("media_type") or "a file"))
            parts.append(f"\n\n({media_type}, not shown here)\n")
        else:
            parts.append("\n\n" + render_fence(format_value(block), "json"))
    return "".join(parts)


def _render_details(verb: str, target: str, outcome: str, body: str) -> str:
    """Render a section to open. Its summary is HTML, so it is escaped as HTML."""
    facts = [_escape_summary(part) for part in (target, outcome)]
    facts_line = " · ".join(fact for fact in facts if fact)
    summary = f"<b>{_escape_summary(verb)}</b> {facts_line}".rstrip()
    content = body.strip("\n")
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>\n\n"


def _escape_summary(text: str) -> str:
    line = escape_attribute(to_one_line(make_visible(text)[:2000], 120))
    # GitHub reads Markdown inside of HTML, and an @ would notify somebody.
    return line.replace("`", "&#96;").replace("@", "&#64;")


def escape_line(text: str, limit: int = 140) -> str:
    """Return untrusted text as one line without any Markdown meaning."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", to_one_line(text, limit))


def render_fence(text: str, language: str = "") -> str:
    """Return text as a code block, in a fence longer than any run of backticks inside."""
    code = make_visible(text).rstrip("\n")
    fence = "`" * max(3, _count_backticks(code) + 1)
    return f"{fence}{language}\n{code}\n{fence}\n\n"


def render_code_span(text: str, limit: int) -> str:
    """Return untrusted text as inline code; empty where it says nothing."""
    line = to_one_line(text, limit)
    if not line:
        return ""
    ticks = "`" * (_count_backticks(line) + 1)
    # A backtick at an end would otherwise belong to the delimiter.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _count_backticks(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def sanitize_markdown(text: str) -> str:
    """Return Markdown without tags, images and links other than http; code blocks are rewritten."""
    parts: list[str] = []
    code: list[str] | None = None
    fence = ""
    language = ""
    for line in make_visible(text).split("\n"):
        opening = _FENCE.fullmatch(line)
        if code is None:
            if opening:
                code = []
                fence = opening[2]
                language = opening[3]
            else:
                parts.append(_sanitize_line(line))
            continue
        # A fence that ends a block is at least as long as the first one, and stands alone.
        is_end = (
            opening is not None
            and opening[2].startswith(fence)
            and not opening[3]
            and not opening[4].strip()
        )
        if is_end:
            parts.append(render_fence("\n".join(code), language).rstrip("\n"))
            code = None
        else:
            code.append(line)
    if code is not None:
        # A block that nobody closed would take in everything that follows on the page.
        parts.append(render_fence("\n".join(code), language).rstrip("\n"))
    return "\n".join(parts)


def _sanitize_line(line: str) -> str:
    """Defuse a line; code spans stay, and no other backtick is left that could pair with them."""
    # Indented code would show our character references literally.
    line = line.lstrip("\t")
    parts: list[str] = []
    end = 0
    for match in _CODE_SPAN.finditer(line):
        parts.append(_defuse(line[end : match.start()]))
        # In a table a bar ends the cell even inside code, so that the rest is not code any more.
        parts.append(_defuse(match[0]) if "|" in match[0] else match[0])
        end = match.end()
    parts.append(_defuse(line[end:]))
    return "".join(parts)


def _defuse(text: str) -> str:
    text = _ACTIVE.sub(_to_reference, text)
    text = _OTHER_LINK.sub("]&#40;", text)
    # A backslash before one of our code spans would escape its first backtick.
    if text.endswith("\\"):
        return text[:-1] + "&#92;"
    return text


def _to_reference(match: re.Match[str]) -> str:
    """Return what replaces an active token: character references."""
    token = match[0]
    if token[0] == "~":  # a fence that was not recognized would hide everything after it
        return "&#126;" * len(token)
    if len(token) == 1:
        return f"&#{ord(token)};"
    return token[:-1] + "&#58;"
