"""Run by test_tables.py in an environment with `datasets` and DuckDB: load event lines as one table.

Prints what both read: the number of events, and the sum of every count of tokens.
"""

import json
import sys
from pathlib import Path
from typing import Any

import datasets
import duckdb

COUNTS = json.loads(sys.argv[2])
TEXTS = ("id", "ts", "type", "actor_id", "visibility", "role")
LINKS = ("parent_id", "replies_to", "call_id", "span_id")


def load_with_datasets(files: list[str], cache: str) -> dict[str, Any]:
    """Load the files with the features of an event; a count that is null is an error."""
    text = datasets.Value("string")
    number = datasets.Value("int64")
    features = {
        **dict.fromkeys(TEXTS, text),
        "seq": number,
        "content": datasets.Json(),
        "links": dict.fromkeys(LINKS, text),
        "usage": dict.fromkeys(COUNTS, number),
    }
    table = datasets.load_dataset(
        "json",
        data_files=files,
        split="train",
        features=datasets.Features(features),
        cache_dir=cache,
    )
    used = [usage for usage in table["usage"] if usage]
    return {"events": table.num_rows, **{name: sum(use[name] for use in used) for name in COUNTS}}


def load_with_duckdb(files: list[str]) -> dict[str, Any]:
    """Load the files as DuckDB infers them; a usage with a null in it is an error."""
    sums = ", ".join(f"sum(usage.{name})::BIGINT" for name in COUNTS)
    table = f"read_json({files!r})"
    ((events, *found),) = duckdb.sql(f"SELECT count(*), {sums} FROM {table}").fetchall()
    holes = " OR ".join(f"usage.{name} IS NULL" for name in COUNTS)
    unknown = duckdb.sql(f"SELECT id FROM {table} WHERE usage IS NOT NULL AND ({holes})").fetchall()
    assert not unknown
    return {"events": events, **dict(zip(COUNTS, found, strict=True))}


folder = Path(sys.argv[1])
lines = sorted(str(path) for path in folder.glob("*.jsonl"))
both = [load_with_datasets(lines, str(folder / "cache")), load_with_duckdb(lines)]
print(json.dumps(both))
