"""Terminal output as HTML: colours become classes, other escape sequences become visible."""

import re

from open_token.writers.escape import escape_html

_SGR = re.compile(r"\x1b\[([0-9;]{0,40})m")
_OTHER_CODES = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[@-l`n-~]|\([AB012])")
_COLORS = ("k", "r", "g", "y", "b", "m", "c", "w")
_BOLD = "hi"


def render_colors(text: str) -> str:
    """Return text as HTML with its colours as spans; cursor movements are shown as escapes."""
    if "\x1b" not in text:
        return escape_html(text)
    parts: list[str] = []
    classes: list[str] = []
    end = 0
    for match in _SGR.finditer(text):
        parts.append(_render_span(text[end : match.start()], classes))
        classes = _apply_codes(classes, match[1])
        end = match.end()
    parts.append(_render_span(text[end:], classes))
    return "".join(parts)


def strip_escapes(text: str) -> str:
    """Return text without colours and cursor movements."""
    if "\x1b" not in text:
        return text
    return _OTHER_CODES.sub("", _SGR.sub("", text))


def _render_span(text: str, classes: list[str]) -> str:
    if not text:
        return ""
    if not classes:
        return escape_html(text)
    return f'<span class="{" ".join(classes)}">{escape_html(text)}</span>'


def _apply_codes(classes: list[str], codes: str) -> list[str]:
    """Return the classes after an SGR sequence. 256-colour and true-colour codes are ignored."""
    numbers = [int(code) for code in codes.split(";") if code] or [0]
    if numbers[0] in (38, 48):
        return classes
    for number in numbers:
        bold = [_BOLD] if _BOLD in classes else []
        color = [name for name in classes if name != _BOLD]
        if number == 0:
            classes = []
        elif number == 1:
            classes = [*color, _BOLD]
        elif number == 22:
            classes = color
        elif number == 39:
            classes = bold
        elif 30 <= number <= 37 or 90 <= number <= 97:
            classes = [*bold, f"t{_COLORS[number % 10]}"]
    return classes
