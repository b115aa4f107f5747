"""Calls in Codex rollouts: outputs with facts, ends reported by events, searches and images."""

import json
from typing import Any

from open_token.jsontools.walk import iter_strings
from readers.codex_rollouts import (
    END,
    assert_paired,
    body,
    call,
    event,
    line,
    meta,
    notes,
    output,
    read,
    said,
    summarize_content,
    thought,
    user,
)

FACTS: dict[str, Any] = {
    "kind": "result_facts",
    "exit_code": 1,
    "duration_seconds": 2.5,
    "status": "failed",
}


class TestTools:
    def test_outputs_are_verbatim_with_parsed_facts(self) -> None:
        header = "Chunk ID: 9f\nWall time: 1.25 seconds\nProcess exited with code 127\nOutput:\nExit code: 5\n"
        wrapped = (
            '{"output":"a \\"metadata\\":{}","metadata":{"exit_code":2,"duration_seconds":0.5}}'
        )
        plain = "Exit code is in here: Exit code: 3"
        _, events = read(
            meta(),
            call("a"),
            output("a", header),
            call("b"),
            output("b", wrapped),
            call("c"),
            output("c", plain),
            call("d"),
            output("d", '{"output":"x"}'),
            call("e"),
            output("e", [{"type": "input_text", "text": header}]),
        )
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            header,
            wrapped,
            plain,
            '{"output":"x"}',
            header,
        ]
        assert notes(events, "result_facts") == [
            {"kind": "result_facts", "duration_seconds": 1.25, "exit_code": 127},
            {"kind": "result_facts", "exit_code": 2, "duration_seconds": 0.5},
            {"kind": "result_facts", "duration_seconds": 1.25, "exit_code": 127},
        ]

    def test_an_end_before_the_output_joins_its_facts(self) -> None:
        _, events = read(meta(), call("a"), event("exec_command_end", **END), output("a", "whole"))
        assert [value for role, value in summarize_content(events) if role == "tool"] == ["whole"]
        assert notes(events, "result_facts") == [FACTS]

    def test_an_end_after_the_output_is_annotated(self) -> None:
        running = "Process running with session ID 7\nOutput:\n"
        _, events = read(
            meta(), call("a"), output("a", running), said("wait"), event("exec_command_end", **END)
        )
        assert notes(events, "result_facts") == [{"kind": "result_facts", "session_id": 7}, FACTS]
        result = next(item for item in events if item["type"] == "tool_result")
        assert events[-1]["links"]["parent_id"] == result["id"]
        assert events[-1]["actor_id"] == result["actor_id"]

    def test_an_end_without_an_output_is_the_output(self) -> None:
        _, events = read(
            meta(), call("a"), event("exec_command_end", **END), user("next"), call("b")
        )
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            "cut …",
            {"missing_result": True},
        ]
        assert_paired(events)

    def test_an_end_without_a_call_is_the_call(self) -> None:
        _, events = read(meta(), said("x"), event("exec_command_end", **END))
        assert summarize_content(events)[1:] == [
            (
                "assistant",
                {
                    "tool_name": "shell",
                    "arguments": {"command": ["bash", "-lc", "ls"], "cwd": "/w"},
                    "native_call_id": "a",
                },
            ),
            ("tool", "cut …"),
        ]

    def test_other_ends(self) -> None:
        _, events = read(
            meta(),
            event(
                "mcp_tool_call_end",
                call_id="m",
                invocation={"server": "s", "tool": "t", "arguments": {"q": 1}},
                duration={"secs": 0, "nanos": 4},
                result={"Err": "no"},
            ),
            event(
                "mcp_tool_call_end",
                call_id="n",
                invocation={"server": "s", "tool": "t"},
                result={"Ok": {"content": [{"type": "text", "text": "yes"}], "_meta": {"k": 1}}},
            ),
            event(
                "patch_apply_end",
                call_id="p",
                success=True,
                stdout="ok",
                stderr="",
                changes={"/w/a": {"type": "add"}, "/w/b": {"update": {}}},
            ),
            event(
                "dynamic_tool_call_response",
                call_id="d",
                tool="dyn",
                arguments={},
                content_items=[{"type": "inputText", "text": "out"}],
                success=True,
            ),
            event("view_image_tool_call", call_id="v", path="/w/a.png"),
            event(
                "item_completed",
                item={
                    "type": "McpToolCall",
                    "id": "i",
                    "server": "s",
                    "tool": "u",
                    "arguments": {},
                    "error": {"message": "bad"},
                },
            ),
            event(
                "exec_command_end", call_id="x", command=["ls"], source="user_shell", exit_code=0
            ),
        )
        uses = [
            value["tool_name"] for role, value in summarize_content(events) if role == "assistant"
        ]
        assert uses == ["t", "t", "apply_patch", "dyn", "view_image", "u"]
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            "no",
            "yes",
            "ok",
            "out",
            {"missing_result": True},
            "bad",
        ]
        facts = notes(events, "result_facts")
        assert facts[0] == {
            "kind": "result_facts",
            "server": "s",
            "tool": "t",
            "duration_seconds": 4e-09,
            "is_error": True,
        }
        assert facts[1]["_meta"] == {"k": 1}
        assert facts[2]["files"] == {"/w/a": "add", "/w/b": "update"}
        assert notes(events, "user_shell")[0]["command"] == ["ls"]
        assert_paired(events)

    def test_custom_tools_and_broken_arguments(self) -> None:
        broken = line(
            "response_item", type="function_call", name="f", arguments='{"a":', call_id="b"
        )
        patch = line(
            "response_item",
            type="custom_tool_call",
            name="apply_patch",
            input="*** Begin Patch",
            call_id="a",
        )
        _, events = read(meta(), patch, broken)
        assert [
            value["arguments"] for role, value in summarize_content(events) if role == "assistant"
        ] == [
            {"input": "*** Begin Patch"},
            {"raw": '{"a":'},
        ]
        assert_paired(events)

    def test_late_items_after_an_abort_stay_in_file_order(self) -> None:
        _, events = read(
            meta(),
            user("q"),
            call("a"),
            event("turn_aborted", reason="interrupted"),
            thought("late"),
            call("b"),
            user("r"),
            said("s"),
        )
        kinds = [item.get("role") or body(item)["kind"] for item in events[1:]]
        assert kinds == [
            "user",
            "assistant",
            "tool",
            "turn_aborted",
            "assistant_thought",
            "assistant",
            "tool",
            "user",
            "assistant",
        ]
        assert [value for role, value in summarize_content(events) if role == "tool"] == [
            {"missing_result": True}
        ] * 2
        assert notes(events, "turn_aborted") == [{"kind": "turn_aborted", "reason": "interrupted"}]

    def test_an_orphan_result_is_exported(self) -> None:
        _, events = read(meta(), output("gone", "x"))
        assert notes(events, "orphan_result")[0]["native_call_id"] == "gone"


