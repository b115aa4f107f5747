"""The core types: the spec's own examples go through unchanged, enumerations are closed, unknown
keys survive."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.model import session_types
from open_token.model.session_types import (
    ApiKey,
    Bridge,
    ContentBlock,
    Memory,
    MemoryRef,
    OpenStruct,
    PatchEnvelope,
    PendingQuestionRef,
    ScheduledTask,
    ScheduledTaskRun,
    Session,
    ToolCallProjection,
    TurnProjection,
    UiCard,
    decode,
    encode,
    from_builtins,
    to_builtins,
)

AT = "2026-01-01T00:00:00Z"
SESSION: dict[str, Any] = {
    "id": "sess_xxx", "intent": "a task", "status": "created", "created_at": AT, "updated_at": AT,
    "user_id": "user_xxx", "solution_id": None, "biz_role_id": None, "model": None, "shared": False, "is_pinned": False,
    "memory_enabled": True, "is_persistent": False, "replay_state": None,
}  # fmt: skip
BLOCK = {
    "type": "text",
    "content": "words",
    "tool_call_id": None,
    "tool_name": None,
    "display_name": None,
}
CALL = {
    "id": "tc_xxx", "tool_name": "Bash", "display_name": "Run a command", "arguments": '{"command": "ls -la"}',
    "status": "done", "result": "total 48", "duration_ms": 150, "pending_question_ref": None,
}  # fmt: skip
TURN: dict[str, Any] = {
    "id": "entry_xxx", "sequence": 0, "turn_id": "turn_xxx", "loop_id": "root", "kind": "message", "role": "assistant",
    "status": "completed", "blocks": [], "tool_calls": [], "model": "claude-sonnet-4-20250514",
    "usage": {"input_tokens": 500, "output_tokens": 200}, "duration_ms": 3500, "started_at": AT,
    "context_window": 200000, "memory_refs": None, "parent_fork_tool_call_id": None,
}  # fmt: skip
COMPACTION = TURN | {
    "kind": "compaction", "compaction_id": "c", "summary_preview": "s", "summary_full": "summary", "archived_count": 3,
    "tokens_before": 100, "tokens_after": 10, "saved_ratio": 0.9, "trigger": "forced_retry",
}  # fmt: skip
PATCH = {
    "session_id": "sess_xxx", "sequence": 1, "turn_id": "turn_xxx", "loop_id": "root", "patch_type": "add_content",
    "data": {},
}  # fmt: skip
MEMORY: dict[str, Any] = {
    "id": 1, "type": "feedback", "content": "words", "skill_name": None, "record_type": None, "scope": None,
    "owner": None, "topic": None, "mem0_id": None, "superseded_by": None, "write_reason": None, "created_at": AT,
    "updated_at": None, "hit_count": 0, "last_hit_at": None, "disabled": False, "source_session": "sess_xxx",
}  # fmt: skip
KEY = {
    "id": "key_xxx", "name": "My Key", "masked": "sk-ot-v1-...xxxx", "plaintext": None, "created_at": AT,
    "last_used_at": AT,
}  # fmt: skip
TASK = {
    "id": "task_xxx", "title": "Daily", "prompt": "sum up", "cron": "0 9 * * *", "timezone": "Asia/Shanghai",
    "enabled": True, "expires_at": None, "skip_confirmations": False, "model": None,
}  # fmt: skip
RUN = {
    "id": "run_xxx", "task_id": "task_xxx", "session_id": "sess_xxx", "status": "completed", "error": None,
    "triggered_at": AT, "finished_at": AT,
}  # fmt: skip
REF = {"child_loop_name": "child", "child_tool_call_id": "tc", "description": None}
MEMORY_REF = {"id": 1, "content_preview": "preview", "skill_name": None}
EXAMPLES: list[tuple[type[OpenStruct], dict[str, Any]]] = [
    (Session, SESSION),
    (TurnProjection, TURN),
    (TurnProjection, TURN | {"blocks": [BLOCK], "tool_calls": [CALL], "memory_refs": [MEMORY_REF]}),
    (TurnProjection, COMPACTION),
    (ContentBlock, BLOCK),
    (ToolCallProjection, CALL),
    (ToolCallProjection, CALL | {"status": "awaiting_answer", "pending_question_ref": REF}),
    (PendingQuestionRef, REF),
    (MemoryRef, MEMORY_REF),
    (PatchEnvelope, PATCH),
    (Memory, MEMORY),
    (ApiKey, KEY),
    (ScheduledTask, TASK),
    (ScheduledTaskRun, RUN),
    (Bridge, {"action": "map.highlight", "payload": {"cityIds": ["a"]}}),
    (UiCard, {"target": "inline", "resourceHTML": "<p>", "height": 320, "title": "t"}),
]  # fmt: skip


@pytest.mark.spec(
    "type-session",
    "type-turn-projection",
    "type-content-block",
    "type-tool-call-projection",
    "type-pending-question-ref",
    "type-memory-ref",
    "type-patch-envelope",
    "type-memory",
    "type-api-key",
    "type-scheduled-task",
    "type-scheduled-task-run",
    "type-bridge",
    "type-ui-card",
)
@pytest.mark.parametrize(
    ("kind", "example"), EXAMPLES, ids=lambda value: getattr(value, "__name__", "")
)
def test_examples_go_through_unchanged(kind: type[OpenStruct], example: dict[str, Any]) -> None:
    value = decode(json.dumps(example), kind)
    assert json.loads(encode(value)) == example
    assert to_builtins(value) == example
    assert list(to_builtins(value)) == list(example)
    assert value.more is msgspec.UNSET


@pytest.mark.spec(
    "type-session",
    "type-turn-projection",
    "type-content-block",
    "type-tool-call-projection",
    "type-pending-question-ref",
    "type-memory-ref",
    "type-patch-envelope",
    "type-memory",
    "type-api-key",
    "type-scheduled-task",
    "type-scheduled-task-run",
    "type-bridge",
    "type-ui-card",
)
@pytest.mark.parametrize(
    ("kind", "example"), EXAMPLES, ids=lambda value: getattr(value, "__name__", "")
)
def test_unknown_keys_survive(kind: type[OpenStruct], example: dict[str, Any]) -> None:
    more = {"template_id": "t", "nested": {"a": [1]}, "\ue000more": 5}
    value = from_builtins({**example, "template_id": "t", "nested": {"a": [1]}}, kind)
    assert json.loads(encode([value]))[0] == {**example, "template_id": "t", "nested": {"a": [1]}}
    with pytest.raises(msgspec.ValidationError):
        from_builtins({**example, **more}, kind)


def test_unknown_keys_survive_below() -> None:
    turn = TURN | {"blocks": [BLOCK | {"x": 1}], "tool_calls": [CALL | {"y": {"z": 2}}]}
    value = from_builtins(turn, TurnProjection)
    assert json.loads(encode({"items": [value]})) == {"items": [turn]}
    assert encode(from_builtins(TURN, TurnProjection)) == msgspec.json.encode(
        from_builtins(TURN, TurnProjection)
    )


CLOSED: list[tuple[type[OpenStruct], dict[str, Any], str, list[str]]] = [
    (Session, SESSION, "status", ["created", "running", "completed", "failed", "interrupted", "waiting_for_input"]),
    (TurnProjection, TURN, "kind", ["message", "compaction"]),
    (TurnProjection, TURN, "role", ["user", "assistant", "system"]),
    (TurnProjection, TURN, "status", ["streaming", "completed", "paused", "failed", "interrupted"]),
    (TurnProjection, COMPACTION, "trigger", ["auto", "manual", "forced_retry"]),
    (
        ContentBlock,
        BLOCK,
        "type",
        [
            "text", "thinking", "tool_use", "tool_result", "tool_ui", "tool_bridge", "system_notification",
            "mode_change", "planning_enter", "planning_exit", "plan_status", "ask_user_answer",
        ],
    ),
    (ToolCallProjection, CALL, "status", ["pending", "done", "error", "cancelled", "awaiting_answer"]),
    (
        PatchEnvelope,
        PATCH,
        "patch_type",
        ["add_content", "add_tool_call", "tool_result", "set_status", "set_tool_status"],
    ),
    (Memory, MEMORY, "type", ["feedback", "experience"]),
    (Memory, MEMORY, "record_type", ["memory", "skill_comment"]),
    (ScheduledTaskRun, RUN, "status", ["completed", "failed", "running"]),
    (UiCard, {}, "target", ["inline", "preview"]),
]  # fmt: skip


@pytest.mark.spec(
    "type-session-status",
    "type-turn-kind",
    "type-turn-role",
    "type-turn-status",
    "type-trigger",
    "type-block-type",
    "type-tool-status",
    "type-patch-type",
    "type-memory-type",
    "type-record-type",
    "type-run-status",
    "type-target",
)
@pytest.mark.parametrize(
    ("kind", "example", "name", "values"), CLOSED, ids=lambda value: str(value)[:20]
)
def test_enumerations(
    kind: type[OpenStruct], example: dict[str, Any], name: str, values: list[str]
) -> None:
    for value in values:
        assert to_builtins(from_builtins({**example, name: value}, kind))[name] == value
    with pytest.raises(msgspec.ValidationError):
        from_builtins({**example, name: "something else"}, kind)


@pytest.mark.spec("memory-length")
@pytest.mark.parametrize("content", ["", "x" * 501])
def test_memories_have_1_to_500_characters(content: str) -> None:
    from_builtins({**MEMORY, "content": "x" * 500}, Memory)
    with pytest.raises(msgspec.ValidationError):
        from_builtins({**MEMORY, "content": content}, Memory)


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_content_is_any_json(content: Any) -> None:
    block = ContentBlock(type="tool_ui", content=content)
    assert json.loads(encode(block))["content"] == content
    assert from_builtins(to_builtins(block), ContentBlock) == block


def test_meta_is_taken_out_and_shown() -> None:
    call = ToolCallProjection(id="c", tool_name="Map", display_name="Map")
    card = {"resourceHTML": "<p>", "target": "inline"}
    meta = {"bridge": {"action": "a", "payload": 1}, "ui": card, "other": 1}
    result, found = session_types.split_meta({"ok": True, "_meta": meta})
    assert (result, found) == ({"ok": True}, meta)
    blocks = session_types.build_meta_blocks(found, call)
    assert [(block.type, block.content, block.tool_call_id) for block in blocks] == [
        ("tool_bridge", meta["bridge"], "c"),
        ("tool_ui", meta["ui"], "c"),
    ]
    for odd in ("text", None, {"_meta": 5}, ["_meta"], {"ok": 1}):
        assert session_types.split_meta(odd) == (odd, {})
