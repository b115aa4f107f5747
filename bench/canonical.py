"""Speed of RFC 8785 bytes: ours beside orjson, json and rfc8785, over events made here: MB/s and
the exact share."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import orjson
import rfc8785

from open_token.jsontools.canonical import encode_canonical, encode_event, hash_events

Event = dict[str, Any]
WORDS = "the build fails in stage two because its lock file is stale see log line run tests again then merge".split()
ACCENTS = "构建失败，因为锁文件已过期。 très déjà größer ✅ ❤️ 🎉 naïve".split()
EVENTS_PER_SET = 2000
ROUNDS = 7


def text_event(rng: random.Random, seq: int, words: list[str]) -> Event:
    text = " ".join(rng.choices(words, k=rng.randint(10, 220)))
    event = envelope(
        seq, "message", {"mime": "text/plain", "text": text.replace("line", 'line "7"\n')}
    )
    if seq % 2:
        event["usage"] = {"input_tokens": rng.randrange(9000), "output_tokens": rng.randrange(900)}
    return event


def data_event(rng: random.Random, seq: int, score: Callable[[random.Random], object]) -> Event:
    arguments = {
        "command": " ".join(rng.choices(WORDS, k=rng.randint(3, 30))),
        "timeout": rng.randrange(1000),
        "env": {"LANG": "C", "HOME": "/home/user"},
        "files": [f"src/file_{rng.randrange(99)}.py" for _ in range(4)],
        "edits": [
            {"line": rng.randrange(500), "keep": True, "score": score(rng)} for _ in range(2)
        ],
    }
    event = envelope(
        seq,
        "tool_use",
        {"mime": "application/json", "data": {"tool_name": "shell", "arguments": arguments}},
    )
    event["links"] = {"call_id": f"call_{seq:06}"}
    return event


def envelope(seq: int, kind: str, content: Event) -> Event:
    return {
        "id": f"evt_{seq:06}",
        "seq": seq,
        "ts": f"2026-01-31T00:{seq // 60 % 60:02}:{seq % 60:02}Z",
        "type": kind,
        "actor_id": "act_002",
        "visibility": "public",
        "role": "assistant",
        "content": content,
    }


def event_sets() -> dict[str, list[Event]]:
    rng = random.Random(8785)
    seqs = range(1, EVENTS_PER_SET + 1)
    return {
        "text": [text_event(rng, seq, WORDS) for seq in seqs],
        "text, not ASCII": [text_event(rng, seq, ACCENTS) for seq in seqs],
        "nested data": [data_event(rng, seq, lambda _: None) for seq in seqs],
        "nested, fractions": [data_event(rng, seq, random.Random.random) for seq in seqs],
        "nested, 1.0": [data_event(rng, seq, lambda _: 1.0) for seq in seqs],
    }


def best_seconds(
    runs: dict[str, Callable[[list[Event]], object]], events: list[Event]
) -> dict[str, float]:
    """Time all runs in turn, round after round, so that a busy moment of the machine does not hit
    only one of them."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for title, run in runs.items():
            started = time.process_time()
            run(events)
            best[title] = min(best[title], time.process_time() - started)
    return best


def over_all(encode: Callable[[Event], bytes]) -> Callable[[list[Event]], object]:
    def run(events: list[Event]) -> None:
        for event in events:
            encode(event)

    return run


def orjson_sorted(event: Event) -> bytes:
    return orjson.dumps(event, option=orjson.OPT_SORT_KEYS)


def json_sorted(event: Event) -> bytes:
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


ENCODERS: dict[str, Callable[[Event], bytes]] = {
    "orjson sorted": orjson_sorted,
    "orjson plain": orjson.dumps,
    "ours, event_bytes": encode_event,
    "ours, dumps": encode_canonical,
    "json sorted": json_sorted,
    "rfc8785": rfc8785.dumps,
}


def main() -> None:
    runs = {title: over_all(encode) for title, encode in ENCODERS.items()} | {
        "ours, with SHA-256": hash_events
    }
    for name, events in event_sets().items():
        expected = [rfc8785.dumps(event) for event in events]
        size = sum(map(len, expected))
        print(f"\n{name}: {len(events)} events, {size / len(events):.0f} bytes each")
        print(f"{'':20}{'MB/s':>8}{'µs/event':>10}{'time x':>8}{'exact':>8}")
        best = best_seconds(runs, events)
        for title, took in best.items():
            encode = ENCODERS.get(title, encode_event)
            exact = sum(
                encode(event) == right for event, right in zip(events, expected, strict=True)
            ) / len(events)
            ratio = took / best["orjson sorted"]
            print(
                f"{title:20}{size / took / 1e6:8.0f}{took / len(events) * 1e6:10.2f}{ratio:8.2f}{exact:8.0%}"
            )


if __name__ == "__main__":
    main()
