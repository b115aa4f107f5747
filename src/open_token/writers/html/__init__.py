"""Writer for HTML: the conversation as one self-contained page that also reads without its script."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from open_token.integrity.page_seal import HashingOutput
from open_token.model.document import Integrity, Record
from open_token.writers.html.assets import load_script, load_style, render_head, render_start
from open_token.writers.html.front_matter import (
    render_footer,
    render_header,
    render_outline,
    render_toolbar,
)
from open_token.writers.html.sections import group_items, render_sections
from open_token.writers.overview import Overview, build_overview, get_title
from open_token.writers.timeline import Timeline

PAGE_END = b"</body></html>\n"


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, max_bytes: int | None = None
) -> int:
    """Write the page; return the byte count. `max_bytes` was applied to the events already."""
    overview = build_overview(record.events, record.bind_prices())
    total = 0
    head = render_head(load_style(), load_script())
    script = f"<script>{load_script()}</script>"
    items = Timeline(overview.index).iter_items(record.events)
    sections = render_sections(group_items(items, overview), overview)
    page = HashingOutput(out)
    for part in render_page(record, integrity, overview, sections, head, script):
        total += page.write(part.encode("utf-8", "replace"))
    return total + out.write(page.render_seal(integrity))


def render_page(
    record: Record,
    integrity: Integrity | None,
    overview: Overview,
    sections: Iterable[str],
    head: str,
    script: str,
) -> Iterator[str]:
    """Render the page around the sections of a conversation, but for the tags that end it.

    `head` has the elements that refer to the style, `script` those that refer to the script.
    """
    title = get_title(record, overview)
    yield (
        f"{render_start(head, title)}"
        '<body class="full"><a class="skip" href="#ot-main">to the conversation</a>'
        '<div class="wrap">'
        f"<header>{render_header(record, integrity, overview, title)}</header>\n"
        f"{render_toolbar(overview)}\n{render_outline(overview)}\n"
        '<main id="ot-main">'
    )
    yield from sections
    footer = render_footer(record, overview)
    yield f"</main>{footer}</div>{script}"
