"""Sessions of Codex: a rollout with numbered lines, what the model reads and what the screen shows
side by side."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Call, Prompt, Talk, iso, made_uuid
from open_token.handoff.target import Scene, Session

TITLE = "Codex CLI"
SEEN = "0.169.0"


def session(talk: Talk, scene: Scene) -> Session:
    """Every line has a time, or Codex drops it in silence; no provider is named, so that the user's
    own holds."""
    name = made_uuid(talk, "codex", scene.cwd, scene.copy)
    began = iso(talk.began)
    root = Path(scene.env.get("CODEX_HOME") or scene.home / ".codex")
    year, month, day = began[:10].split("-")
    stamp = began[:19].replace(":", "-")
    path = root / "sessions" / year / month / day / f"rollout-{stamp}-{name}.jsonl"
    rollout = _Rollout(talk, name, scene.cwd)
    rollout.write()
    lines = b"".join(
        msgspec.json.encode(
            {"timestamp": iso(ms), "ordinal": number, "type": kind, "payload": payload}
        )
        + b"\n"
        for number, (ms, kind, payload) in enumerate(rollout.lines)
    )
    return Session(name, {path: lines}, [["codex", "resume", name]], [])


class _Rollout:
    """The lines of a rollout."""

    def __init__(self, talk: Talk, name: str, cwd: str) -> None:
        self.lines: list[tuple[int, str, dict[str, Any]]] = []
        self._talk = talk
        self._name = name
        self._cwd = cwd
        self._task = made_uuid(talk, name, "task")

    def write(self) -> None:
        """All lines."""
        talk = self._talk
        about = {
            "session_id": self._name,
            "id": self._name,
            "timestamp": iso(talk.began),
            "cwd": self._cwd,
        }
        made_by = {
            "originator": "open-token",
            "cli_version": SEEN,
            "source": "cli",
            "history_mode": "paginated",
        }
        self._add(talk.began, "session_meta", about | made_by)
        started = {"type": "task_started", "turn_id": self._task, "started_at": talk.began // 1000}
        self._add(talk.began, "event_msg", started | {"collaboration_mode_kind": "default"})
        for turn in talk.turns:
            if isinstance(turn, Prompt):
                self._say("user", "input_text", turn.text, turn.ms)
            else:
                self._answer(turn)
        last = next(
            (turn.text for turn in reversed(talk.turns) if isinstance(turn, Answer) and turn.text),
            "",
        )
        complete = {"type": "task_complete", "turn_id": self._task, "last_agent_message": last}
        self._add(talk.ended, "event_msg", complete)

    def _add(self, ms: int, kind: str, payload: dict[str, Any]) -> None:
        self.lines.append((ms, kind, payload))

    def _say(self, role: str, kind: str, text: str, ms: int) -> None:
        content = [{"type": kind, "text": text}]
        self._add(ms, "response_item", {"type": "message", "role": role, "content": content})
        shown: dict[str, Any] = {
            "type": "AgentMessage",
            "content": [{"type": "Text", "text": text}],
        }
        if role == "user":
            shown = {
                "type": "UserMessage",
                "content": [{"type": "text", "text": text, "text_elements": []}],
            }
        self._show(shown | {"id": f"item_{len(self.lines)}"}, ms)

    def _answer(self, turn: Answer) -> None:
        if turn.text:
            self._say("assistant", "output_text", turn.text, turn.ms)
        for call in turn.calls:
            arguments = msgspec.json.encode(call.arguments).decode()
            item = {
                "type": "function_call",
                "name": call.tool,
                "arguments": arguments,
                "call_id": call.id,
            }
            self._add(call.ms, "response_item", item)
        for call in turn.calls:
            if command := _command(call):
                self._show(self._execution(call, command), call.ms)
            output = {"type": "function_call_output", "call_id": call.id, "output": call.output}
            self._add(call.ms, "response_item", output)

    def _execution(self, call: Call, command: str) -> dict[str, Any]:
        return {
            "type": "CommandExecution",
            "id": call.id,
            "process_id": None,
            "command": ["/bin/bash", "-lc", command],
            "cwd": Path(self._cwd).as_uri() if Path(self._cwd).is_absolute() else self._cwd,
            "parsed_cmd": [{"type": "unknown", "cmd": command}],
            "source": "agent",
            "status": "failed" if call.failed else "completed",
            "aggregated_output": call.output,
            "exit_code": 1 if call.failed else 0,
            "duration": {"secs": 0, "nanos": 0},
        }

    def _show(self, item: dict[str, Any], ms: int) -> None:
        moments = {"started_at_ms": ms, "completed_at_ms": ms}
        about = {
            "type": "item_completed",
            "thread_id": self._name,
            "turn_id": self._task,
            "item": item,
        }
        self._add(ms, "event_msg", about | moments)


def _command(call: Call) -> str | None:
    """The shell command of a call, by whatever name its tool has it."""
    found = call.arguments.get("command", call.arguments.get("cmd"))
    if isinstance(found, list):
        found = " ".join(map(str, found))
    return found if isinstance(found, str) else None
