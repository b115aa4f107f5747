"""The body of a page: one section per prompt, in blocks of items that a browser renders lazily."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from open_token.writers.escape import escape_attribute, escape_html
from open_token.writers.html.items import RenderedItem, render_item
from open_token.writers.overview import Overview, Turn
from open_token.writers.rows import format_duration
from open_token.writers.timeline import Item

_BLOCK_SIZE = 40
BLOCK_HEIGHTS = tuple(round(60 * 1.12**step) for step in range(72))
"""Heights that a block may declare: the style has one rule for each."""
_DAY_HEIGHT = 40


@dataclass
class Block:
    """Items that follow each other in one section."""

    turn: int
    """The number of the prompt that its section belongs to; 0 before the first prompt."""
    items: list[Item] = field(default_factory=list)
    day: str = ""
    """The day of the event before the block."""


def group_items(items: Iterable[Item], overview: Overview) -> Iterator[Block]:
    """Yield the items in blocks: a prompt begins a new one."""
    block = Block(0)
    day = ""
    for item in items:
        number = 0
        if item.kind == "prompt":
            number = overview.turn_numbers.get(str(item.event.get("id", "")), 0)
        if number or len(block.items) == _BLOCK_SIZE:
            if block.items:
                yield block
            block = Block(number or block.turn, day=day)
        block.items.append(item)
        day = get_day(item) or day
    if block.items:
        yield block


def get_day(item: Item) -> str:
    """Return the day of an item, as its event states it; empty if it does not."""
    return str(item.event.get("ts") or "")[:10]


def render_sections(blocks: Iterable[Block], overview: Overview) -> Iterator[str]:
    """Render all blocks in their sections, each with its prompt as heading."""
    last_answers = {turn.last_answer for turn in overview.turns}
    turn = 0
    yield '<section class="turn">'
    for block in blocks:
        if block.turn != turn:
            turn = block.turn
            heading = render_heading(turn, overview.turns[turn - 1])
            yield f'</section>\n<section class="turn">{heading}'
        yield render_block(block, overview, last_answers)
    yield "</section>"


def render_heading(number: int, turn: Turn) -> str:
    """Render the heading of a section: the number and the title of its prompt."""
    facts: list[str] = []
    if turn.began and turn.ended and turn.ended > turn.began:
        facts.append(format_duration(turn.ended - turn.began))
    if turn.tokens:
        facts.append(f"{turn.tokens:,} tok")
    link = f'<a href="#{escape_attribute(turn.id)}">{number}</a>'
    return (
        f'<h2><span class="n">{link}</span> '
        f'<span class="t" dir="auto">{escape_html(turn.title)}'
        f'</span> <span class="m">{" · ".join(facts)}</span></h2>'
    )


def render_block(block: Block, overview: Overview, last_answers: set[str]) -> str:
    """Render a block, with the height that it takes while its rows are closed."""
    parts: list[str] = []
    height = 0.0
    run: list[RenderedItem] = []
    for rendered in _render_items(block, overview, last_answers):
        height += rendered.height
        if rendered.is_row or (run and rendered.is_row is None):
            run.append(rendered)
        else:
            parts += [_render_run(run), rendered.html]
            run = []
        if rendered.after:
            parts += [_render_run(run), rendered.after]
            run = []
    parts.append(_render_run(run))
    return f'<div class="blk h{_find_height_step(height)}">{"".join(parts)}</div>\n'


def _render_run(rows: list[RenderedItem]) -> str:
    """Render neighbouring rows in one box."""
    if not rows:
        return ""
    # A box of which nothing is shown is hidden as a whole.
    is_injected = all(row.is_injected for row in rows if row.is_row)
    classes = "run inj" if is_injected else "run"
    return f'<div class="{classes}">{"".join(row.html for row in rows)}</div>'


def _render_items(
    block: Block, overview: Overview, last_answers: set[str]
) -> Iterator[RenderedItem]:
    """Render the items of a block, with a line where the day changes."""
    last_day = block.day
    for item in block.items:
        day = get_day(item)
        if day and last_day and day != last_day:
            yield RenderedItem(f'<p class="day">{escape_html(day)}</p>', _DAY_HEIGHT, False)
        last_day = day or last_day
        yield render_item(item, overview, last_answers)


def _find_height_step(height: float) -> int:
    for step, limit in enumerate(BLOCK_HEIGHTS):
        if limit >= height:
            return step
    return len(BLOCK_HEIGHTS) - 1
