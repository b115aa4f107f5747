"""Each thing of a conversation as a piece of a page, with the height that it will take when it is
closed."""

from typing import Any, NamedTuple

from open_token.pages._blocks import folded, others, pairs
from open_token.pages._bodies import body_of
from open_token.pages._escaped import anchor, attribute, escaped, one_line
from open_token.pages._gathered import Gathered, title_of
from open_token.pages.marked import marked
from open_token.pages.rows import duration, plural, row_of, said
from open_token.pages.story import Item, data_of, link_of

_LINE, _ROW = 25, 30
_LETTERS = 88
_SHORT_LINES, _SHORT = 12, 900
_ON_A_PHONE, _ON_A_DESK = 28, 64
"""Bytes of a prompt that is sure to fit into its heading."""


class Piece(NamedTuple):
    """A piece of a page."""

    html: str
    height: float
    is_row: bool | None
    """A row stands in a box with its neighbours; None: wherever it is."""


def piece_of(item: Item, whole: Gathered, last: set[str]) -> Piece:
    """One item."""
    if item.kind == "prompt":
        return _prompt(item)
    if item.kind == "say":
        return _say(item, last)
    if item.kind in ("thought", "system"):
        return _aside(item)
    if item.kind == "note":
        return _note(item)
    return _span(item, whole) if item.kind == "span" else _call(item, whole)


