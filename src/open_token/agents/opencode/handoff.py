"""Write a session for OpenCode: a file for `opencode import`, since the database is its own."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Call, HandoffConversation, Prompt
from open_token.handoff.session import HandoffDestination, HandoffSession

TITLE = "OpenCode"
SEEN = "1.18.33"
_ID_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Return a file in the folder of the project, and the commands that import it.

    Each copy has its own id: importing an id that OpenCode already has changes nothing.
    """
    session_id = _build_id("ses", conversation, None, scene.cwd, scene.copy)
    path = Path(scene.cwd) / f"{session_id}.json"
    export = _ExportBuilder(conversation, session_id, scene.cwd).build()
    content = msgspec.json.format(msgspec.json.encode(export), indent=1) + b"\n"
    commands = [["opencode", "import", str(path)], ["opencode", "--session", session_id]]
    return HandoffSession(session_id, {path: content}, commands, [])


def _build_id(
    kind: str, conversation: HandoffConversation, position: int | None, *words: object
) -> str:
    """Return a deterministic id.

    OpenCode sorts the parts of a message by id, so the ids of parts begin with their positions.
    """
    seed = "\0".join(map(str, (conversation.seed, kind, position, *words)))
    digest = hashlib.sha256(seed.encode()).digest()
    prefix = digest[:6].hex() if position is None else f"{position:012x}"
    suffix = "".join(_ID_ALPHABET[byte % 62] for byte in digest[6:20])
    return f"{kind}_{prefix}{suffix}"


class _ExportBuilder:
    """Builds what `opencode export` writes; messages are ordered by their times alone."""

    def __init__(self, conversation: HandoffConversation, session_id: str, cwd: str) -> None:
        self._conversation = conversation
        self._session_id = session_id
        self._cwd = cwd
        self._last_ms = 0
        self._prompt_id = ""
        self._model = "unknown"
        for turn in conversation.turns:
            if isinstance(turn, Answer) and turn.model:
                self._model = turn.model
                break
        self._provider = conversation.provider or "unknown"

    def build(self) -> dict[str, Any]:
        """Return the export."""
        messages = []
        for number, turn in enumerate(self._conversation.turns):
            messages.append(self._build_message(number, turn))
        updated = max(self._last_ms, self._conversation.ended_ms)
        info = {
            "id": self._session_id,
            "slug": "handoff",
            "title": self._conversation.title,
            "version": SEEN,
            "time": {"created": self._conversation.started_ms, "updated": updated},
        }
        return {"info": info, "messages": messages}

    def _build_message(self, number: int, turn: Prompt | Answer) -> dict[str, Any]:
        self._last_ms = max(self._last_ms + 1, turn.ms)
        message_id = _build_id("msg", self._conversation, number, self._session_id)
        info: dict[str, Any] = {"id": message_id, "sessionID": self._session_id}
        parts: list[dict[str, Any]] = []
        if isinstance(turn, Prompt):
            self._prompt_id = message_id
            info |= self._build_prompt_info()
            parts.append({"type": "text", "text": turn.text})
        else:
            info |= self._build_model_info(turn)
            if turn.text:
                parts.append({"type": "text", "text": turn.text})
            parts += [self._build_tool_part(call) for call in turn.calls]
        for position, part in enumerate(parts):
            part_id = _build_id("prt", self._conversation, position, message_id)
            ids = {"id": part_id, "sessionID": self._session_id, "messageID": message_id}
            parts[position] = {**ids, **part}
        return {"info": info, "parts": parts}

    def _build_prompt_info(self) -> dict[str, Any]:
        return {
            "role": "user",
            "time": {"created": self._last_ms},
            "agent": "build",
            "model": {"providerID": self._provider, "modelID": self._model},
        }

    def _build_model_info(self, turn: Answer) -> dict[str, Any]:
        return {
            "role": "assistant",
            "parentID": self._prompt_id or self._session_id,
            "modelID": turn.model or self._model,
            "providerID": self._provider,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": {"created": self._last_ms, "completed": self._last_ms},
        }

    def _build_tool_part(self, call: Call) -> dict[str, Any]:
        time = {"start": call.ms, "end": call.ms}
        state: dict[str, Any]
        if call.failed:
            state = {"status": "error", "input": call.arguments, "error": call.output, "time": time}
        else:
            state = {
                "status": "completed",
                "input": call.arguments,
                "output": call.output,
                "title": "",
                "metadata": {},
                "time": time,
            }
        return {"type": "tool", "callID": call.id, "tool": call.tool, "state": state}
