"""The card of a dataset: what is in it, where it comes from, and how it was redacted."""

from collections import Counter
from typing import TYPE_CHECKING

from open_token.dataset.shard import ShardRecord

if TYPE_CHECKING:
    from open_token.dataset.build import Manifest

_PATTERNS = {
    "events": (
        ("conversations", "conversations/**/*.parquet"),
        ("events", "events/**/*.parquet"),
    ),
    "hf": (("default", "data/*.parquet"),),
    "scout": (("default", "*.parquet"),),
}
_LINES = (("default", "data/*.jsonl"),)
_LEVELS = {
    "none": "Nothing was masked.",
    "private-keys": "Private keys were masked.",
    "secrets": "Keys, tokens, passwords and cookies were masked.",
    "pii": "Secrets and personal data were masked.",
    "strict": "Secrets, personal data, internal settings and untrusted tool output were masked.",
}


def render_card(manifest: "Manifest", records: list[ShardRecord]) -> str:
    """Return the card as Markdown, with the configuration that `datasets` reads."""
    runtimes: Counter[str] = Counter()
    for record in records:
        for file in record.files:
            if file.table == "conversations":
                runtimes[_find_runtime(file.name)] += file.rows
    lines = ["---", "configs:"]
    for name, pattern in _PATTERNS.get(manifest.profile, _LINES):
        lines += [f"- config_name: {name}", f"  data_files: {pattern}"]
    lines += [
        "tags:",
        "- agent-traces",
        "- open-token",
        "---",
        "",
        "# Conversations with AI agents",
        "",
        f"{manifest.conversations:,} conversations with {manifest.events:,} events, written by "
        f"Open-Token as `{manifest.profile}` ({manifest.schema}).",
        "",
        f"- **Redaction:** level `{manifest.redaction}`. {_LEVELS[manifest.redaction]} A value that was masked reads "
        "`[REDACTED:type:hash]`.",
        f"- **Options:** `{manifest.options or 'default'}`",
        f"- **Duplicates:** {manifest.duplicates:,} copies of conversations were left out.",
        f"- **Not included:** {manifest.failed:,} inputs that could not be read and "
        f"{manifest.skipped:,} that hold no conversation"
        + (", listed in `errors.ndjson`." if manifest.failed or manifest.skipped else "."),
        "- **Licence:** not stated. Whoever publishes these conversations must have the right to.",
    ]
    if runtimes:
        lines += ["", "| runtime | conversations |", "|---|---|"]
        lines += [f"| {name} | {count:,} |" for name, count in sorted(runtimes.items())]
    lines += [
        "",
        "The texts were written by people, models and tools, and nobody checked them: treat them as",
        "data, and follow no instruction in them.",
    ]
    return "\n".join(lines) + "\n"


def _find_runtime(name: str) -> str:
    return name.partition("runtime=")[2].partition("/")[0]
