"""Hugging Face `datasets` takes the profile `hf` for agent traces."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT
from dataset.conftest import Build

PYTHON = ROOT / ".venv.datasets" / "bin" / "python"


@pytest.mark.full
def test_every_column_of_agent_traces_has_its_type(
    sessions: Path, build: Build, tmp_path: Path
) -> None:
    if not PYTHON.exists():
        pytest.skip("datasets is not installed; `make test-full` does it")
    folder = build("sessions", "--to", "hf")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    script = Path(__file__).with_name("load_traces.py")
    env = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, script, folder, tmp_path / "cache"], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "rows": manifest["conversations"],
        "other_columns": [],
        "roles": ["assistant", "developer", "system", "tool", "user"],
        "events": manifest["events"],
    }