def _height(text: str) -> float:
    return sum(_LINE * (1 + len(line) // _LETTERS) for line in text.split("\n")) + 16


def _name(item: Item) -> str:
    return str(item.event.get("id", ""))


def perma(name: str, event: Any = None) -> str:
    """A link to an event, which shows its id and its time; it has no say in which way the words
    around it run."""
    ts = event.get("ts") if event else None
    when = f" {one_line(ts[11:19], 8)}" if isinstance(ts, str) else ""
    return (
        f'<a class="perma" dir="ltr" href="#{attribute(name)}">{escaped(name[:40] + when)}</a>'
        if name
        else ""
    )


def cut_note(event: Any) -> str:
    """What max_bytes took of a text, where it did."""
    data = data_of(event)
    if data.get("truncated") is not True:
        return ""
    full = data.get("original_length")
    told = f": {len(said(event)[0]):,} of {full:,} characters are left" if type(full) is int else ""
    return f'<p class="facts"><mark>cut to fit{told}</mark></p>'


def _prompt(item: Item) -> Piece:
    text, blocks = said(item.event)
    lines = text.strip("\n").split("\n")
    is_long = len(lines) > _SHORT_LINES or len(text) > _SHORT
    if is_long:
        head = "\n".join(lines[:6])[:600]
        rest = text.strip("\n")[len(head) :]
        count = rest.count("\n") + 1
        told = f"{count:,} more lines" if count > 1 else f"{len(rest):,} more characters"
        words = (
            f'{escaped(head)}<details class="more"><summary>show {told}</summary>'
            f"{escaped(rest.removeprefix(chr(10)))}</details>"
        )
        height = _height(head) + 40
    else:
        words, height = escaped(text.strip("\n")), _height(text)
    classes, size = "prompt", len(text.strip().encode())
    if not item.within and title_of(text) == text.strip() and size <= _ON_A_DESK:
        # The heading says it all, on a wide screen or on any.
        classes, height = "prompt same", 0.0
        words = words if size > _ON_A_PHONE else ""
    body = f"{cut_note(item.event)}{others(blocks)}"
    shown = f'<div class="{classes}" dir="auto">{words}</div>' if words else ""
    return Piece(
        f'<div class="ev ask"{anchor(_name(item))}>{perma(_name(item), item.event)}{shown}{body}</div>',
        height,
        False,
    )


def _say(item: Item, last: set[str]) -> Piece:
    text, blocks = said(item.event)
    classes = "ev say" if _name(item) in last or item.within else "ev say mid"
    body = f"{marked(text)}{cut_note(item.event)}{others(blocks)}"
    start = (
        f'<div class="{classes}" dir="auto"{anchor(_name(item))}>{perma(_name(item), item.event)}'
    )
    return Piece(f"{start}{body}</div>", _height(text), False)


def _aside(item: Item) -> Piece:
    """A thought, or what the system said: folded, for it is long and seldom what one came for."""
    text, blocks = said(item.event)
    data = item.data
    if data.get("redacted") is True:
        text, blocks = "", []
        words = (
            "hidden by the provider"
            if data.get("encrypted") is True
            else "left out by internal=redacted"
        )
    else:
        words = one_line(text) or "(no words)"
    # A user who is not public is the runtime itself, speaking to the model in the user's place.
    told = str(item.event.get("role") or "system")
    role = (
        "thought"
        if item.kind == "thought"
        else "internal"
        if told == "user"
        else one_line(told, 20)
    )
    lines = text.count("\n") + 1 if text else 0
    shown = (
        f'<div dir="auto">{marked(text)}</div>'
        if item.kind == "thought"
        else folded(text)
        if text
        else ""
    )
    body = shown + others(blocks)
    outcome = " · ".join(
        [
            *(["a summary"] if "summary" in data else []),
            *([f"{lines:,} lines"] if lines > 1 else []),
        ]
    )
    kind = "think" if item.kind == "thought" else "sys"
    return _details(item, kind, role, words, outcome, body + cut_note(item.event))


def _note(item: Item) -> Piece:
    data = dict(item.data)
    kind = one_line(str(data.pop("kind", "") or item.event.get("type") or "note"), 40)
    if kind == "native":
        return Piece(f"<span{anchor(_name(item))}></span>", 0, None)
    told = next(
        (data[name] for name in ("text", "message", "detail", "summary", "reason") if name in data),
        "",
    )
    words = one_line(told) if isinstance(told, str) else ""
    if item.is_quiet:
        made = _details(item, "note quiet", kind.replace("_", " "), words, "", pairs(data))
        return Piece(made.html, 0, None)
    return _details(item, "note", kind.replace("_", " "), words, "", pairs(data))


def _call(item: Item, whole: Gathered) -> Piece:
    row = row_of(item)
    about = pairs({key: value for key, value in item.about.items() if key != "kind"})
    inside = "".join(_nested(item, whole))
    steps = about + (
        f'<h3>{_steps(item)}</h3><div class="run">{inside}</div>' if item.inside else ""
    )
    outcome = [_steps(item), *row.outcome] if item.inside else row.outcome
    told = " · ".join(f"{key} {value}" for key, value in item.facts.items())
    shown = ("tool_name", "arguments", "native_call_id", "truncated")
    extra = (
        {key: value for key, value in item.data.items() if key not in shown}
        if item.kind == "call"
        else {}
    )
    body = (
        body_of(row, steps)
        + pairs(extra)
        + (f'<p class="facts">{escaped(told)}</p>' if told else "")
    )
    for event in (item.event, item.result or {}):
        body += cut_note(event)
    classes = f"tool k-{row.kind or 'other'}{' bad' if row.failed else ''}{' gone' if row.missing else ''}"
    verb = one_line(row.verb.rpartition("__")[2] or row.verb, 40)
    return _details(item, classes, verb, whole.near(row.target), " · ".join(outcome), body)


def _nested(item: Item, whole: Gathered) -> list[str]:
    return [piece_of(inner, whole, set()).html for inner in item.inside]


def _steps(item: Item) -> str:
    return plural(sum(inner.kind in ("call", "result") for inner in item.inside), "step")


def _span(item: Item, whole: Gathered) -> Piece:
    data = item.data
    kind = one_line(str(data.get("kind") or "span"), 30).replace("_", " ")
    why = (
        data.get("spawn_reason")
        or data.get("description")
        or data.get("subagent_type")
        or data.get("branch")
        or ""
    )
    spent = whole.spans.get(link_of(item.event, "span_id"))
    outcome = [_steps(item)] if item.inside else []
    outcome += [f"{spent.tokens:,} tok"] if spent and spent.tokens else []
    outcome += (
        [duration(spent.ended - spent.began)] if spent and spent.began and spent.ended else []
    )
    body = pairs({key: value for key, value in {**data, **item.about}.items() if key != "kind"})
    body += f'<div class="run">{"".join(_nested(item, whole))}</div>'
    return _details(item, "span", kind, one_line(str(why)), " · ".join(outcome), body)


def _details(item: Item, classes: str, verb: str, target: str, outcome: str, body: str) -> Piece:
    result = str(item.result.get("id", "")) if item.result and item.result is not item.event else ""
    names = [name for name in (result, item.facts_id, *item.ends) if name]
    ids = "".join(f"<span{anchor(name)}>{perma(name)}</span> " for name in names)
    html = (
        f'<details class="row {classes}"{anchor(_name(item))}><summary><span class="k">{escaped(verb)}</span> '
        f'<span class="w" dir="auto">{escaped(target)}</span> <span class="r">{escaped(outcome)}</span></summary>'
        f'<div class="body">{body}<p class="ids">{perma(_name(item), item.event)} {ids}</p></div></details>'
    )
    return Piece(html, _ROW, True)
