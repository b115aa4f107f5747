"""Sessions of pi: one entry a line, chained by parentId, in a folder named after the project's."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Prompt, Talk, iso, made_uuid
from open_token.handoff.target import Scene, Session

TITLE = "pi"
SEEN = "0.87.1"
_COUNTS = ("input", "output", "cacheRead", "cacheWrite")


def session(talk: Talk, scene: Scene) -> Session:
    """Version 3, with a usage on every answer: pi ends where one is missing."""
    name = made_uuid(talk, "pi", scene.cwd, scene.copy)
    root = Path(scene.env.get("PI_CODING_AGENT_DIR") or scene.home / ".pi" / "agent")
    stamp = iso(talk.began).replace(":", "-").replace(".", "-")
    project = scene.cwd.lstrip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    path = root / "sessions" / f"--{project}--" / f"{stamp}_{name}.jsonl"
    entries = _entries(talk, name, scene.cwd)
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    return Session(name, {path: lines}, [["pi", "--session", name]], ["pi", "--session"])


def _entries(talk: Talk, name: str, cwd: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": name, "timestamp": iso(talk.began), "cwd": cwd}
    ]

    def add(kind: str, ms: int, rest: dict[str, Any]) -> None:
        parent = made[-1]["id"] if len(made) > 1 else None
        made.append(
            {
                "type": kind,
                "id": f"{len(made):08x}",
                "parentId": parent,
                "timestamp": iso(ms),
                **rest,
            }
        )

    for turn in talk.turns:
        if isinstance(turn, Prompt):
            said = {
                "role": "user",
                "content": [{"type": "text", "text": turn.text}],
                "timestamp": turn.ms,
            }
            add("message", turn.ms, {"message": said})
            continue
        add("message", turn.ms, {"message": _answer(turn, talk.provider)})
        for call in turn.calls:
            result = {
                "role": "toolResult",
                "toolCallId": call.id,
                "toolName": call.tool,
                "isError": call.failed,
            }
            content = [{"type": "text", "text": call.output}]
            add(
                "message", call.ms, {"message": result | {"content": content, "timestamp": call.ms}}
            )
    add("session_info", talk.ended, {"name": talk.title})
    return made


def _answer(turn: Answer, provider: str) -> dict[str, Any]:
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    calls = [
        {"type": "toolCall", "id": call.id, "name": call.tool, "arguments": call.arguments}
        for call in turn.calls
    ]
    cost = dict.fromkeys((*_COUNTS, "total"), 0)
    return {
        "role": "assistant",
        "content": [*text, *calls],
        "api": "openai-completions",
        "provider": provider or "unknown",
        "model": turn.model or "unknown",
        "usage": {**dict.fromkeys((*_COUNTS, "totalTokens"), 0), "cost": cost},
        "stopReason": "toolUse" if turn.calls else "stop",
        "timestamp": turn.ms,
    }
