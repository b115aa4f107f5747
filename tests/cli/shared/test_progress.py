"""The bar of a long read: on a terminal only, after a moment, and gone afterwards."""

import io
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from open_token.cli.shared import progress as module
from open_token.cli.shared.console import Console
from open_token.cli.shared.progress import COMPILING, Progress
from open_token.redaction import hyperscan_prefilter
from open_token.redaction.detector import load_rules
from open_token.redaction.ruleset import RuleSet


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_progress_appears_after_a_delay_and_is_erased(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Terminal(monkeypatch) as terminal, Progress(32_300_000, Console(env={})) as tell:
        for clock.now, done in (
            (0.2, 1_000_000),
            (0.35, 16_150_000),
            (0.4, 17_000_000),
            (0.5, 32_300_000),
        ):
            tell(done)
    assert [part for part in terminal.seen.split("\r") if part] == [
        f"reading [{'#' * 12:24}]  50%  16.1 MB / 32.3 MB\x1b[K",
        f"reading [{'#' * 24}] 100%  32.3 MB / 32.3 MB\x1b[K",
        "\x1b[K",
    ]


def test_progress_is_erased_before_the_payload(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Terminal(monkeypatch, stdout=True) as terminal, Progress(100, Console(env={})) as tell:
        clock.now = 5.0
        tell(50)
        out = tell.clear_before_output(Console(env={}).stdout)
        assert out.write(b"{") + out.write(b"}") == 2
        clock.now = 6.0
        tell(100)
        Console(env={}).stdout.flush()
    assert terminal.seen.endswith("\r\x1b[K{}")


def test_after_reading_progress_reports_what_is_written(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = io.BytesIO()
    with Terminal(monkeypatch) as terminal, Progress(100, Console(env={})) as tell:
        out = tell.count_file(made)
        for clock.now, done in ((0.4, 98), (0.45, 100)):
            tell(done)
        for clock.now in (0.5, 0.6, 0.61):
            assert out.write(b"x" * 1000) == 1000
    assert [part for part in terminal.seen.split("\r") if part] == [
        f"reading [{'#' * 23:24}]  98%  98 B / 100 B\x1b[K",
        "writing ...\x1b[K",
        "writing 2.0 kB\x1b[K",
        "\x1b[K",
    ]
    assert made.getvalue() == b"x" * 3000


def test_a_file_that_is_longer_than_it_was_is_reported_no_more_often(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Terminal(monkeypatch) as terminal, Progress(100, Console(env={})) as tell:
        clock.now = 0.4
        for done in (50, 100, 110, 120, 130):
            tell(done)
        clock.now = 0.6
        tell(140)
    assert [part[-16:] for part in terminal.seen.split("\r") if part] == [
        "  50 B / 100 B\x1b[K"[-16:],
        "100 B / 100 B\x1b[K",
        "140 B / 100 B\x1b[K",
        "\x1b[K",
    ]


def test_a_short_read_shows_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, Progress(100, Console(env={})) as tell:
        tell(50)
    assert terminal.seen == ""


def test_quiet_shows_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(env={})
    console.quiet = True
    with Terminal(monkeypatch) as terminal, Progress(100, console) as tell:
        clock.now = 5.0
        tell(50)
    assert terminal.seen == ""


def test_a_pipe_shows_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(100, Console(env={})) as tell:
        clock.now = 5.0
        tell(50)
    assert capsys.readouterr().err == ""


def test_an_unknown_size_does_no_harm(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch) as terminal, Progress(0, Console(env={})) as tell:
        clock.now = 1.0
        tell(50)
    assert "0%  50 B / 0 B" in terminal.seen


def test_rules_that_are_compiled_are_announced_at_once(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hyperscan")
    rules = RuleSet(load_rules("secrets", None)[:3])
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    for name in ("cold", "stored", "after"):
        with Terminal(monkeypatch) as terminal, Progress(100, Console(env={})) as progress:
            if name == "after":
                progress.end()
                hyperscan_prefilter.build_prefilter(rules, tmp_path / name, None)
            else:
                hyperscan_prefilter.build_prefilter(rules, tmp_path, None)
        expected = f"\r{COMPILING}\x1b[K\r\x1b[K" if name == "cold" else ""
        assert terminal.seen == expected, name


def test_large_work_of_processes_shows_that_it_has_begun(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, is_shown in ((1 << 24, True), (1 << 16, False)):
        with Terminal(monkeypatch) as terminal:
            progress = Progress(size, Console(env={}), "indexing 2 sessions", has_rate=True)
            progress.begin()
            progress.end()
        assert ("indexing 2 sessions [" in terminal.seen) is is_shown
