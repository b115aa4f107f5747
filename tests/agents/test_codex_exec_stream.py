"""Output of `codex exec --json`: items that start and complete, ids that restart in each turn."""

from typing import Any

from readers.codex_rollouts import ME, assert_paired, notes, read, summarize_content
from readers.provider_readers import tokens


class TestExec:
    START: tuple[dict[str, Any], ...] = (
        {"type": "thread.started", "thread_id": ME},
        {"type": "turn.started"},
    )

    def done(self, kind: str, number: int = 0, **more: Any) -> dict[str, Any]:
        return {"type": "item.completed", "item": {"id": f"item_{number}", "type": kind, **more}}

    def test_a_turn(self) -> None:
        command = {
            "id": "item_1",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "",
            "status": "in_progress",
        }
        record, events = read(
            *self.START,
            self.done("reasoning", text="hm"),
            {"type": "item.started", "item": command},
            {"type": "item.updated", "item": {**command, "aggregated_output": "a"}},
            {
                "type": "item.completed",
                "item": {**command, "aggregated_output": "a\n", "exit_code": 3, "status": "failed"},
            },
            self.done("agent_message", 2, text="one file"),
            {
                "type": "turn.completed",
                "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2},
            },
        )
        assert record.conversation == {
            "id": ME,
            "source_runtime": "cli",
            "internal_availability": "available",
        }
        assert summarize_content(events) == [
            ("assistant_thought", "hm"),
            (
                "assistant",
                {
                    "tool_name": "shell",
                    "arguments": {"command": "ls"},
                    "native_call_id": "turn_1/item_1",
                },
            ),
            ("tool", "a\n"),
            ("assistant", "one file"),
        ]
        assert notes(events, "result_facts") == [
            {"kind": "result_facts", "exit_code": 3, "status": "failed"}
        ]
        assert events[-1]["usage"] == tokens(input_tokens=9, output_tokens=2, cache_read_tokens=4)
        assert not [item for item in events if "ts" in item]

    def test_ids_restart_in_each_turn(self) -> None:
        started = {
            "type": "item.started",
            "item": {"id": "item_0", "type": "command_execution", "command": "ls"},
        }
        _, events = read(
            *self.START,
            started,
            {"type": "turn.started"},
            started,
            self.done("command_execution", aggregated_output="x"),
        )
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            {"missing_result": True},
            "x",
        ]
        assert_paired(events)

    def test_other_items(self) -> None:
        record, events = read(
            *self.START,
            self.done("file_change", 0, changes=[{"path": "a", "kind": "add"}], status="completed"),
            self.done(
                "mcp_tool_call",
                1,
                server="s",
                tool="t",
                arguments={"q": 1},
                result={"content": [{"type": "text", "text": "r"}]},
            ),
            self.done(
                "mcp_tool_call", 2, server="s", tool="t", arguments=None, error={"message": "e"}
            ),
            self.done("web_search", 3, query="q"),
            self.done("todo_list", 4, items=[{"text": "a", "completed": False}]),
            self.done("todo_list", 4, items=[{"text": "a", "completed": False}]),
            self.done(
                "collab_tool_call", 5, tool="wait", agents_states={"x": {"status": "completed"}}
            ),
            self.done("error", 6, message="slow"),
            self.done("novelty", 7),
            {"type": "turn.failed", "error": {"message": "broken"}},
            {"type": "error", "message": "gone"},
            {"type": "turn.completed", "usage": {"input_tokens": 1}},
            {"type": "novelty"},
        )
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            {"status": "completed"},
            "r",
            "e",
            {"missing_result": True},
            {"agents_states": {"x": {"status": "completed"}}},
        ]
        assert len(notes(events, "todo_list")) == 1
        assert [note["message"] for note in notes(events, "error")] == ["slow", "gone"]
        assert [note["message"] for note in notes(events, "turn_failed")] == ["broken"]
        assert [(note.code, note.detail) for note in record.notes] == [
            ("unknown-item", "item novelty"),
            ("unknown-record", "event novelty"),
        ]
        assert_paired(events)

    def test_nobody_is_invented(self) -> None:
        record, events = read(*self.START, self.done("agent_message", text="hi"))
        assert not [item for item in events if item.get("role") == "user"]
        assert not [who for who in record.participants if who["kind"] == "human"]
        assert record.conversation["internal_availability"] == "unknown"
