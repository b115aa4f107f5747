"""Exports of all readers are one table: every usage has the same keys."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from helpers.golden_cases import CASES
from open_token.model.document import Usage

COUNTS = list(Usage.__annotations__)
PYTHON = ROOT / ".venv.datasets" / "bin" / "python"


def golden_events() -> dict[str, list[dict[str, Any]]]:
    """The events of every golden export by its case; an export that is read again stays as it is."""
    events = {}
    for case in CASES:
        text = (case / "expected.json").read_text()
        if case.parent.name != "open_token" and text.lstrip().startswith("{\n"):
            events[f"{case.parent.name}-{case.name}"] = json.loads(text)["events"]
    return events


def test_every_usage_has_the_same_keys() -> None:
    keys = {
        tuple(e["usage"]) for events in golden_events().values() for e in events if "usage" in e
    }
    assert keys == {tuple(COUNTS)}


@pytest.mark.full
def test_exports_of_all_readers_load_together(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("datasets is not installed; `make test-full` does it")
    expected: Counter[str] = Counter()
    for name, events in golden_events().items():
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (tmp_path / f"{name}.jsonl").write_text(lines)
        expected["events"] += len(events)
        for event in events:
            expected.update(event.get("usage", {}))
    script = Path(__file__).with_name("load_tables.py")
    env = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, script, tmp_path, json.dumps(COUNTS)], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [expected, expected]
