"""Runs to compare: made of batches of steps, written as documents with ids of their own, changed in
one place."""

import copy
import random
from typing import Any

WORDS = "tide table harbour clock moon water north gauge buoy storm ebb flood chart pilot anchor".split()
TOOLS = {"Bash": "command", "Read": "file_path", "Grep": "pattern", "lighthouse": "beam"}

Batch = list[dict[str, Any]]
"""A message, or calls that were made side by side."""


def build_message(role: str, text: str) -> Batch:
    return [{"role": role, "text": text}]


def call(
    tool: str, output: str | None = "done", *, failed: bool = False, **arguments: Any
) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "output": output, "failed": failed}


def calls(*made: dict[str, Any]) -> Batch:
    return list(made)


def build_document(
    batches: list[Batch], *, shift: int = 0, cwd: str | None = None, **conversation: Any
) -> dict[str, Any]:
    """A document; `shift` makes every id and every time another one."""
    scribe = _Scribe(shift)
    if cwd:
        scribe.add(
            "annotation",
            None,
            {"mime": "application/json", "data": {"kind": "context", "cwd": cwd}},
        )
    for batch in batches:
        if "role" in batch[0]:
            scribe.add(
                "message", batch[0]["role"], {"mime": "text/plain", "text": batch[0]["text"]}
            )
        else:
            scribe.batch(batch)
    people = [
        {"actor_id": "act_001", "kind": "model", "name": "assistant", "model": "some-model-1"}
    ]
    about = {"id": f"conv-{shift}", "title": "Tides", **conversation}
    return {
        "open_token_version": "0.1",
        "conversation": about,
        "participants": people,
        "events": scribe.events,
    }


class _Scribe:
    def __init__(self, shift: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._shift = shift
        self._calls = 0

    def add(self, kind: str, role: str | None, content: dict[str, Any], **links: str) -> str:
        number = len(self.events) + 1 + self._shift
        event: dict[str, Any] = {
            "id": f"evt_{number:06d}",
            "seq": len(self.events) + 1,
            "type": kind,
        }
        event |= {
            "ts": f"2026-03-01T1{number // 3600 % 10}:{number // 60 % 60:02d}:{number % 60:02d}Z"
        }
        event |= {"actor_id": "act_001", "visibility": "public", "content": content}
        event |= {"role": role} if role else {}
        self.events.append(event | ({"links": links} if links else {}))
        return str(event["id"])

    def batch(self, batch: Batch) -> None:
        names = []
        for made in batch:
            self._calls += 1
            names.append(f"call_{self._calls + self._shift:06d}")
            data = {
                "tool_name": made["tool"],
                "arguments": made["arguments"],
                "native_call_id": f"n{names[-1]}",
            }
            self.add(
                "tool_use",
                "assistant",
                {"mime": "application/json", "data": data},
                call_id=names[-1],
            )
        for made, name in zip(batch, names, strict=True):
            if made["output"] is None:
                content: dict[str, Any] = {
                    "mime": "application/json",
                    "data": {"missing_result": True},
                }
            else:
                content = {"mime": "text/plain", "text": made["output"]}
            result = self.add("tool_result", "tool", content, call_id=name)
            if made["failed"]:
                facts = {
                    "kind": "result_facts",
                    "is_error": True,
                    "duration_seconds": self._shift + 0.5,
                }
                self.add(
                    "annotation",
                    None,
                    {"mime": "application/json", "data": facts},
                    parent_id=result,
                )


def draw_batches(chance: random.Random, count: int) -> list[Batch]:
    """A run in which no step is like another."""
    batches = [build_message("user", _words(chance))]
    while len(batches) < count:
        kind = chance.random()
        if kind < 0.3:
            batches.append(build_message("assistant", _words(chance)))
        elif kind < 0.35:
            batches.append(build_message("user", _words(chance)))
        else:
            batches.append(
                [_call(chance) for _ in range(1 if kind < 0.8 else chance.randrange(2, 5))]
            )
    return batches


def _call(chance: random.Random) -> dict[str, Any]:
    tool = chance.choice(sorted(TOOLS))
    return call(tool, _words(chance), failed=chance.random() < 0.2, **{TOOLS[tool]: _words(chance)})


def _words(chance: random.Random) -> str:
    return " ".join(
        [*chance.choices(WORDS, k=chance.randrange(3, 9)), f"number {chance.randrange(10**9)}"]
    )


def shuffle_batches(batches: list[Batch], chance: random.Random) -> list[Batch]:
    """The same run, calls that were made side by side in another order."""
    return [chance.sample(batch, len(batch)) for batch in batches]


def mutate_batches(batches: list[Batch], chance: random.Random) -> tuple[list[Batch], int, str]:
    """The run with one step changed: the number of that step from 1, and what the change is."""
    made = copy.deepcopy(batches)
    place = chance.randrange(len(made))
    inside = chance.randrange(len(made[place]))
    number = 1 + sum(len(batch) for batch in made[:place]) + inside
    step = made[place][inside]
    if "role" in step:
        way = chance.choice(["text_changed", "missing", "extra"])
        if way == "text_changed":
            step["text"] += " otherwise"
    else:
        way = chance.choice(
            ["tool_changed", "args_changed", "result_changed", "error_state", "missing", "extra"]
        )
        _change_call(step, way)
    if way == "missing":
        del made[place][inside]
    elif way == "extra":
        made[place:place] = [build_message("user", _words(chance))]
        number = 1 + sum(len(batch) for batch in batches[:place])
    return [batch for batch in made if batch], number, way


def _change_call(step: dict[str, Any], way: str) -> None:
    if way == "tool_changed":
        step["tool"] = "foghorn"
    elif way == "args_changed":
        step["arguments"] = {
            name: f"{value} otherwise" for name, value in step["arguments"].items()
        }
    elif way == "result_changed":
        step["output"] += " otherwise"
    elif way == "error_state":
        step["failed"] = not step["failed"]
