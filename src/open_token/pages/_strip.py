"""The strip at the top of a page: time across, the size of the context as height, prompts and
failures as ticks."""

from open_token.pages._escaped import attribute
from open_token.pages._gathered import Gathered

_WIDTH, _HEIGHT = 1000, 40
_COLUMNS = 250
_TICKS = 400


def strip(whole: Gathered) -> str:
    """A drawing without any style of its own; its ticks are links, and the outline says the same in
    words."""
    scale = _Scale(whole)
    parts = [_area(whole, scale)]
    for seconds, _ in whole.gaps[:_TICKS]:
        if whole.active:
            parts.append(
                f'<rect class="gap" x="{scale.of(seconds, 0)}" y="0" width="2" height="{_HEIGHT}"/>'
            )
    for number, turn in enumerate(whole.turns[:_TICKS], 1):
        parts.append(_tick("tick", scale.of(*turn.at), turn.id, f"{number}. {turn.title[:80]}"))
    for seconds, place, name, tool in whole.failures[:_TICKS]:
        parts.append(_tick("fail", scale.of(seconds, place), name, f"{tool} failed"))
    label = "size of the context over time" if whole.context else "the course of the conversation"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="group" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


class _Scale:
    """Where a moment stands across: by the clock with idle hours squeezed, or by the count of
    events."""

    def __init__(self, whole: Gathered) -> None:
        self._active = whole.active
        self._events = whole.events

    def of(self, seconds: float, place: int) -> str:
        share = seconds / self._active if self._active else place / max(1, self._events)
        return f"{min(1.0, share) * (_WIDTH - 4):.0f}"


def _tick(kind: str, x: str, name: str, words: str) -> str:
    y, height = (0, _HEIGHT) if kind == "tick" else (_HEIGHT - 14, 14)
    return (
        f'<a href="#{attribute(name)}" aria-label="{attribute(words)}"><title>{attribute(words)}</title>'
        f'<rect class="{kind}" x="{x}" y="{y}" width="3" height="{height}"/></a>'
    )


def _area(whole: Gathered, scale: _Scale) -> str:
    """The context as an area, one point a column: the largest of those that fall into it."""
    highest: dict[int, int] = {}
    for seconds, place, tokens in whole.context:
        column = int(float(scale.of(seconds, place)) * _COLUMNS / _WIDTH)
        highest[column] = max(highest.get(column, 0), tokens)
    top = max(highest.values(), default=0)
    if not top:
        return f'<rect class="area" x="0" y="{_HEIGHT - 3}" width="{_WIDTH}" height="3"/>'
    heights = [
        (column, f"{_HEIGHT - highest[column] / top * (_HEIGHT - 6):.0f}")
        for column in sorted(highest)
    ]
    points = [f"0,{_HEIGHT}", f"0,{heights[0][1]}"]
    points += [f"{column * _WIDTH // _COLUMNS},{y}" for column, y in heights]
    points += [f"{_WIDTH},{heights[-1][1]}", f"{_WIDTH},{_HEIGHT}"]
    return f'<polygon class="area" points="{" ".join(points)}"/>'
