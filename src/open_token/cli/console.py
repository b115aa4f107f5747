"""The terminal: payload on stdout, words on stderr, control characters made visible, colours only
where wanted."""

import contextlib
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from open_token.errors import InputError
from open_token.walk import without_lone_surrogates

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))


def visible(text: str) -> str:
    """Text of a stranger on one line, without anything a terminal would obey."""
    return text.translate(_shown())


@cache
def _shown() -> dict[int, str]:
    """What stands for each character that a terminal would obey."""
    controls = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
    return controls | {code: f"\\u{code:04x}" for code in (*_TURNING, *range(0xD800, 0xE000))}


def cut(text: str, columns: int) -> str:
    """Text that takes no more than so many columns of a screen, `...` at its end where it was
    longer."""
    width, fits = 0, 0
    for place, character in enumerate(text):
        width += _columns(character)
        if width <= columns - 3:
            fits = place + 1
        if width > columns:
            return text[:fits] + "..."
    return text


def columns_of(text: str) -> int:
    """How many columns of a screen a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def as_json(value: Any) -> bytes:
    """A value for scripts, over several lines."""
    return (
        msgspec.json.format(msgspec.json.encode(without_lone_surrogates(value)), indent=2) + b"\n"
    )


class Console:
    """What a verb talks to, and what it may know of its surroundings."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = os.environ if env is None else env
        self.quiet = False
        self.colour = "auto"

    @cached_property
    def cwd(self) -> Path:
        """The working folder."""
        try:
            return Path.cwd()
        except OSError:
            raise InputError(
                "the working folder is gone", help="change to a folder that is there"
            ) from None

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return Path(self.env.get("HOME") or self.env.get("USERPROFILE") or os.path.expanduser("~"))

    @property
    def is_terminal(self) -> bool:
        """Whether a person can answer: both ends of the talk are a terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def out_is_terminal(self) -> bool:
        """Whether the payload goes to a screen."""
        return sys.stdout.isatty()

    @property
    def err_is_terminal(self) -> bool:
        """Whether the words go to a screen."""
        return sys.stderr.isatty()

    @property
    def payload(self) -> BinaryIO:
        """Where the payload's bytes go."""
        sys.stdout.flush()
        return sys.stdout.buffer

    @cached_property
    def stdin(self) -> BinaryIO:
        """Where bytes come from when SOURCE is -; whoever sits before a terminal is told that they
        are to type."""
        if sys.stdin.isatty():
            self.say("reading what you type, until Ctrl-D on a line of its own")
        return sys.stdin.buffer

    def out(self, text: str) -> None:
        """A line of payload."""
        self.payload.write(f"{text}\n".encode("utf-8", "backslashreplace"))

    def json(self, value: Any) -> None:
        """A JSON payload, for scripts."""
        self.payload.write(as_json(value))

    def say(self, text: str) -> None:
        """A line for the person, silenced by --quiet; it stands below the payload that was written
        before it."""
        if not self.quiet:
            sys.stdout.flush()
            sys.stderr.write(text + "\n")

    def warn(self, text: str) -> None:
        """A line for the person that --quiet does not silence."""
        sys.stderr.write(f"{self.paint('warning:', 'yellow', sys.stderr.isatty())} {text}\n")

    def error(self, text: str) -> None:
        """An error in its three parts."""
        head, _, rest = text.partition(" ")
        sys.stderr.write(f"{self.paint(head, 'red', sys.stderr.isatty())} {rest}\n")

    def paint(self, text: str, colour: str, terminal: bool) -> str:
        """Text in one of the base colours, where that is wanted."""
        if self.colour == "never" or (
            self.colour == "auto" and not (terminal and self._likes_colour())
        ):
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def _likes_colour(self) -> bool:
        return not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb"

    def width(self) -> int:
        """The columns of the screen."""
        try:
            return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
        except (OSError, ValueError):
            return 100


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """Rows as payload: aligned, headed and cut to the width of a screen; with tabs in a pipe."""
    if not console.out_is_terminal:
        for row in rows:
            console.out("\t".join(row))
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows) if rows else ():
        cells = (
            word.rjust(width) if word.isdecimal() else word.ljust(width)
            for word, width in zip(row, widths, strict=True)
        )
        console.out(cut("  ".join(cells).rstrip(), console.width()))


def size(count: int) -> str:
    """Bytes as a person says them."""
    if count < 1000:
        return f"{count} B"
    for unit in ("kB", "MB", "GB"):
        count_in_unit = count / 1000 ** (("kB", "MB", "GB").index(unit) + 1)
        if count_in_unit < 999.5 or unit == "GB":
            return f"{count_in_unit:.1f} {unit}"
    return f"{count} B"


def plural(count: int, noun: str) -> str:
    """A count and its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def relative_age(seconds: float) -> str:
    """How long ago, in one short word."""
    for limit, unit, name in (
        (3600, 60, "min"),
        (86400, 3600, "h"),
        (86400 * 60, 86400, "d"),
        (86400 * 730, 86400 * 30, "mo"),
    ):
        if seconds < limit:
            return f"{max(0, int(seconds // unit))}{name}"
    return f"{int(seconds // (86400 * 365))}y"


def close_stdout() -> None:
    """The reader of a pipe went away: what is written from now on, or waits to be, leads nowhere
    and raises nothing."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
