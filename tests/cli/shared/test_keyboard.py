"""Keys one by one, as a terminal sends them."""

import sys

import pytest

from helpers.terminal import Terminal
from open_token.cli.shared.keyboard import DOWN, ENTER, ERASE, ESCAPE, UP, raw_terminal, read_key


def test_keys_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "a\x1b[Aé\x1bOB\r\x7f\x1b[3~\x1b".encode()
    with Terminal(monkeypatch, ("ready", keys)) as terminal, raw_terminal():
        # What is typed before the terminal is raw is thrown away, so the person waits for a word.
        sys.stderr.write("ready")
        sys.stderr.flush()
        typed = [read_key() for _ in range(8)]
    assert typed[:6] == ["a", UP, "é", DOWN, ENTER, ERASE]
    assert typed[7] == ESCAPE
    assert terminal.restored
