"""Writer for HTML: the conversation as one self-contained page that also reads without its script."""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import BinaryIO

from open_token.model.document import Integrity, Record
from open_token.writers.escape import escape_attribute, escape_html
from open_token.writers.html.front_matter import (
    render_footer,
    render_header,
    render_outline,
    render_toolbar,
)
from open_token.writers.html.items import RenderedItem, render_item
from open_token.writers.overview import Overview, Turn, build_overview, get_title
from open_token.writers.rows import format_duration
from open_token.writers.timeline import Item, Timeline

_BLOCK_SIZE = 40
_BLOCK_HEIGHTS = tuple(round(60 * 1.12**step) for step in range(72))
"""Heights that a block may declare: the style has one rule for each."""
_DAY_HEIGHT = 40


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, max_bytes: int | None = None
) -> int:
    """Write the page; return the byte count. `max_bytes` was applied to the events already."""
    overview = build_overview(record.events)
    total = 0
    for part in _render_page(record, integrity, overview):
        total += out.write(part.encode("utf-8", "replace"))
    return total


def _render_page(record: Record, integrity: Integrity | None, overview: Overview) -> Iterator[str]:
    title = get_title(record, overview)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_build_policy()}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{escape_attribute(title)}</title>'
        f"<style>{load_style()}</style></head>\n"
        '<body class="full"><a class="skip" href="#ot-main">to the conversation</a>'
        '<div class="wrap">'
        f"<header>{render_header(record, integrity, overview, title)}</header>\n"
        f"{render_toolbar(overview)}\n{render_outline(overview)}\n"
        '<main id="ot-main">'
    )
    items = Timeline(overview.index).iter_items(record.events)
    yield from _SectionRenderer(overview).render(items)
    footer = render_footer(record, overview)
    yield f"</main>{footer}</div><script>{load_script()}</script></body></html>\n"


def _build_policy() -> str:
    """Return a policy that allows nothing but the style and script of the page itself."""
    script_hash = _hash_source(load_script())
    style_hash = _hash_source(load_style())
    return (
        f"default-src 'none'; script-src '{script_hash}'; style-src '{style_hash}'; "
        "base-uri 'none'; form-action 'none'; img-src data:"
    )


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


@cache
def load_style() -> str:
    """Return the style sheet of all pages."""
    rules = [
        f".h{step}{{contain-intrinsic-size:auto {height}px}}"
        for step, height in enumerate(_BLOCK_HEIGHTS)
    ]
    return _read_asset("page.css") + "".join(rules)


@cache
def load_script() -> str:
    """Return the script of all pages."""
    return _read_asset("page.js")


def _read_asset(name: str) -> str:
    return resources.files("open_token").joinpath("web", name).read_text("utf-8")


class _SectionRenderer:
    """Groups items into one section per prompt, and into blocks that a browser renders lazily."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._last_answers = {turn.last_answer for turn in overview.turns}
        self._block: list[str] = []
        self._height = 0.0
        self._is_in_run = False
        self._day = ""

    def render(self, items: Iterator[Item]) -> Iterator[str]:
        yield '<section class="turn">'
        for item in items:
            self._add_day(item)
            number = None
            if item.kind == "prompt":
                number = self._overview.turn_numbers.get(str(item.event.get("id", "")))
            if number:
                heading = _render_heading(number, self._overview.turns[number - 1])
                yield f"{self._end_block()}</section>\n{heading}"
            self._add(render_item(item, self._overview, self._last_answers))
            if len(self._block) >= _BLOCK_SIZE:
                yield self._end_block()
        yield f"{self._end_block()}</section>"

    def _add_day(self, item: Item) -> None:
        """Add a date line where the day changes."""
        day = str(item.event.get("ts") or "")[:10]
        if not day or day == self._day:
            return
        if self._day:
            html = f'<p class="day">{escape_html(day)}</p>'
            self._add(RenderedItem(html, _DAY_HEIGHT, False))
        self._day = day

    def _add(self, rendered: RenderedItem) -> None:
        if rendered.is_row is not None and rendered.is_row != self._is_in_run:
            self._block.append('<div class="run">' if rendered.is_row else "</div>")
            self._is_in_run = rendered.is_row
        self._block.append(rendered.html)
        self._height += rendered.height

    def _end_block(self) -> str:
        if self._is_in_run:
            self._block.append("</div>")
            self._is_in_run = False
        if not self._block:
            return ""
        html = f'<div class="blk h{_find_height_step(self._height)}">{"".join(self._block)}</div>\n'
        self._block = []
        self._height = 0.0
        return html


def _find_height_step(height: float) -> int:
    for step, limit in enumerate(_BLOCK_HEIGHTS):
        if limit >= height:
            return step
    return len(_BLOCK_HEIGHTS) - 1


def _render_heading(number: int, turn: Turn) -> str:
    facts: list[str] = []
    if turn.began and turn.ended and turn.ended > turn.began:
        facts.append(format_duration(turn.ended - turn.began))
    if turn.tokens:
        facts.append(f"{turn.tokens:,} tok")
    link = f'<a href="#{escape_attribute(turn.id)}">{number}</a>'
    return (
        f'<section class="turn"><h2><span class="n">{link}</span> '
        f'<span class="t" dir="auto">{escape_html(turn.title)}'
        f'</span> <span class="m">{" · ".join(facts)}</span></h2>'
    )
