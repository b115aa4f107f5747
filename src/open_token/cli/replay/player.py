"""`open-token replay view`: play a session in a terminal, in its own timing or step by step."""

import argparse
import math
import select
import sys

import msgspec

from open_token.cli.replay.source import load_session
from open_token.cli.shared.console import (
    Console,
    escape_controls,
    pluralize,
    truncate_to_columns,
)
from open_token.cli.shared.keyboard import ENTER, ERASE, ESCAPE, raw_terminal, read_key
from open_token.errors import UsageError
from open_token.options import ExportOptions, split_option_words
from open_token.replay.frames import Frame, build_frames

_KEY_HINTS = "q quit  space pause  n p step  N P prompt  e error  / find"
_MAX_PAUSE = 2.0
"""Longest pause between events, in seconds, however long it took originally."""
_DEFAULT_PAUSE = 0.4
"""Seconds between events without timestamps."""
_FIXED_OPTIONS = {"mode": "json", "pretty": "false", "integrity": "none", "native": "none"}
_COLORS = {"prompt": "bold", "tool_use": "cyan", "tool_result": "dim"}
_CLEAR_LINE = "\r\x1b[K"


def view(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Play in a terminal; print everything at once in a pipe."""
    if not (math.isfinite(args.speed) and args.speed > 0):
        raise UsageError("--speed must be a positive number", help="for example --speed 8")
    option_words, others = split_option_words(words)
    options = ExportOptions.of({**option_words, **_FIXED_OPTIONS})
    session = load_session(args, others, options, console)
    frames = _select_frames(build_frames(session.document), session.receipt.events, args)
    if args.json:
        encoded = msgspec.to_builtins(frames)
        console.print_json({"schema": "open-token/replay-view/1", "frames": encoded})
    elif console.is_interactive and console.stdout_is_terminal:
        with raw_terminal():
            Player(frames, args.speed, console).play()
    else:
        for frame in frames:
            for line in frame.lines:
                console.print(escape_controls(line))
    return 0


def _select_frames(frames: list[Frame], total: int, args: argparse.Namespace) -> list[Frame]:
    remedy = f"events are numbered from 1 to {total}"
    for flag, number in (("--start", args.start), ("--end", args.end)):
        if number is not None and number < 1:
            raise UsageError(f"{flag} must be an event number", help=remedy)
    if args.start is not None and args.start > total:
        events = pluralize(total, "event")
        raise UsageError(
            f"--start {args.start} is past the end: the session has {events}", help=remedy
        )
    first = args.start or 1
    last = total if args.end is None else args.end
    if last < first:
        raise UsageError("--end is before --start", help=remedy)
    return [frame for frame in frames if first <= frame.seq <= last]


class Player:
    """Shows frames with a status line below, and reacts to keys."""

    def __init__(self, frames: list[Frame], speed: float, console: Console) -> None:
        self._frames = frames
        self._speed = speed
        self._console = console
        self._position = 0
        self._is_paused = False
        self._search = ""

    def play(self) -> None:
        """Play until the end or until q is pressed."""
        while self._position < len(self._frames):
            self._show_frame(self._frames[self._position])
            self._position += 1
            if not self._wait():
                break
        self._write(_CLEAR_LINE)

    def _show_frame(self, frame: Frame) -> None:
        lines = [f"{self._style_line(frame, escape_controls(line))}\r\n" for line in frame.lines]
        self._write(_CLEAR_LINE + "".join(lines))

    def _style_line(self, frame: Frame, line: str) -> str:
        color = "red" if frame.is_error else _COLORS.get(frame.kind)
        if color:
            return self._console.style(line, color, True)
        return line

    def _wait(self) -> bool:
        """Wait for the next frame or a key; return False to stop."""
        if self._position == len(self._frames):
            return False
        while True:
            self._show_status()
            seconds = None if self._is_paused else self._compute_pause()
            if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
                return True
            key = read_key()
            if key in ("q", ESCAPE):
                return False
            if key == " ":
                self._is_paused = not self._is_paused
            elif self._advance(key):
                return True

    def _advance(self, key: str) -> bool:
        """Move on as a key demands; return whether it did. Stepping pauses playback."""
        if key in ("n", ENTER):
            self._is_paused = True
            return True
        if key in ("p", "P"):
            return self._go_back(key)
        if key == "/":
            self._search = self._read_search()
        elif key not in ("N", "e"):
            return False
        self._is_paused = True
        for position in range(self._position, len(self._frames)):
            if self._is_target(key, self._frames[position]):
                break
        else:
            self._write(f"{_CLEAR_LINE}(no more)\r\n")
            return False
        if position > self._position:
            self._write(f"{_CLEAR_LINE}... {position - self._position:,} skipped\r\n")
        self._position = position
        return True

    def _go_back(self, key: str) -> bool:
        """Show the frame before this one again, or the prompt before it; stay at the first."""
        self._is_paused = True
        shown = self._position - 1
        for position in range(shown - 1, -1, -1):
            if key == "p" or self._frames[position].kind == "prompt":
                self._write(f"{_CLEAR_LINE}... back to {self._frames[position].seq:,}\r\n")
                self._position = position
                return True
        self._write(f"{_CLEAR_LINE}(this is the first)\r\n")
        return False

    def _is_target(self, key: str, frame: Frame) -> bool:
        if key == "N":
            return frame.kind == "prompt"
        if key == "e":
            return frame.is_error
        return bool(self._search) and any(self._search in line.lower() for line in frame.lines)

    def _read_search(self) -> str:
        """Read a search text from the status line; Esc cancels."""
        typed = ""
        while True:
            self._write(f"{_CLEAR_LINE}/{escape_controls(typed)}")
            key = read_key()
            if key == ENTER:
                return typed.lower()
            if key == ESCAPE:
                return ""
            if key == ERASE:
                typed = typed[:-1]
            elif len(key) == 1:
                typed += key

    def _compute_pause(self) -> float:
        """Return the seconds to the next frame: as recorded, but never long."""
        current = self._frames[self._position - 1].at
        following = self._frames[self._position].at
        if current is None or following is None:
            return _DEFAULT_PAUSE / self._speed
        return min(max(following - current, 0) / 1000 / self._speed, _MAX_PAUSE)

    def _show_status(self) -> None:
        frame = self._frames[self._position - 1]
        last = self._frames[-1]
        times = ""
        if last.at is not None:
            times = f"{_format_time(frame.at)} / {_format_time(last.at)}"
        state = "paused" if self._is_paused else f"{self._speed:g}x"
        line = f" {frame.seq}/{last.seq}  {times}  {state}   {_KEY_HINTS}"
        self._write(_CLEAR_LINE + truncate_to_columns(line, self._console.width() - 1))

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _format_time(milliseconds: int | None) -> str:
    seconds = max(0, milliseconds or 0) // 1000
    hours = f"{seconds // 3600}:" if seconds >= 3600 else ""
    return f"{hours}{seconds // 60 % 60:02d}:{seconds % 60:02d}"
