"""Write a session of Codex: a rollout with numbered lines.

Each message is written twice: as the item that the model reads and as the event that the user
interface shows.
"""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import (
    Answer,
    Call,
    HandoffConversation,
    Prompt,
    derive_uuid,
    format_timestamp,
)
from open_token.handoff.session import HandoffDestination, HandoffSession

TITLE = "Codex CLI"
SEEN = "0.169.0"


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the rollout.

    Every line has a timestamp, or Codex silently drops it. No provider is named, so that the user's
    own applies.
    """
    thread_id = derive_uuid(conversation, "codex", scene.cwd, scene.copy)
    started = format_timestamp(conversation.started_ms)
    root = Path(scene.env.get("CODEX_HOME") or scene.home / ".codex")
    year, month, day = started[:10].split("-")
    stamp = started[:19].replace(":", "-")
    path = root / "sessions" / year / month / day / f"rollout-{stamp}-{thread_id}.jsonl"
    builder = _RolloutBuilder(conversation, thread_id, scene.cwd)
    builder.build()
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in builder.lines)
    return HandoffSession(thread_id, {path: lines}, [["codex", "resume", thread_id]], [])


class _RolloutBuilder:
    """Builds the lines of a rollout."""

    def __init__(self, conversation: HandoffConversation, thread_id: str, cwd: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self._conversation = conversation
        self._thread_id = thread_id
        self._cwd = cwd
        self._turn_id = derive_uuid(conversation, thread_id, "task")

    def build(self) -> None:
        """Build all lines."""
        conversation = self._conversation
        meta = {
            "session_id": self._thread_id,
            "id": self._thread_id,
            "timestamp": format_timestamp(conversation.started_ms),
            "cwd": self._cwd,
            "originator": "open-token",
            "cli_version": SEEN,
            "source": "cli",
            "history_mode": "paginated",
        }
        self._add(conversation.started_ms, "session_meta", meta)
        started = {
            "type": "task_started",
            "turn_id": self._turn_id,
            "started_at": conversation.started_ms // 1000,
            "collaboration_mode_kind": "default",
        }
        self._add(conversation.started_ms, "event_msg", started)
        last_text = ""
        for turn in conversation.turns:
            if isinstance(turn, Prompt):
                self._add_message("user", turn.text, turn.ms)
            else:
                self._add_answer(turn)
                last_text = turn.text or last_text
        complete = {
            "type": "task_complete",
            "turn_id": self._turn_id,
            "last_agent_message": last_text,
        }
        self._add(conversation.ended_ms, "event_msg", complete)

    def _add(self, ms: int, kind: str, payload: dict[str, Any]) -> None:
        ordinal = len(self.lines)
        self.lines.append(
            {
                "timestamp": format_timestamp(ms),
                "ordinal": ordinal,
                "type": kind,
                "payload": payload,
            }
        )

    def _add_message(self, role: str, text: str, ms: int) -> None:
        block_type = "input_text" if role == "user" else "output_text"
        content = [{"type": block_type, "text": text}]
        self._add(ms, "response_item", {"type": "message", "role": role, "content": content})
        shown: dict[str, Any]
        if role == "user":
            block = {"type": "text", "text": text, "text_elements": []}
            shown = {"type": "UserMessage", "content": [block]}
        else:
            shown = {"type": "AgentMessage", "content": [{"type": "Text", "text": text}]}
        shown["id"] = f"item_{len(self.lines)}"
        self._add_shown_item(shown, ms)

    def _add_answer(self, turn: Answer) -> None:
        if turn.text:
            self._add_message("assistant", turn.text, turn.ms)
        for call in turn.calls:
            item = {
                "type": "function_call",
                "name": call.tool,
                "arguments": msgspec.json.encode(call.arguments).decode(),
                "call_id": call.id,
            }
            self._add(call.ms, "response_item", item)
        for call in turn.calls:
            command = _find_command(call)
            if command:
                self._add_shown_item(self._build_execution(call, command), call.ms)
            output = {"type": "function_call_output", "call_id": call.id, "output": call.output}
            self._add(call.ms, "response_item", output)

    def _build_execution(self, call: Call, command: str) -> dict[str, Any]:
        cwd = Path(self._cwd)
        return {
            "type": "CommandExecution",
            "id": call.id,
            "process_id": None,
            "command": ["/bin/bash", "-lc", command],
            "cwd": cwd.as_uri() if cwd.is_absolute() else self._cwd,
            "parsed_cmd": [{"type": "unknown", "cmd": command}],
            "source": "agent",
            "status": "failed" if call.failed else "completed",
            "aggregated_output": call.output,
            "exit_code": 1 if call.failed else 0,
            "duration": {"secs": 0, "nanos": 0},
        }

    def _add_shown_item(self, item: dict[str, Any], ms: int) -> None:
        event = {
            "type": "item_completed",
            "thread_id": self._thread_id,
            "turn_id": self._turn_id,
            "item": item,
            "started_at_ms": ms,
            "completed_at_ms": ms,
        }
        self._add(ms, "event_msg", event)


def _find_command(call: Call) -> str | None:
    """Return the shell command of a call, under either of its usual names."""
    command = call.arguments.get("command", call.arguments.get("cmd"))
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return command if isinstance(command, str) else None
