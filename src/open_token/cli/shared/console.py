"""The terminal: results on stdout, messages on stderr, control characters escaped, optional color."""

import contextlib
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from open_token.errors import InputError
from open_token.jsontools.walk import replace_lone_surrogates

_COLORS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_BIDI_CONTROLS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
# The same characters in UTF-8, except newlines and tabs; in JSON they are only within strings.
_RAW_CONTROL = re.compile(
    rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c"
    rb"|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
_BEGUN_CHARACTERS = (b"\xe2\x80", b"\xe2\x81", b"\xc2", b"\xd8", b"\xe2")
_DEFAULT_WIDTH = 100
_AGE_UNITS = (
    (3600, 60, "min"),
    (86400, 3600, "h"),
    (86400 * 60, 86400, "d"),
    (86400 * 730, 86400 * 30, "mo"),
)


def escape_controls(text: str) -> str:
    """Return untrusted text on one line, with everything a terminal would interpret escaped."""
    return text.translate(_escape_table())


@cache
def _escape_table() -> dict[int, str]:
    controls = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
    others = {code: f"\\u{code:04x}" for code in (*_BIDI_CONTROLS, *range(0xD800, 0xE000))}
    return controls | others


def truncate_to_columns(text: str, columns: int) -> str:
    """Cut text to a number of screen columns; a cut text ends with `...`."""
    width = 0
    fitting = 0
    for position, character in enumerate(text):
        width += _count_character_columns(character)
        if width <= columns - 3:
            fitting = position + 1
        if width > columns:
            return text[:fitting] + "..."
    return text


def count_columns(text: str) -> int:
    """Return the number of screen columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_count_character_columns, text))


def _count_character_columns(character: str) -> int:
    if character.isascii():
        return 1
    # Combining and format characters take no column, East Asian wide ones take two.
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 1


def encode_pretty_json(value: Any) -> bytes:
    """Encode a value as indented JSON with a final newline, control characters as escapes."""
    encoded = msgspec.json.encode(replace_lone_surrogates(value))
    return escape_raw_controls(msgspec.json.format(encoded, indent=2)) + b"\n"


def escape_raw_controls(data: bytes) -> bytes:
    """Return UTF-8 text with all that steers a terminal as `\\u009b`: JSON stays the same JSON."""
    return _RAW_CONTROL.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), data)


class TerminalStream:
    """Standard output on a screen: content must not steer the terminal, whatever writes it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._begun = b""
        """The first bytes of a character whose others come with the next write."""

    def write(self, data: bytes) -> int:
        """Write with control characters as escapes."""
        text = self._begun + bytes(data)
        self._begun = next((begun for begun in _BEGUN_CHARACTERS if text.endswith(begun)), b"")
        self._stream.write(escape_raw_controls(text[: len(text) - len(self._begun)]))
        return len(data)

    def flush(self) -> None:
        """Write what was held back, too."""
        self._stream.write(self._begun)
        self._begun = b""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Console:
    """Standard streams and environment of one command."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = os.environ if env is None else env
        self.quiet = False
        self.color = "auto"

    @cached_property
    def cwd(self) -> Path:
        """The working directory."""
        try:
            return Path.cwd()
        except OSError:
            raise InputError(
                "the working directory no longer exists", help="change to another directory"
            ) from None

    @property
    def home(self) -> Path:
        """The user's home directory."""
        return Path(self.env.get("HOME") or self.env.get("USERPROFILE") or os.path.expanduser("~"))

    @property
    def is_interactive(self) -> bool:
        """Whether a user can answer questions: stdin and stderr are terminals."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether results go to a screen."""
        return sys.stdout.isatty()

    @property
    def stderr_is_terminal(self) -> bool:
        """Whether messages go to a screen."""
        return sys.stderr.isatty()

    @property
    def stdout(self) -> BinaryIO:
        """The binary stream for results; on a screen it escapes control characters."""
        sys.stdout.flush()
        if not self.stdout_is_terminal:
            return sys.stdout.buffer
        return cast(BinaryIO, self._terminal_stream)

    @cached_property
    def _terminal_stream(self) -> TerminalStream:
        return TerminalStream(sys.stdout.buffer)

    @cached_property
    def stdin(self) -> BinaryIO:
        """The binary stream behind the source `-`; a user at a terminal is told to type."""
        if sys.stdin.isatty():
            self.info("reading from the terminal; end with Ctrl-D on an empty line")
        return sys.stdin.buffer

    def print(self, text: str) -> None:
        """Write a line of the result, which may be colored, to stdout."""
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))

    def print_json(self, value: Any) -> None:
        """Write a JSON result to stdout."""
        self.stdout.write(encode_pretty_json(value))

    def info(self, text: str) -> None:
        """Write a status line to stderr, unless --quiet was given."""
        if self.quiet:
            return
        # Both streams may show on one screen: what was printed before comes first.
        sys.stdout.flush()
        sys.stderr.write(text + "\n")

    def warn(self, text: str) -> None:
        """Write a warning to stderr, also with --quiet."""
        prefix = self.style("warning:", "yellow", sys.stderr.isatty())
        sys.stderr.write(f"{prefix} {text}\n")

    def error(self, text: str) -> None:
        """Write an error message to stderr; its first word is colored."""
        prefix, _, rest = text.partition(" ")
        sys.stderr.write(f"{self.style(prefix, 'red', sys.stderr.isatty())} {rest}\n")

    def style(self, text: str, color: str, is_terminal: bool) -> str:
        """Color a text as --color, NO_COLOR and TERM demand."""
        is_colored = self.color == "always"
        if self.color == "auto":
            is_colored = is_terminal and self._supports_color()
        if is_colored:
            return f"\x1b[{_COLORS[color]}m{text}\x1b[0m"
        return text

    def _supports_color(self) -> bool:
        return not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb"

    def width(self) -> int:
        """Return the number of columns of the screen."""
        try:
            return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
        except (OSError, ValueError):
            return _DEFAULT_WIDTH


def print_table(
    headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], console: Console
) -> None:
    """Print rows aligned under headings on a screen, and tab-separated in a pipe."""
    # In a pipe: no heading, no alignment, nothing cut, so that `cut` and `awk` work.
    if not console.stdout_is_terminal:
        for row in rows:
            console.print("\t".join(row))
        return
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = [_align(cell, width) for cell, width in zip(row, widths, strict=True)]
        console.print(truncate_to_columns("  ".join(cells).rstrip(), console.width()))


def _align(cell: str, width: int) -> str:
    if cell.isdecimal():
        return cell.rjust(width)
    return cell.ljust(width)


def format_size(count: int) -> str:
    """Format a number of bytes, such as `1.2 MB`."""
    if count < 1000:
        return f"{count} B"
    scaled = count / 1000
    for unit in ("kB", "MB"):
        if scaled < 999.5:
            return f"{scaled:.1f} {unit}"
        scaled /= 1000
    return f"{scaled:.1f} GB"


def pluralize(count: int, noun: str) -> str:
    """Format a count with its noun, such as `1 event` or `2 events`."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}s"


def shorten_path(path: Path, home: Path) -> str:
    """Return a path with `~` for the home directory."""
    if path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


def format_age(seconds: float) -> str:
    """Format an age as one short word, such as `3d`."""
    for limit, unit, name in _AGE_UNITS:
        if seconds < limit:
            return f"{max(0, int(seconds // unit))}{name}"
    return f"{int(seconds // (86400 * 365))}y"


def discard_stdout() -> None:
    """Send buffered and further output nowhere, after the reader of a pipe went away."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
