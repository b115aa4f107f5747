"""The witness of `export --report`, loaded only when it is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from open_token.cli.export import FidelityObserver
from open_token.cli.shared.console import Console
from open_token.context import Context
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source

EXAMPLE = Path(__file__).parents[2] / "examples" / "claude_code.jsonl"


def test_report_counts_what_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, seen = Source.of(EXAMPLE), FidelityObserver()
    with (tmp_path / "out").open("wb") as out:
        receipt = export(
            source, out, Context(ExportOptions.of({"redact": "none"})), "claude_code", seen
        )
    facts = seen.report(source, "claude_code", receipt.notes, Console())
    assert 70 < facts["said"]["percent"] < 100  # hidden reasoning is skipped
    assert "characters preserved" in capsys.readouterr().err


def test_an_export_without_a_report_does_not_load_it() -> None:
    code = "import sys; from open_token.cli import main; main(['export', sys.argv[1], '-q']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLE)], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1]
    assert "open_token.pipeline" in loaded
    for name in (
        "open_token.native.fidelity",
        "open_token.native.embed",
        "open_token.library.follow",
        "sqlite3",
        "zipfile",
        "yaml",
    ):
        assert f"'{name}'" not in loaded, name