RUNNING = "Chunk ID: 1\nProcess running with session ID 7\nOutput:\n"


class TestUnseenOutput:
    def test_output_after_the_last_poll_is_annotated_at_its_result(self) -> None:
        end = {**END, "aggregated_output": "one\ntwo\n"}
        _, events = read(
            meta(), user("go"), call("a"), output("a", RUNNING), event("exec_command_end", **end)
        )
        assert notes(events, "unseen_output") == [{"kind": "unseen_output", "output": "one\ntwo\n"}]
        result = next(item for item in events if item["type"] == "tool_result")
        assert events[-1]["links"]["parent_id"] == result["id"]

    def test_output_that_a_poll_shows_is_reported_once(self) -> None:
        end = {**END, "aggregated_output": "one\ntwo\n"}
        polled = "Chunk ID: 2\nProcess exited with code 1\nOutput:\none\ntwo\n"
        _, events = read(
            meta(),
            user("go"),
            call("a"),
            output("a", RUNNING),
            event("exec_command_end", **end),
            call("b", "write_stdin", session_id=7),
            output("b", polled),
            user("next"),
        )
        assert notes(events, "unseen_output") == []

    def test_output_of_an_mcp_server_that_the_model_saw_truncated(self) -> None:
        whole = json.dumps({"rows": ["first row", "second row"], "total": 2})
        end = {
            "call_id": "a",
            "invocation": {"server": "db", "tool": "query", "arguments": {}},
            "result": {"Ok": {"content": [{"type": "text", "text": whole}], "isError": False}},
        }
        shown = "Wall time: 1.0 seconds\nOutput:\n" + whole.replace(", ", ",").replace(": ", ":")
        for seen, unseen in ((shown, []), (shown[:60], [whole])):
            _, events = read(
                meta(), call("a", "query"), event("mcp_tool_call_end", **end), output("a", seen)
            )
            annotations = notes(events, "unseen_output")
            assert [annotation["output"] for annotation in annotations] == unseen

    def test_structured_data_beside_the_content(self) -> None:
        returned = {
            "content": [{"type": "text", "text": "2 rows"}],
            "structuredContent": {"rows": ["first", "second"]},
        }
        end = {"call_id": "a", "invocation": {"tool": "query"}, "result": {"Ok": returned}}
        _, events = read(
            meta(),
            call("a", "query"),
            event("mcp_tool_call_end", **end),
            output("a", "2 rows"),
        )
        assert notes(events, "unseen_output") == [
            {"kind": "unseen_output", "structuredContent": {"rows": ["first", "second"]}}
        ]

    def test_the_content_of_a_deleted_file(self) -> None:
        changes = {"/w/old.md": {"type": "delete", "content": "the last copy"}}
        end = {"call_id": "a", "success": True, "stdout": "Success", "changes": changes}
        _, events = read(
            meta(),
            call("a", "apply_patch"),
            event("patch_apply_end", **end),
            output("a", "Success"),
        )
        assert notes(events, "unseen_output") == [{"kind": "unseen_output", "changes": changes}]

    def test_much_output_that_nobody_asks_for_is_bounded(self) -> None:
        records = [meta(), user("go")]
        for number in range(40):
            end = {**END, "call_id": f"c{number}", "aggregated_output": f"output {number}"}
            records += [call(f"c{number}"), output(f"c{number}", RUNNING)]
            records.append(event("exec_command_end", **end))
        _, events = read(*records)
        found = {annotation["output"] for annotation in notes(events, "unseen_output")}
        assert found == {f"output {number}" for number in range(40)}


