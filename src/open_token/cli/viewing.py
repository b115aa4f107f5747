"""`open-token replay view`: a conversation played in a terminal, in its own rhythm or step by
step."""

import argparse
import math
import select
import sys

import msgspec

from open_token.cli.console import Console, cut, plural, visible
from open_token.cli.keyboard import ENTER, ERASE, ESCAPE, key_typed, raw_terminal
from open_token.cli.recorded import recorded
from open_token.errors import UsageError
from open_token.options import ExportOptions, split_words
from open_token.replay.showing import Frame, frames_of

_KEYS = "space pause  n step  N prompt  e error  / find  q quit"
_LONGEST_WAIT = 2.0
"""Seconds that nobody waits longer for the next event, however long it took then."""
_USUAL_WAIT = 0.4
"""Seconds between events without times."""


def view(args: argparse.Namespace, words: list[str], console: Console) -> int:
    """Play in a terminal; in a pipe print all at once."""
    if not (math.isfinite(args.speed) and args.speed > 0):
        raise UsageError(
            "--speed takes a number above 0", help="for example --speed 8, eight times as fast"
        )
    chosen, others = split_words(words)
    plain = {"mode": "json", "pretty": "false", "integrity": "none", "native": "none"}
    read = recorded(args, others, ExportOptions.of({**chosen, **plain}), console)
    frames = _chosen(frames_of(read.document), read.receipt.events, args)
    if args.json:
        console.json({"schema": "open-token/replay-view/1", "frames": msgspec.to_builtins(frames)})
    elif console.is_terminal and console.out_is_terminal:
        with raw_terminal():
            Player(frames, args.speed, console).play()
    else:
        for frame in frames:
            for line in frame.lines:
                console.out(visible(line))
    return 0


def _chosen(frames: list[Frame], total: int, args: argparse.Namespace) -> list[Frame]:
    for name, number in (("--start", args.start), ("--end", args.end)):
        if number is not None and not number >= 1:
            raise UsageError(f"{name} takes the number of an event", help=f"seq 1 to {total}")
    if args.start is not None and args.start > total:
        raise UsageError(
            f"--start {args.start} is past the end; this session has {plural(total, 'event')}",
            help=f"seq 1 to {total}",
        )
    low, high = args.start or 1, total if args.end is None else args.end
    if high < low:
        raise UsageError("--end comes before --start", help=f"seq 1 to {total}")
    return [frame for frame in frames if low <= frame.seq <= high]


class Player:
    """Frames on a screen, a line of state below them, and keys."""

    def __init__(self, frames: list[Frame], speed: float, console: Console) -> None:
        self._frames = frames
        self._speed = speed
        self._console = console
        self._place = 0
        self._paused = False
        self._sought = ""

    def play(self) -> None:
        """Until the end or q."""
        while self._place < len(self._frames):
            self._show(self._frames[self._place])
            self._place += 1
            if not self._wait():
                break
        self._write("\r\x1b[K")

    def _show(self, frame: Frame) -> None:
        lines = "".join(f"{self._painted(frame, visible(line))}\r\n" for line in frame.lines)
        self._write(f"\r\x1b[K{lines}")

    def _painted(self, frame: Frame, line: str) -> str:
        colour = (
            "red"
            if frame.is_error
            else {"prompt": "bold", "tool_use": "cyan", "tool_result": "dim"}.get(frame.kind)
        )
        return self._console.paint(line, colour, True) if colour else line

    def _wait(self) -> bool:
        """Wait for the next moment or a key; False to stop."""
        if self._place == len(self._frames):
            return False
        while True:
            self._status()
            seconds = None if self._paused else self._pause()
            if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
                return True
            key = key_typed()
            if key in ("q", ESCAPE):
                return False
            if key == " ":
                self._paused = not self._paused
            elif self._obeys(key):
                return True

    def _obeys(self, key: str) -> bool:
        """Whether a key leads on; whoever steps goes on stepping."""
        if key in ("n", ENTER):
            self._paused = True
            return True
        if key == "/":
            self._sought = self._asked()
        wanted = {"N": self._is_prompt, "e": self._is_error, "/": self._is_sought}.get(key)
        if wanted is None:
            return False
        self._paused = True
        ahead = range(self._place, len(self._frames))
        found = next((place for place in ahead if wanted(self._frames[place])), None)
        if found is None:
            self._write("\r\x1b[K(no more)\r\n")
            return False
        if found > self._place:
            self._write(f"\r\x1b[K... {found - self._place:,} left out\r\n")
        self._place = found
        return True

    def _is_prompt(self, frame: Frame) -> bool:
        return frame.kind == "prompt"

    def _is_error(self, frame: Frame) -> bool:
        return frame.is_error

    def _is_sought(self, frame: Frame) -> bool:
        return bool(self._sought) and any(self._sought in line.lower() for line in frame.lines)

    def _asked(self) -> str:
        """What to look for, typed at the bottom; Esc gives it up."""
        typed = ""
        while True:
            self._write(f"\r\x1b[K/{visible(typed)}")
            key = key_typed()
            if key in (ENTER, ESCAPE):
                return typed.lower() if key == ENTER else ""
            typed = typed[:-1] if key == ERASE else typed + key if len(key) == 1 else typed

    def _pause(self) -> float:
        """Seconds to the next frame, as it was then, but never long."""
        now, then = self._frames[self._place - 1].at, self._frames[self._place].at
        if now is None or then is None:
            return _USUAL_WAIT / self._speed
        return min(max(then - now, 0) / 1000 / self._speed, _LONGEST_WAIT)

    def _status(self) -> None:
        frame, last = self._frames[self._place - 1], self._frames[-1]
        times = f"{_clock(frame.at)} / {_clock(last.at)}" if last.at is not None else ""
        state = "paused" if self._paused else f"{self._speed:g}x"
        line = f" {frame.seq}/{last.seq}  {times}  {state}   {_KEYS}"
        self._write(f"\r\x1b[K{cut(line, self._console.width() - 1)}")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _clock(ms: int | None) -> str:
    seconds = max(0, ms or 0) // 1000
    hours = f"{seconds // 3600}:" if seconds >= 3600 else ""
    return f"{hours}{seconds // 60 % 60:02d}:{seconds % 60:02d}"
