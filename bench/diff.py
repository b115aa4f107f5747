"""How long it takes to find where two runs part: ours, difflib on the raw lines, and general JSON
diffs where they fit.

Two runs of one made-up session: the second has fresh ids and times, and an edit in every
seventeenth step (a changed argument, result or text, a step more or less). The peers live in a
virtual environment of their own (`python -m venv bench/out/diff_peers`, then `pip install deepdiff
jsonpatch` there), or are left out with a word."""

import difflib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from open_token import diff

PEERS = Path(__file__).parent / "out" / "diff_peers" / "bin" / "python"
WORDS = "tide table harbour clock moon water north gauge buoy storm ebb flood chart pilot anchor".split()
TOOLS = (("Bash", "command"), ("Read", "file_path"), ("Grep", "pattern"), ("Edit", "file_path"))
PEER = """
import json, sys, time
a, b = (json.load(open(path))["events"] for path in sys.argv[2:])
begin = time.process_time()
if sys.argv[1] == "jsonpatch":
    import jsonpatch
    count = len(list(jsonpatch.make_patch(a, b)))
else:
    from deepdiff import DeepDiff
    count = sum(len(part) for part in DeepDiff(a, b).values())
print(time.process_time() - begin, count)
"""


def words(chance: random.Random, count: int) -> str:
    """So many words."""
    return " ".join(chance.choices(WORDS, k=count))


def steps(events: int, chance: random.Random) -> list[list[dict[str, Any]]]:
    """A session, step by step: in turn a message of the model, and calls with their results."""
    made = [
        [
            {
                "type": "message",
                "role": "user",
                "content": {"mime": "text/plain", "text": words(chance, 30)},
            }
        ]
    ]
    count = 1
    while count < events:
        step = _said(chance) if chance.random() < 0.3 else _called(chance)
        made.append(step)
        count += len(step)
    return made


def _said(chance: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "type": "message",
            "role": "assistant",
            "content": {"mime": "text/plain", "text": words(chance, 25)},
        }
    ]


def _called(chance: random.Random) -> list[dict[str, Any]]:
    tool, argument = chance.choice(TOOLS)
    data = {
        "tool_name": tool,
        "arguments": {argument: words(chance, 4)},
        "native_call_id": f"t{chance.random()}",
    }
    text = "\n".join(words(chance, 9) for _ in range(chance.randrange(1, 12)))
    return [
        {
            "type": "tool_use",
            "role": "assistant",
            "content": {"mime": "application/json", "data": data},
        },
        {"type": "tool_result", "role": "tool", "content": {"mime": "text/plain", "text": text}},
    ]


def edited(
    session: list[list[dict[str, Any]]], chance: random.Random
) -> tuple[list[list[dict[str, Any]]], int]:
    """The session with a difference in every seventeenth step, and how many there are."""
    made: list[list[dict[str, Any]]] = []
    edits = 0
    for place, step in enumerate(session):
        way = chance.randrange(4) if place % 17 == 16 else None
        edits += way is not None
        copy = json.loads(json.dumps(step))
        if way == 0:
            made.append(_called(chance))
        elif way == 1:
            continue
        elif way is not None:
            content = copy[-1 if way == 2 else 0]["content"]
            content.update({"text": words(chance, 12)} if "text" in content else {})
            if "data" in content:
                content["data"]["arguments"] = {"command": words(chance, 4)}
        made.append(copy)
    return made, edits


def document(session: list[list[dict[str, Any]]], name: str, shift: int) -> dict[str, Any]:
    """The export of a session, with ids and times of its own."""
    events: list[dict[str, Any]] = []
    for step in session:
        for event in step:
            number = len(events) + 1 + shift
            moment = datetime.fromtimestamp(1_774_000_000 + number, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
            result = {
                "id": f"evt_{number:06d}",
                "seq": len(events) + 1,
                "ts": moment,
                "visibility": "public",
                **event,
            }
            if len(step) == 2:
                result["links"] = {"call_id": f"call_{number - (event is step[1]):06d}"}
            events.append(result | {"actor_id": "act_001"})
    people = [{"actor_id": "act_001", "kind": "model", "name": "assistant"}]
    return {
        "open_token_version": "0.1",
        "conversation": {"id": name},
        "participants": people,
        "events": events,
    }


def pair(events: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Two runs and the number of edits between them."""
    chance = random.Random(events)
    session = steps(events, chance)
    other, edits = edited(session, chance)
    return document(session, "one", 0), document(other, "other", 7), edits


def without_ids(event: dict[str, Any]) -> str:
    """An event as a line that is the same under other ids and at another time."""
    kept = {
        name: value for name, value in event.items() if name not in ("id", "seq", "ts", "links")
    }
    content = kept["content"]
    if "data" in content:
        data = {name: value for name, value in content["data"].items() if name != "native_call_id"}
        kept["content"] = {**content, "data": data}
    return json.dumps(kept, sort_keys=True)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time and what came of it."""
    begin = time.process_time()
    made = work()
    return time.process_time() - begin, made


def main() -> None:
    """Print a table."""
    for events in (10_000, 100_000):
        a, b, edits = pair(events)
        spent, made = seconds(lambda a=a, b=b: diff(a, b))
        found = sum(made.counts.values())
        print(
            f"{events:>7} events  {edits} edits  ours, compared      {spent:6.2f} s  {found} differences"
        )
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("a.json", "b.json")]
            for path, result in zip(paths, (a, b), strict=True):
                path.write_text(json.dumps(result))
            spent, made = seconds(lambda paths=paths: diff(*paths))
            print(
                f"{events:>7} events  {edits} edits  ours, from files    {spent:6.2f} s  read and redacted, too"
            )
            if events == 10_000:
                for name, form in (
                    ("difflib, raw lines", json.dumps),
                    ("difflib, no ids", without_ids),
                ):
                    lines = [[form(event) for event in result["events"]] for result in (a, b)]
                    spent, count = seconds(
                        lambda lines=lines: sum(1 for _ in difflib.unified_diff(*lines, n=0))
                    )
                    print(
                        f"{events:>7} events  {edits} edits  {name:18}  {spent:6.2f} s  {count} lines"
                    )
                peers(paths, events, edits)


def peers(paths: list[Path], events: int, edits: int) -> None:
    """General tools for JSON."""
    if not PEERS.exists():
        print("        jsonpatch and deepdiff are not installed in bench/out/diff_peers")
        return
    for name in ("jsonpatch", "deepdiff"):
        done = subprocess.run(
            [PEERS, "-c", PEER, name, *paths], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(
                f"{events:>7} events  {edits} edits  {name}: {done.stderr.strip().splitlines()[-1][:80]}"
            )
            continue
        spent, count = done.stdout.split()
        print(
            f"{events:>7} events  {edits} edits  {name:18}  {float(spent):6.2f} s  {count} changes"
        )


if __name__ == "__main__":
    sys.exit(main())
