"""A list of sessions as a page, with a link to the page of each."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from open_token.integrity.page_seal import HashingOutput
from open_token.writers.escape import escape_attribute, escape_html, to_one_line
from open_token.writers.html.assets import load_script, load_style, render_head, render_start
from open_token.writers.rows import format_count


class ListedSession(NamedTuple):
    """A session in a list."""

    file: str
    """The path of its page, from the folder of the list."""
    title: str
    agent: str
    day: str
    events: int | None
    remark: str = ""


def write(sessions: Sequence[ListedSession], title: str, out: BinaryIO) -> int:
    """Write the page; return the byte count. The sessions are in the order of the list."""
    page = HashingOutput(out)
    total = 0
    for part in _render_page(sessions, title):
        total += page.write(part.encode("utf-8", "replace"))
    return total + out.write(page.render_seal())


def _render_page(sessions: Sequence[ListedSession], title: str) -> Iterator[str]:
    head = render_head(load_style(), load_script())
    yield (
        f"{render_start(head, title)}"
        '<body class="all" data-jump="section"><a class="skip" href="#ot-main">to the sessions</a>'
        f'<div class="wrap"><header><h1>{escape_html(title)}</h1>'
        f'<p class="meta"><span>{format_count(len(sessions), "session")}</span></p></header>\n'
        '<div class="bar"><div class="tools"><div role="search">'
        '<input type="search" id="ot-find" placeholder="Find  ( / )" aria-label="Find"></div>'
        '<span id="ot-hits" aria-live="polite"></span>'
        '<button type="button" data-do="theme">Light / dark</button></div></div>\n'
    )
    days = [(day, list(group)) for day, group in groupby(sessions, lambda session: session.day)]
    months = dict.fromkeys(day[:7] for day, _ in days)
    links = "".join(
        f'<li><a href="#ot-{escape_attribute(month)}">{escape_html(month)}</a></li>'
        for month in months
    )
    yield f'<nav id="ot-outline" aria-label="Months"><ol>{links}</ol></nav>\n<main id="ot-main">'
    if not sessions:
        yield '<p class="facts">There is no session in this archive.</p>'
    named: set[str] = set()
    for day, group in days:
        month = day[:7]
        anchor = "" if month in named else f' id="ot-{escape_attribute(month)}"'
        named.add(month)
        rows = "".join(_render_row(session) for session in group)
        yield (
            f'<section{anchor}><h2><span class="t">{escape_html(day)}</span></h2>'
            f'<div class="wide"><table class="sessions">{rows}</table></div></section>\n'
        )
    yield (
        '</main><dialog id="ot-keys"><h2>Keys</h2><dl><dt>/ n N</dt><dd>find, next match, previous '
        'match</dd></dl><form method="dialog"><button>Close</button></form></dialog>'
        "<footer>Made by Open-Token. This page loads nothing and sends nothing; its links lead to "
        f"files beside it.</footer></div><script>{load_script()}</script>"
    )


def _render_row(session: ListedSession) -> str:
    facts = [session.agent]
    if session.events is not None:
        facts.append(format_count(session.events, "event"))
    if session.remark:
        facts.append(session.remark)
    return (
        f'<tr><td><a href="{escape_attribute(quote(session.file))}" dir="auto">'
        f"{escape_html(to_one_line(session.title))}</a></td>"
        f"<td>{escape_html(' · '.join(facts))}</td></tr>"
    )
