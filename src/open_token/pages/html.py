"""A conversation as one page: a single file that asks nobody for anything and reads without its
script."""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import BinaryIO

from open_token.model.document import Integrity, Record
from open_token.pages._escaped import attribute, escaped
from open_token.pages._front import bar, facts, foot, outline
from open_token.pages._gathered import Gathered, gather, title_of_all
from open_token.pages._items import Piece, piece_of
from open_token.pages.rows import duration
from open_token.pages.story import Item, Story

_BLOCK = 40
_HEIGHTS = tuple(round(60 * 1.12**step) for step in range(72))
"""How high a block can be said to be: rules for these stand in the one style of the page."""


def write(
    record: Record, integrity: Integrity | None, out: BinaryIO, most: int | None = None
) -> int:
    """Write the page; gives the count of its bytes."""
    whole = gather(record.events)
    return sum(
        out.write(part.encode("utf-8", "replace")) for part in _parts(record, integrity, whole)
    )


def _parts(record: Record, integrity: Integrity | None, whole: Gathered) -> Iterator[str]:
    title = title_of_all(whole, str(record.conversation.get("title") or ""))
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{attribute(title)}</title>'
        f"<style>{style()}</style></head>\n"
        '<body class="full"><a class="skip" href="#ot-main">to the conversation</a><div class="wrap">'
        f"<header>{facts(record, integrity, whole, title)}</header>\n{bar(whole)}\n{outline(whole)}\n"
        '<main id="ot-main">'
    )
    yield from _Main(whole).sections(Story(whole.known).tell(record.events))
    yield f"</main>{foot(record, integrity, whole)}</div><script>{script()}</script></body></html>\n"


def _policy() -> str:
    ours = f"script-src '{_digest(script())}'; style-src '{_digest(style())}'"
    return f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'; img-src data:"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def style() -> str:
    """The one style of every page."""
    heights = "".join(
        f".h{step}{{contain-intrinsic-size:auto {px}px}}" for step, px in enumerate(_HEIGHTS)
    )
    return _shipped("page.css") + heights


@cache
def script() -> str:
    """The one script of every page."""
    return _shipped("page.js")


def _shipped(name: str) -> str:
    return resources.files("open_token").joinpath("web", name).read_text("utf-8")


class _Main:
    """Puts items into sections, one for each prompt, and into blocks that a browser may leave
    undrawn."""

    def __init__(self, whole: Gathered) -> None:
        self._whole = whole
        self._last = {turn.last for turn in whole.turns}
        self._block: list[str] = []
        self._height = 0.0
        self._in_run = False
        self._day = ""

    def sections(self, items: Iterator[Item]) -> Iterator[str]:
        """All of the conversation."""
        yield '<section class="turn">'
        for item in items:
            day = str(item.event.get("ts") or "")[:10]
            if day and day != self._day:
                if self._day:
                    self._add(Piece(f'<p class="day">{escaped(day)}</p>', 40, False))
                self._day = day
            number = (
                self._whole.numbers.get(str(item.event.get("id", "")))
                if item.kind == "prompt"
                else None
            )
            if number:
                yield f"{self._end()}</section>\n{self._head(number)}"
            self._add(piece_of(item, self._whole, self._last))
            if len(self._block) >= _BLOCK:
                yield self._end()
        yield f"{self._end()}</section>"

    def _head(self, number: int) -> str:
        turn = self._whole.turns[number - 1]
        spent = (
            [duration(turn.ended - turn.began)]
            if turn.began and turn.ended and turn.ended > turn.began
            else []
        )
        spent += [f"{turn.tokens:,} tok"] if turn.tokens else []
        link = f'<a href="#{attribute(turn.id)}">{number}</a>'
        return (
            f'<section class="turn"><h2><span class="n">{link}</span> <span class="t" dir="auto">{escaped(turn.title)}'
            f'</span> <span class="m">{" · ".join(spent)}</span></h2>'
        )

    def _add(self, piece: Piece) -> None:
        if piece.is_row is not None and piece.is_row != self._in_run:
            self._block.append('<div class="run">' if piece.is_row else "</div>")
            self._in_run = piece.is_row
        self._block.append(piece.html)
        self._height += piece.height

    def _end(self) -> str:
        """The block so far."""
        if self._in_run:
            self._block.append("</div>")
            self._in_run = False
        if not self._block:
            return ""
        step = next(
            (step for step, px in enumerate(_HEIGHTS) if px >= self._height), len(_HEIGHTS) - 1
        )
        made = f'<div class="blk h{step}">{"".join(self._block)}</div>\n'
        self._block, self._height = [], 0.0
        return made
