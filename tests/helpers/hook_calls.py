"""A home with a conversation of every runtime that has hooks, and what each says when it calls."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden"
CWD = "/home/ada/orchard"


@dataclass(frozen=True)
class Session:
    """A golden conversation, where its runtime has it, and its id."""

    case: str
    place: str
    id: str


SESSIONS = {
    "claude-code": Session(
        "claude_code/basic",
        ".claude/projects/-home-ada/{id}.jsonl",
        "1a7c0001-5b1e-4c11-9a01-0c0ffee00001",
    ),
    "codex": Session(
        "codex/basic",
        ".codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-{id}.jsonl",
        "0199c0de-0001-7000-8000-000000000001",
    ),
    "gemini-cli": Session(
        "gemini_cli/lines",
        ".gemini/tmp/orchard/chats/session-2026-04-02T09-00-7c1d2e30.jsonl",
        "7c1d2e30-0000-4000-8000-00000000000a",
    ),
    "qwen-code": Session(
        "qwen_code/basic",
        ".qwen/projects/-home-ada/chats/{id}.jsonl",
        "0198aaaa-0000-7000-8000-000000000001",
    ),
    "copilot-cli": Session(
        "copilot_cli/basic",
        ".copilot/session-state/{id}/events.jsonl",
        "11111111-0000-4000-8000-000000000001",
    ),
    "cursor": Session(
        "cursor/transcript",
        ".cursor/projects/home-ada/agent-transcripts/{id}/{id}.jsonl",
        "5d1f7b3e-9a2c-4e8f-b1d0-3c4a5b6c7d8e",
    ),
}


def write_sessions(home: Path) -> dict[str, Path]:
    """Put every conversation where its runtime would have it."""
    found = {}
    for name, session in SESSIONS.items():
        source = next((GOLDEN / session.case).glob("input*"))
        source = next(source.iterdir()) if source.is_dir() else source
        found[name] = home / session.place.format(id=session.id)
        found[name].parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, found[name])
    return found


def build_hook_calls(name: str, path: Path) -> list[dict[str, Any]]:
    """What a runtime says at the end of a session, before a summary, and after a turn."""
    known = SESSIONS[name].id
    if name == "copilot-cli":
        base = {"sessionId": known, "timestamp": 1_775_120_400_000, "cwd": CWD}
        return [
            base | {"reason": "complete"},
            base | {"transcriptPath": str(path), "trigger": "auto", "customInstructions": ""},
            base | {"transcriptPath": str(path), "stopReason": "end_turn"},
        ]
    if name == "cursor":
        base = {
            "conversation_id": known, "generation_id": "gen-1", "model": "default", "cursor_version": "2.4.0",
            "workspace_roots": [CWD], "user_email": "ada@example.com", "transcript_path": str(path),
        }  # fmt: skip
        return [
            base
            | {
                "hook_event_name": "sessionEnd",
                "reason": "completed",
                "duration_ms": 9,
                "final_status": "done",
            },
            base
            | {
                "hook_event_name": "preCompact",
                "trigger": "auto",
                "context_tokens": 9,
                "message_count": 3,
            },
            base | {"hook_event_name": "stop", "status": "completed", "loop_count": 0},
        ]
    base = {"session_id": known, "transcript_path": str(path), "cwd": CWD}
    before, after = (
        ("PreCompress", "AfterAgent") if name == "gemini-cli" else ("PreCompact", "Stop")
    )
    if name in ("gemini-cli", "qwen-code"):
        base["timestamp"] = "2026-04-02T09:00:09.000Z"
    said = [
        base | {"hook_event_name": "SessionEnd", "reason": "other"},
        base | {"hook_event_name": before, "trigger": "auto", "custom_instructions": None},
        base
        | {"hook_event_name": after, "stop_hook_active": False, "last_assistant_message": "Done."},
    ]
    if name == "codex":
        said.append(
            base | {"hook_event_name": "SessionEnd", "transcript_path": None, "reason": "other"}
        )
    return said
