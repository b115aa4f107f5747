"""Sessions of OpenCode, which keeps them in a database of its own: a file for `opencode import`,
its official door."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Call, Prompt, Talk
from open_token.handoff.target import Scene, Session

TITLE = "OpenCode"
SEEN = "1.18.33"
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def session(talk: Talk, scene: Scene) -> Session:
    """A file in the project's folder. An id that OpenCode knows already would change nothing: each
    copy has its own."""
    name = _id("ses", talk, None, scene.cwd, scene.copy)
    path = Path(scene.cwd) / f"{name}.json"
    document = _Document(talk, name, scene.cwd)
    lines = msgspec.json.format(msgspec.json.encode(document.write()), indent=1) + b"\n"
    start = [["opencode", "import", str(path)], ["opencode", "--session", name]]
    return Session(name, {path: lines}, start, [])


def _id(kind: str, talk: Talk, place: int | None, *words: object) -> str:
    """An id; OpenCode puts the parts of a message in the order of theirs, so those begin with their
    places."""
    digest = hashlib.sha256("\0".join(map(str, (talk.seed, kind, place, *words))).encode()).digest()
    first = digest[:6].hex() if place is None else f"{place:012x}"
    return f"{kind}_{first}{''.join(_LETTERS[byte % 62] for byte in digest[6:20])}"


class _Document:
    """What `opencode export` gives and `opencode import` takes; messages are ordered by their times
    alone."""

    def __init__(self, talk: Talk, name: str, cwd: str) -> None:
        self._talk = talk
        self._name = name
        self._cwd = cwd
        self._last = 0
        self._prompt = ""
        model = next(
            (turn.model for turn in talk.turns if isinstance(turn, Answer) and turn.model), ""
        )
        self._model = model or "unknown"
        self._provider = talk.provider or "unknown"

    def write(self) -> dict[str, Any]:
        """The whole."""
        messages = [self._message(number, turn) for number, turn in enumerate(self._talk.turns)]
        times = {"created": self._talk.began, "updated": max(self._last, self._talk.ended)}
        about = {
            "id": self._name,
            "slug": "handoff",
            "title": self._talk.title,
            "version": SEEN,
            "time": times,
        }
        return {"info": about, "messages": messages}

    def _message(self, number: int, turn: Prompt | Answer) -> dict[str, Any]:
        self._last = max(self._last + 1, turn.ms)
        name = _id("msg", self._talk, number, self._name)
        info: dict[str, Any] = {"id": name, "sessionID": self._name}
        if isinstance(turn, Prompt):
            self._prompt = name
            model = {"providerID": self._provider, "modelID": self._model}
            info |= {
                "role": "user",
                "time": {"created": self._last},
                "agent": "build",
                "model": model,
            }
            return {
                "info": info,
                "parts": [self._part(name, 0, {"type": "text", "text": turn.text})],
            }
        said = [{"type": "text", "text": turn.text}] if turn.text else []
        parts = [*said, *map(self._tool, turn.calls)]
        made = [self._part(name, place, part) for place, part in enumerate(parts)]
        return {"info": info | self._answer(turn), "parts": made}

    def _answer(self, turn: Answer) -> dict[str, Any]:
        return {
            "role": "assistant",
            "parentID": self._prompt or self._name,
            "modelID": turn.model or self._model,
            "providerID": self._provider,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": {"created": self._last, "completed": self._last},
        }

    def _part(self, message: str, place: int, part: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": _id("prt", self._talk, place, message),
            "sessionID": self._name,
            "messageID": message,
            **part,
        }

    def _tool(self, call: Call) -> dict[str, Any]:
        time = {"start": call.ms, "end": call.ms}
        state: dict[str, Any] = {
            "status": "completed",
            "input": call.arguments,
            "output": call.output,
        }
        state |= {"title": "", "metadata": {}, "time": time}
        if call.failed:
            state = {"status": "error", "input": call.arguments, "error": call.output, "time": time}
        return {"type": "tool", "callID": call.id, "tool": call.tool, "state": state}
