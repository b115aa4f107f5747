"""Open datasets with the programs they are made for, and compare what those read with the manifest.

    python scripts/check_datasets.py VENVS SOURCES...

Inspect Scout, Docent, Daft and DuckDB bring hundreds of packages, so that they are in no extra and
in no test: each is installed into an environment of its own below VENVS, where it stays.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_SCOUT = """
import asyncio, sys
from inspect_scout import transcripts_from
from inspect_scout._transcript.types import TranscriptContent

async def count():
    rows = messages = 0
    wanted = TranscriptContent(messages="all", events=None)
    async with transcripts_from(sys.argv[1]).reader() as reader:
        async for info in reader.index():
            rows += 1
            messages += len((await reader.read(info, wanted)).messages)
    return rows, messages

print(*asyncio.run(count()))
"""
_DOCENT = """
import pathlib, sys
from docent.data_models import AgentRun

rows = messages = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("data/*.jsonl")):
    for line in path.read_text().splitlines():
        run = AgentRun.model_validate_json(line)
        rows += 1
        messages += sum(len(transcript.messages) for transcript in run.transcripts)
print(rows, messages)
"""
_DAFT = """
import sys, daft

table = daft.read_parquet(sys.argv[1] + "/conversations/**/*.parquet")
events = daft.read_parquet(sys.argv[1] + "/events/**/*.parquet")
print(table.count_rows(), events.count_rows())
"""
_DUCKDB = """
import sys, duckdb

count = "select count(*) from read_parquet('{}/{}/**/*.parquet')"
print(*(duckdb.sql(count.format(sys.argv[1], name)).fetchall()[0][0] for name in ("conversations", "events")))
"""


class Check(NamedTuple):
    """A program that opens a profile, and prints rows and messages or events."""

    profile: str
    requirements: tuple[str, ...]
    code: str


CHECKS = {
    "Inspect Scout": Check("scout", ("inspect-scout==0.6.1",), _SCOUT),
    "Docent": Check("docent", ("docent-python==0.1.88",), _DOCENT),
    "Daft": Check("events", ("daft", "pyarrow"), _DAFT),
    "DuckDB": Check("events", ("duckdb", "pyarrow"), _DUCKDB),
}


def prepare_environment(folder: Path, requirements: tuple[str, ...]) -> Path:
    """Return the Python of an environment with these packages; create it if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
    return python


def main() -> int:
    """Print what each program read; return 1 if it is not what was written."""
    venvs = Path(sys.argv[1]).absolute()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        manifests = {}
        for profile in {check.profile for check in CHECKS.values()}:
            output = Path(folder, profile)
            command = [sys.executable, "-m", "open_token", "dataset", *sys.argv[2:], "-q"]
            # Status 1: some files of the sources hold no conversation that can be read.
            status = subprocess.run([*command, "-o", str(output), "--to", profile]).returncode
            if status not in (0, 1):
                return 1
            manifests[profile] = json.loads((output / "manifest.json").read_bytes())
        for name, check in CHECKS.items():
            python = prepare_environment(venvs / name.replace(" ", "-").lower(), check.requirements)
            dataset = Path(folder, check.profile)
            result = subprocess.run(
                [str(python), "-c", check.code, str(dataset)], capture_output=True, text=True
            )
            if result.returncode:
                failures += 1
                print(f"{name}: {result.stderr.strip().splitlines()[-1]}")
                continue
            rows, parts = map(int, result.stdout.split())
            expected = manifests[check.profile]["conversations"]
            is_equal = rows == expected
            if check.profile == "events":
                is_equal = is_equal and parts == manifests["events"]["events"]
            failures += not is_equal
            word = "equal" if is_equal else f"WRONG, {expected:,} were written"
            print(f"{name}: {rows:,} conversations ({word}), {parts:,} messages or events")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
