"""What looks about on this machine is loaded only when it is needed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LINE = (
    '{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2026-01-02T03:04:05Z",'
    '"message":{"role":"user","content":"Hi"}}\n'
)
UNUSED = {
    "asyncio",
    "shutil",
    "sqlite3",
    "ssl",
    "tempfile",
    "tomllib",
    "yaml",
    "zipfile",
    "open_token.cli.shared.session_selection",
    "open_token.library.discovery",
    "open_token.native.embed",
    "open_token.redaction.user_rules",
    "platformdirs",
    "phonenumbers",
}
"""What an export of a small file has no use for, and would pay for at every start."""


AT_FIRST = {"shutil", "tempfile", "tomllib"}
"""What creates the local key and keeps the rules of redaction in the cache, once."""


@pytest.mark.parametrize(
    ("word", "once"), [("redact=none", {"shutil", "tempfile"}), ("redact=secrets", AT_FIRST)]
)
def test_an_export_of_a_file_loads_only_what_it_needs(
    word: str, once: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(LINE)
    code = "import sys\nfrom open_token.cli import main\nmain(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, "export", str(path), word, "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = set(run.stderr.split())
    assert "open_token.agents.claude_code.detect" in loaded
    assert UNUSED & loaded <= once
    others = {
        name for name in loaded if re.fullmatch(r"open_token\.(agents|formats)\.\w+\.detect", name)
    }
    assert len(others) <= 12, f"{sorted(others)}: give other formats signatures"
