"""Runs in an environment of its own: load_traces.py DATASET CACHE prints what `datasets` made of it."""

import json
import sys

import datasets
from datasets.packaged_modules.json.json import AGENT_TRACES_FEATURES

rows = datasets.load_dataset(sys.argv[1], split="train", cache_dir=sys.argv[2])
matching = [name for name, kind in AGENT_TRACES_FEATURES.items() if rows.features[name] == kind]
roles = {message["role"] for row in rows for message in row["messages"]}
facts = {
    "rows": len(rows),
    "other_columns": sorted(set(AGENT_TRACES_FEATURES) - set(matching)),
    "roles": sorted(roles),
    "events": sum(len(row["trace"]["events"]) for row in rows),
}
print(json.dumps(facts))
