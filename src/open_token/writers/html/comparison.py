"""A comparison of two sessions as a page: what they add up to, and each step side by side."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from open_token.comparison import Difference
from open_token.comparison.divergence import EQUAL, ORDER, Row
from open_token.comparison.report import ValueChange
from open_token.comparison.steps import Step, Transcript
from open_token.comparison.words import diff_words
from open_token.integrity.page_seal import HashingOutput
from open_token.jsontools.objects import get_content
from open_token.model.titles import choose_title
from open_token.writers.escape import escape_html, make_visible, to_one_line
from open_token.writers.html import assets
from open_token.writers.html.blocks import format_value
from open_token.writers.html.items import render_item
from open_token.writers.html.markdown import render_markdown
from open_token.writers.overview import Overview, get_prompt_title
from open_token.writers.rows import format_count, format_duration
from open_token.writers.timeline import Item, classify_message, select_small_facts

LETTERS = ("a", "b")
_SIGNS = {
    "missing": ("-", "only in A"),
    "extra": ("+", "only in B"),
    ORDER: ("~", "in a different order"),
    "tool_changed": ("~", "another action"),
    "args_changed": ("~", "other arguments"),
    "result_changed": ("~", "another result"),
    "error_state": ("~", "failed in one only"),
    "text_changed": ("~", "other words"),
}
"""By the class of a difference: the sign in front of its steps, and what it means."""
_FILE_GROUPS = (
    ("same", "same change"),
    ("differ", "different change"),
    ("only_a", "only A"),
    ("only_b", "only B"),
)
_MAX_FILES = 200
_FOLDED_STEPS = 3
"""So many equal steps in a row are folded."""
_UNCHANGED_CHARACTERS = 120
"""Unchanged characters that are shown between two changes."""
_MAX_CHANGE = 20_000
_MAX_CHANGES = 40
_STRIP_WIDTH = 1000
_LANE_HEIGHT = 14
_MAX_STRIP_LINKS = 200
_Column = tuple[str, Callable[[float], str], Sequence[float | None]]
"""The name of a total, how it is written, and its value in each session."""
# Rows inside a container are rendered whole, whatever stands around them.
_CONTAINER = Item("span", {})


def write(difference: Difference, out: BinaryIO) -> int:
    """Write the comparison as one self-contained page; return the byte count."""
    page = HashingOutput(out)
    total = 0
    style = assets.load_comparison_style()
    script = assets.load_script()
    head = assets.render_head(style, script)
    for part in render_page(difference, head, f"<script>{script}</script>"):
        total += page.write(part.encode("utf-8", "replace"))
    return total + out.write(page.render_seal())


def render_page(difference: Difference, head: str, script: str) -> Iterator[str]:
    """Render the page, but for the tags that end it; `head` and `script` as in `writers.html`."""
    titles = [find_title(transcript) for transcript in difference.transcripts]
    yield (
        f"{assets.render_start(head, f'{titles[0]} / {titles[1]}')}"
        '<body class="all compared" data-jump=".pair"><a class="skip" href="#ot-main">to the steps'
        '</a><div class="wrap">'
        f"<header>{_render_header(difference, titles)}</header>\n"
        f"{_render_toolbar(difference)}\n"
        '<main id="ot-main">'
    )
    if not difference.rows:
        yield '<p class="facts">Neither session has a step.</p>'
    yield from _render_rows(difference)
    yield _render_last_answers(difference)
    yield f"</main>{_render_footer()}</div>{script}"


def find_title(transcript: Transcript) -> str:
    """Return the title of a session: its own, else its first prompt."""
    explicit = transcript.conversation.get("title")
    if isinstance(explicit, str):
        explicit = make_visible(explicit)
    prompts = (
        get_prompt_title(_get_text(step))
        for step in transcript.steps
        if step.kind == "message" and classify_message(step.event) == "prompt"
    )
    conversation_id = str(transcript.conversation.get("id") or "session")
    return choose_title(explicit, (title for title in prompts if title), conversation_id)


def _get_text(step: Step) -> str:
    content = get_content(step.event)
    return content if isinstance(content, str) else ""


def _render_header(difference: Difference, titles: Sequence[str]) -> str:
    notes = "".join(f'<p class="facts">{escape_html(note)}</p>' for note in difference.notes)
    return (
        f'<h1 dir="auto">{escape_html(difference.sentence)}</h1>'
        f'<p class="meta"><span>{format_count(difference.equal, "equal step")}</span>'
        f"<span>{format_count(difference.differing, 'difference')}</span></p>"
        '<div class="wide" tabindex="0" role="region" aria-label="totals">'
        f"{_render_totals(difference, titles)}</div>"
        f'<div class="marks">{_render_files(difference)}</div>'
        f"{notes}"
    )


def _render_totals(difference: Difference, titles: Sequence[str]) -> str:
    """Render a table with a row for each session, and one for what B has more or less."""
    sides = (difference.a, difference.b)
    columns: list[_Column] = [
        ("steps", _format_number, [side.steps for side in sides]),
        ("tool calls", _format_number, [side.calls for side in sides]),
        ("failed", _format_number, [side.failed for side in sides]),
        ("time", format_duration, [side.seconds for side in sides]),
        ("input tokens", _format_number, [side.tokens.get("input_tokens") for side in sides]),
        ("output tokens", _format_number, [side.tokens.get("output_tokens") for side in sides]),
        ("cost", _format_cost, [transcript.cost for transcript in difference.transcripts]),
        ("files changed", _format_number, [len(side.files) for side in sides]),
    ]
    columns = [column for column in columns if column[2] != [None, None]]
    names = "".join(f'<th scope="col">{name}</th>' for name, _, _ in columns)
    rows = ""
    for number, (letter, title, side) in enumerate(zip(LETTERS, titles, sides, strict=True)):
        cells = "".join(
            f"<td>{_format_known(values[number], write_value)}</td>"
            for _, write_value, values in columns
        )
        rows += (
            f'<tr><th scope="row"><span class="letter">{letter.upper()}</span> '
            f'<span dir="auto">{escape_html(title)}</span></th>'
            f"<td>{escape_html(_list_models(side.models))}</td>{cells}</tr>"
        )
    changes = "".join(
        f"<td>{_format_change(values, write_value)}</td>" for _, write_value, values in columns
    )
    return (
        f'<table class="totals"><thead><tr><th scope="col">session</th><th scope="col">model</th>'
        f"{names}</tr></thead><tbody>{rows}"
        f'<tr><th scope="row">B - A</th><td></td>{changes}</tr></tbody></table>'
    )


def _list_models(models: list[str]) -> str:
    return to_one_line(", ".join(models), 120) or "not recorded"


def _format_number(number: float) -> str:
    return f"{number:,.0f}"


def _format_cost(cost: float) -> str:
    return f"${cost:,.2f}"


def _format_known(value: float | None, write_value: Callable[[float], str]) -> str:
    return "?" if value is None else write_value(value)


def _format_change(values: Sequence[float | None], write_value: Callable[[float], str]) -> str:
    a, b = values
    if a is None or b is None or a == b:
        return ""
    sign = "+" if b > a else "-"
    change = f"{sign}{write_value(abs(b - a))}"
    if a:
        change += f" <small>{(b - a) * 100 / a:+.0f} %</small>"
    return change


def _render_files(difference: Difference) -> str:
    rows: list[str] = []
    for name, label in _FILE_GROUPS:
        paths = difference.files[name]
        rows += [
            f"<tr><td><code>{escape_html(to_one_line(path))}</code></td><td>{label}</td></tr>"
            for path in paths[:_MAX_FILES]
        ]
        if len(paths) > _MAX_FILES:
            rows.append(f"<tr><td>and {len(paths) - _MAX_FILES:,} more</td><td>{label}</td></tr>")
    if not rows:
        return ""
    total = sum(len(difference.files[name]) for name, _ in _FILE_GROUPS)
    return (
        f"<details><summary>{format_count(total, 'file')} changed</summary>"
        f'<div class="wide"><table>{"".join(rows)}</table></div></details>'
    )


def _render_toolbar(difference: Difference) -> str:
    steps = ""
    if any(row.kind != EQUAL for row in difference.rows):
        steps = (
            '<button type="button" data-do="K">Previous difference</button>'
            '<button type="button" data-do="J">Next difference</button>'
        )
    return (
        f'<div class="bar"><div class="tools">{steps}'
        '<div role="search"><input type="search" id="ot-find" placeholder="Find  ( / )" '
        'aria-label="Find"></div><span id="ot-hits" aria-live="polite"></span>'
        '<button type="button" data-do="theme">Light / dark</button>'
        '<button type="button" data-do="?">Keys ?</button></div>'
        f"{_render_strip(difference)}</div>"
    )


def _render_strip(difference: Difference) -> str:
    """Render both sessions as lanes on one scale: where they are equal, and where they are not."""
    parts: list[str] = []
    links = 0
    count = max(1, len(difference.rows))
    for is_equal, start, rows in _group_rows(difference.rows):
        x = round(start * _STRIP_WIDTH / count, 1)
        width = max(2.0, round(len(rows) * _STRIP_WIDTH / count, 1))
        lanes = "".join(_render_lane(rows, side, x, width, is_equal) for side in (0, 1))
        if is_equal or links == _MAX_STRIP_LINKS:
            parts.append(lanes)
            continue
        links += 1
        label = f"{format_count(len(rows), 'difference')} from step {start + 1} on"
        parts.append(
            f'<a href="#ot-d{start + 1}" aria-label="{label}"><title>{label}</title>{lanes}</a>'
        )
    return (
        f'<svg viewBox="0 0 {_STRIP_WIDTH} {2 * _LANE_HEIGHT + 4}" preserveAspectRatio="none" '
        f'role="group" aria-label="where the sessions differ">{"".join(parts)}</svg>'
    )


def _render_lane(rows: Sequence[Row], side: int, x: float, width: float, is_equal: bool) -> str:
    steps = [step for row in rows if (step := (row.a, row.b)[side]) is not None]
    if not steps:
        return ""
    css_class = "area" if is_equal else "tick"
    if not is_equal and any(step.failed for step in steps):
        css_class = "fail"
    y = side * (_LANE_HEIGHT + 4)
    return f'<rect class="{css_class}" x="{x}" y="{y}" width="{width}" height="{_LANE_HEIGHT}"/>'


def _group_rows(rows: Sequence[Row]) -> Iterator[tuple[bool, int, list[Row]]]:
    """Yield runs of rows that are equal and runs of rows that are not, each with its position."""
    group: list[Row] = []
    start = 0
    for position, row in enumerate(rows):
        if group and (row.kind == EQUAL) != (group[0].kind == EQUAL):
            yield group[0].kind == EQUAL, start, group
            group = []
        if not group:
            start = position
        group.append(row)
    if group:
        yield group[0].kind == EQUAL, start, group


def _render_rows(difference: Difference) -> Iterator[str]:
    overviews = [Overview(cwd=transcript.cwd) for transcript in difference.transcripts]
    for is_equal, start, rows in _group_rows(difference.rows):
        if is_equal:
            yield from _render_equal_rows(rows, overviews[0])
            continue
        for position, row in enumerate(rows, start):
            yield _render_pair(difference, row, position, overviews)


def _render_equal_rows(rows: Sequence[Row], overview: Overview) -> Iterator[str]:
    """Render steps that both sessions have, once."""
    is_folded = len(rows) >= _FOLDED_STEPS
    if is_folded:
        yield (
            '<details class="more same-steps"><summary>'
            f"{format_count(len(rows), 'equal step')}</summary>"
        )
    yield '<div class="run same-run">'
    for row in rows:
        assert row.a is not None
        yield _render_step(row.a, "a", overview)
    yield "</div>"
    if is_folded:
        yield "</details>"
    yield "\n"


def _render_pair(
    difference: Difference, row: Row, position: int, overviews: Sequence[Overview]
) -> str:
    """Render a difference: both steps side by side, and below them the values that differ."""
    sign, meaning = _SIGNS[row.kind]
    sides = "".join(
        _render_side(step, letter, overview)
        for step, letter, overview in zip((row.a, row.b), LETTERS, overviews, strict=True)
    )
    is_divergence = difference.divergence is not None and difference.divergence.row == position
    here = " divergence" if is_divergence else ""
    changes = difference.changes(row)
    return (
        f'<section class="pair d-{row.kind.replace("_", "-")}{here}" id="ot-d{position + 1}">'
        f'<h2><span class="sign">{sign}</span> {meaning}'
        f"{' · the sessions part here' if is_divergence else ''}</h2>"
        f'<div class="sides">{sides}</div>{_render_changes(changes)}</section>\n'
    )


def _render_side(step: Step | None, letter: str, overview: Overview) -> str:
    if step is None:
        return f'<div class="side none side-{letter}" aria-hidden="true"></div>'
    return (
        f'<div class="side side-{letter}"><p class="step">{letter.upper()} {step.number:,}</p>'
        f'<div class="run">{_render_step(step, letter, overview)}</div></div>'
    )


def _render_step(step: Step, letter: str, overview: Overview) -> str:
    kind = step.kind
    if kind == "message":
        kind = classify_message(step.event)
    item = Item(
        kind,
        _prefix_id(step.event, letter),
        result=_prefix_id(step.result, letter) if step.result else None,
        facts=select_small_facts(step.facts),
        parent=_CONTAINER,
    )
    return render_item(item, overview, set()).html


def _prefix_id(event: Any, letter: str) -> Any:
    """Return an event with an id that no event of the other session has."""
    return {**event, "id": f"{letter}-{event.get('id', '')}"}


def _render_changes(changes: Sequence[ValueChange]) -> str:
    if not changes:
        return ""
    entries = "".join(
        f"<dt>{escape_html(to_one_line(change.path, 120))}</dt>"
        f'<dd><pre class="words">{_render_change(change)}</pre></dd>'
        for change in changes[:_MAX_CHANGES]
    )
    if len(changes) > _MAX_CHANGES:
        entries += f"<dt>and {len(changes) - _MAX_CHANGES:,} more values</dt>"
    return f'<dl class="changes">{entries}</dl>'


def _render_change(change: ValueChange) -> str:
    old = _to_text(change.a) if change.in_a else ""
    new = _to_text(change.b) if change.in_b else ""
    pieces = diff_words(old, new)
    rendered: list[str] = []
    for index, (sign, text) in enumerate(pieces):
        if sign == "=":
            is_last = index == len(pieces) - 1
            rendered.append(_shorten_unchanged(text, is_first=index == 0, is_last=is_last))
            continue
        tag = "del" if sign == "-" else "ins"
        rendered.append(f"<{tag}>{escape_html(_cut(text))}</{tag}>")
    return "".join(rendered)


def _to_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return format_value(value)


def _shorten_unchanged(text: str, *, is_first: bool, is_last: bool) -> str:
    """Return the ends of an unchanged text that lie next to a change."""
    half = _UNCHANGED_CHARACTERS // 2
    head = "" if is_first else text[:half]
    tail = "" if is_last else text[-half:]
    if len(text) <= len(head) + len(tail):
        return escape_html(text)
    return f"{escape_html(head)}<i>...</i>{escape_html(tail)}"


def _cut(text: str) -> str:
    if len(text) <= _MAX_CHANGE:
        return text
    return f"{text[:_MAX_CHANGE]}... ({len(text) - _MAX_CHANGE:,} more characters)"


def _render_last_answers(difference: Difference) -> str:
    """Render what both said at last, side by side."""
    steps = [_find_last_answer(transcript) for transcript in difference.transcripts]
    texts = [_get_text(step) if step else "" for step in steps]
    if not any(texts) or texts[0] == texts[1]:
        return ""
    sides = ""
    for letter, step, text in zip(LETTERS, steps, texts, strict=True):
        body = '<p class="facts">no answer</p>'
        if step is not None:
            body = (
                f'<p class="step">{letter.upper()} {step.number:,}</p>'
                f'<div class="say" dir="auto">{render_markdown(text)}</div>'
            )
        sides += f'<div class="side side-{letter}">{body}</div>'
    return f'<section class="last"><h2>Last answers</h2><div class="sides">{sides}</div></section>'


def _find_last_answer(transcript: Transcript) -> Step | None:
    for step in reversed(transcript.steps):
        if step.kind == "message" and classify_message(step.event) == "say" and _get_text(step):
            return step
    return None


_KEYS = (
    ("J K", "next, previous difference"),
    ("j k", "next, previous step"),
    ("e E", "next, previous failure"),
    ("Enter o", "open or close a row"),
    ("d", "open all diffs"),
    ("/ n N", "find, next match, previous match"),
    ("c y", "copy the link, the text of a step"),
    ("g g, G", "start, end"),
    ("1-9", "go to a difference"),
)


def _render_footer() -> str:
    keys = "".join(f"<dt>{key}</dt><dd>{label}</dd>" for key, label in _KEYS)
    return (
        f'<dialog id="ot-keys"><h2>Keys</h2><dl>{keys}</dl>'
        '<form method="dialog"><button>Close</button></form></dialog>'
        "<footer>A comparison of two sessions. Made by Open-Token. "
        "This page is one file: it loads nothing and sends nothing.</footer>"
    )
