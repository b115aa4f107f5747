"""Sessions of Claude Code, written for tests of the index."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 11, 1, 9, tzinfo=UTC)


class SessionFile:
    """A session file that a test writes message by message."""

    def __init__(
        self,
        home: Path,
        session_id: str,
        *,
        cwd: str = "/home/sam/tide",
        branch: str = "main",
        minute: int = 0,
    ) -> None:
        self.id = session_id
        self.path = home / ".claude" / "projects" / "-home-sam-tide" / f"{session_id}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._cwd = cwd
        self._branch = branch
        self._has_parent = False
        self._count = minute  # one record a minute

    def ask(self, text: str) -> None:
        """Write a prompt of the user."""
        self._write("user", {"role": "user", "content": text})

    def answer(self, text: str, *, tokens: int = 0) -> None:
        """Write an answer of the model."""
        self._write_assistant([{"type": "text", "text": text}], tokens)

    def think(self, text: str) -> None:
        """Write reasoning of the model."""
        self._write_assistant([{"type": "thinking", "thinking": text, "signature": "x"}], 0)

    def call(
        self, tool: str, arguments: dict[str, Any], output: str, *, fails: bool = False
    ) -> None:
        """Write a tool call and its result."""
        call_id = f"toolu_{self.id[:4]}{self._count}"
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
        self._write_assistant([block], 0)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        if fails:
            result["is_error"] = True  # type: ignore[assignment]
        self._write("user", {"role": "user", "content": [result]})

    def touch(self, days: float) -> None:
        """Set the time of the last change to so many days after the start."""
        moment = (START + timedelta(days=days)).timestamp()
        os.utime(self.path, (moment, moment))

    def _write_assistant(self, content: list[Any], tokens: int) -> None:
        usage = {"input_tokens": tokens, "output_tokens": tokens}
        message = {
            "id": f"msg_{self.id[:4]}{self._count}",
            "role": "assistant",
            "type": "message",
            "model": "claude-sonnet-4-5",
            "content": content,
            "usage": usage,
        }
        self._write("assistant", message)

    def _write(self, kind: str, message: dict[str, Any]) -> None:
        self._count += 1
        has_parent, self._has_parent = self._has_parent, True
        record = {
            "type": kind,
            "uuid": f"{self.id}-{self._count}",
            "parentUuid": f"{self.id}-{self._count - 1}" if has_parent else None,
            "sessionId": self.id,
            "cwd": self._cwd,
            "gitBranch": self._branch,
            "version": "2.1.40",
            "timestamp": (START + timedelta(minutes=self._count)).isoformat(),
            "message": message,
        }
        with self.path.open("a") as out:
            out.write(json.dumps(record) + "\n")