class TestSearches:
    FOUND: tuple[dict[str, str], ...] = ({"title": "T"},)

    def search(self, **more: Any) -> dict[str, Any]:
        return line(
            "response_item",
            type="web_search_call",
            status="completed",
            action={"type": "search", "query": "q"},
            **more,
        )

    def end(self, **more: Any) -> dict[str, Any]:
        return event(
            "web_search_end",
            call_id="w",
            query="q",
            action={"type": "search", "query": "q"},
            **more,
        )

    def results(self, *records: Any) -> list[Any]:
        _, events = read(meta(), *records)
        assert_paired(events)
        assert sum(item["type"] == "tool_use" for item in events) == 1
        return [value for role, value in summarize_content(events) if role == "tool"] + notes(
            events, "web_search_results"
        )

    def test_a_search_has_no_result(self) -> None:
        missing = [{"missing_result": True}]
        assert self.results(self.search()) == missing
        assert self.results(self.search(), self.end()) == missing
        assert self.results(self.end(), self.search(id="w")) == missing
        assert self.results(self.end()) == missing

    def test_search_results_of_an_event_are_the_result(self) -> None:
        found = list(self.FOUND)
        assert self.results(self.search(id="w"), self.end(results=found)) == [found]
        assert self.results(self.end(results=found), self.search()) == [found]
        assert self.results(self.end(results=found)) == [found]

    def test_what_was_found_for_a_search_without_an_id_is_noted(self) -> None:
        found = list(self.FOUND)
        assert self.results(self.search(), self.end(results=found)) == [
            {"missing_result": True},
            {"kind": "web_search_results", "query": "q", "results": found},
        ]

    def test_images(self) -> None:
        item = line(
            "response_item",
            type="image_generation_call",
            id="g",
            result="iVBORw0KGgo=",
            revised_prompt="p",
        )
        end = event(
            "image_generation_end",
            call_id="g",
            result="iVBORw0KGgo=",
            revised_prompt="p",
            saved_path="/w/g.png",
        )
        for records in ([item, end], [end, item], [end]):
            _, events = read(meta(), *records)
            assert [
                value[0]["media_type"]
                for role, value in summarize_content(events)
                if role == "tool"
            ] == ["image/png"]
            assert [
                value
                for value in iter_strings([body(one) for one in events])
                if value == "/w/g.png"
            ] == ["/w/g.png"]

    def test_the_header_of_a_script_output_is_parsed(self) -> None:
        def ended(text: str) -> list[dict[str, Any]]:
            return [{"type": "input_text", "text": f"{text}\nWall time 0.5 seconds\nOutput:\n"}]

        _, events = read(
            meta(),
            *(call("a", "exec"), output("a", ended("Script failed"))),
            *(call("b", "exec"), output("b", ended("Script completed"))),
            *(call("c", "exec"), output("c", ended("Script running with cell ID g3:1"))),
        )
        assert [
            {name: fact for name, fact in reported.items() if name != "kind"}
            for reported in notes(events, "result_facts")
        ] == [
            {"status": "failed", "duration_seconds": 0.5},
            {"duration_seconds": 0.5},
            {"cell_id": "g3:1", "duration_seconds": 0.5},
        ]
