"""Writer for HTML: the conversation as one self-contained page that also reads without its script."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import BinaryIO

from open_token.integrity.page_seal import HashingOutput
from open_token.model.document import Integrity, Record
from open_token.writers.escape import escape_attribute
from open_token.writers.html.front_matter import (
    render_footer,
    render_header,
    render_outline,
    render_toolbar,
)
from open_token.writers.html.sections import BLOCK_HEIGHTS, group_items, render_sections
from open_token.writers.overview import EstimateCost, Overview, build_overview, get_title
from open_token.writers.timeline import Timeline

PAGE_END = b"</body></html>\n"


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, max_bytes: int | None = None
) -> int:
    """Write the page; return the byte count. `max_bytes` was applied to the events already."""
    overview = build_overview(record.events, bind_prices(record))
    total = 0
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_build_policy()}">'
        f"<style>{load_style()}</style>"
    )
    script = f"<script>{load_script()}</script>"
    items = Timeline(overview.index).iter_items(record.events)
    sections = render_sections(group_items(items, overview), overview)
    page = HashingOutput(out)
    for part in render_page(record, integrity, overview, sections, head, script):
        total += page.write(part.encode("utf-8", "replace"))
    end = page.render_seal(integrity) if integrity else PAGE_END
    return total + out.write(end)


def bind_prices(record: Record) -> EstimateCost | None:
    """Return an estimate of costs by actor, where the record brings prices."""
    estimate = record.estimate_cost
    if estimate is None:
        return None
    models = {actor["actor_id"]: actor.get("model", "") for actor in record.participants}
    return lambda actor_id, usage: estimate(models.get(actor_id, ""), usage)


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
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"{head}<title>{escape_attribute(title)}</title></head>\n"
        '<body class="full"><a class="skip" href="#ot-main">to the conversation</a>'
        '<div class="wrap">'
        f"<header>{render_header(record, integrity, overview, title)}</header>\n"
        f"{render_toolbar(overview)}\n{render_outline(overview)}\n"
        '<main id="ot-main">'
    )
    yield from sections
    footer = render_footer(record, overview)
    yield f"</main>{footer}</div>{script}"


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
        for step, height in enumerate(BLOCK_HEIGHTS)
    ]
    return _read_asset("page.css") + "".join(rules)


@cache
def load_script() -> str:
    """Return the script of all pages."""
    return _read_asset("page.js")


def _read_asset(name: str) -> str:
    return resources.files("open_token").joinpath("web", name).read_text("utf-8")
