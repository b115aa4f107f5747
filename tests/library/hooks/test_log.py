"""The log of hook calls is bounded and contains nothing of a conversation."""

from pathlib import Path

import pytest

from open_token.library.hooks import log as log_module
from open_token.library.hooks.log import LOG, LogLine, append_log, read_last_lines


def build_line(runtime: str, result: str) -> LogLine:
    return LogLine(at="2026-01-02T03:04:05Z", runtime=runtime, result=result)


def test_the_last_line_of_each_runtime(tmp_path: Path) -> None:
    assert read_last_lines(tmp_path) == {}
    for line in (
        build_line("codex", "new"),
        build_line("cursor", "failed"),
        build_line("codex", "unchanged"),
    ):
        append_log(tmp_path, line)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes() + b"{half")
    assert {name: line.result for name, line in read_last_lines(tmp_path).items()} == {
        "codex": "unchanged",
        "cursor": "failed",
    }


def test_hook_log_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_MAX_LOG_SIZE", 200)
    append_log(tmp_path, build_line("cursor", "new"))
    for _ in range(20):
        append_log(tmp_path, build_line("codex", "new"))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 800
    append_log(tmp_path / "no such folder", build_line("codex", "new"))
