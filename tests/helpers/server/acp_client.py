"""An editor: lines of JSON over pipes to `open-token acp`, as a test sees them."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT = 60.0
Json = dict[str, Any]


class Editor:
    """Sends requests, answers those of the agent, and keeps every update."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.updates: list[Json] = []
        self.permissions: list[Json] = []
        self.choices: list[str | None] = []
        """What the user will choose; None cancels."""
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, message: Json) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def start(self, method: str, **params: Any) -> int:
        self._count += 1
        self.send({"id": self._count, "method": method, "params": params})
        return self._count

    def next(self) -> Json:
        line = self._lines.get(timeout=WAIT)
        assert line, (self.process.wait(9), self.process.stderr.read().decode())
        message: Json = json.loads(line)
        if message.get("method") == "session/update":
            self.updates.append(message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            self.permissions.append(message["params"])
            self.choose(message)
        return message

    def choose(self, message: Json) -> None:
        if not self.choices:
            return
        chosen = self.choices.pop(0)
        outcome: Json = {"outcome": "cancelled"}
        if chosen is not None:
            outcome = {"outcome": "selected", "optionId": chosen}
        self.send({"id": message["id"], "result": {"outcome": outcome}})

    def wait(self, number: int) -> Json:
        while True:
            message = self.next()
            if message.get("id") == number and "method" not in message:
                return message

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request, which must succeed."""
        answer = self.wait(self.start(method, **params))
        assert "error" not in answer, answer
        return answer["result"]

    def refuse(self, method: str, **params: Any) -> Json:
        """The error of a request, which must fail."""
        answer = self.wait(self.start(method, **params))
        error: Json = answer["error"]
        return error

    def prompt(self, session_id: str, text: str) -> str:
        blocks = [{"type": "text", "text": text}]
        self.updates.clear()
        result = self.ask("session/prompt", sessionId=session_id, prompt=blocks)
        return str(result["stopReason"])

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(
            update["content"]["text"] for update in self.updates if update["sessionUpdate"] == kind
        )

    def kinds(self) -> set[str]:
        return {update["sessionUpdate"] for update in self.updates}

    def calls(self) -> list[Json]:
        """Each tool call, with its updates folded in."""
        calls: dict[str, Json] = {}
        for update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                calls.setdefault(update["toolCallId"], {}).update(update)
        return list(calls.values())


@contextmanager
def run_editor(
    data: Path, *words: str, env: dict[str, str] | None = None, delay: str = "0"
) -> Iterator[Editor]:
    """An editor that has started the command and introduced itself."""
    command = [sys.executable, "-m", "open_token", "acp", "--data", str(data), *words]
    variables = os.environ | {"OPEN_TOKEN_DEMO_DELAY": delay} | (env or {})
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
    ) as process:
        editor = Editor(process)
        try:
            editor.ask("initialize", protocolVersion=1, clientCapabilities={})
            yield editor
        finally:
            assert process.stdin
            process.stdin.close()
            try:
                process.wait(30)
            finally:
                process.kill()
