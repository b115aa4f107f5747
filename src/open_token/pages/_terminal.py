"""What a command wrote, as HTML: its colours as classes, every other code of a terminal made
visible."""

import re

from open_token.pages._escaped import escaped

_CODE = re.compile(r"\x1b\[([0-9;]{0,40})m")
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[@-l`n-~]|\([AB012])")
_COLOURS = ("k", "r", "g", "y", "b", "m", "c", "w")


def coloured(text: str) -> str:
    """Text with its colours; moves of the cursor, which say nothing on paper, are shown as they
    are."""
    if "\x1b" not in text:
        return escaped(text)
    made: list[str] = []
    state: list[str] = []
    end = 0
    for found in _CODE.finditer(text):
        made.append(_piece(text[end : found.start()], state))
        state = _after(state, found[1])
        end = found.end()
    made.append(_piece(text[end:], state))
    return "".join(made)


def without_colours(text: str) -> str:
    """Text without the codes of its colours and of moves of the cursor."""
    return _CONTROL.sub("", _CODE.sub("", text)) if "\x1b" in text else text


def _piece(text: str, state: list[str]) -> str:
    if not text:
        return ""
    return f'<span class="{" ".join(state)}">{escaped(text)}</span>' if state else escaped(text)


def _after(state: list[str], codes: str) -> list[str]:
    """The classes after a code; the 256 colours and true colours are taken for what they are
    closest to: none."""
    numbers = [int(code) for code in codes.split(";") if code] or [0]
    if numbers[0] in (38, 48):
        return state
    for number in numbers:
        if number == 0:
            state = []
        elif number == 1:
            state = [*(name for name in state if name != "hi"), "hi"]
        elif number == 39:
            state = [name for name in state if name == "hi"]
        elif number == 22:
            state = [name for name in state if name != "hi"]
        elif 30 <= number <= 37 or 90 <= number <= 97:
            state = [*(name for name in state if name == "hi"), f"t{_COLOURS[number % 10]}"]
    return state
