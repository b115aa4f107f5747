"""Codex rollouts: messages, duplicate events, injected text, usage and the forms of all versions."""

import copy
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.native_data import expand_bytes
from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.codex_rollouts import (
    CHILD,
    END,
    GRANDCHILD,
    ME,
    TS,
    assert_paired,
    body,
    call,
    count,
    event,
    line,
    meta,
    notes,
    output,
    read,
    said,
    source,
    summarize_content,
    thought,
    turn,
    user,
)
from readers.provider_readers import tokens

READER = READERS["codex"]


def test_encrypted_reasoning_that_looks_like_a_key_is_preserved() -> None:
    seal = "gAAAAAB" + "sk-" + "proj-" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo" * 2
    out = io.BytesIO()
    context = Context(
        ExportOptions.of({"native": "full", "redact": "secrets", "mode": "ndjson"}), key=bytes(32)
    )
    export(source([meta(), user("hi"), thought("hm", sealed=seal), said("yo")]), out, context)
    assert seal in expand_bytes(out.getvalue())


class TestSession:
    def test_an_unchanged_turn_context_is_exported_once(self) -> None:
        _, events = read(meta(), *[turn(), said("one")] * 3, turn(model="gpt-5.3"), said("two"))
        reported = [
            item
            for item in notes(events, "context") + notes(events, "turn_context")
            if "gpt-5" in str(item)
        ]
        assert len(reported) == 2

    def test_session_record_sets_the_conversation(self) -> None:
        record, events = read(
            meta(
                model_provider="openai",
                base_instructions={"text": "You are Codex."},
                git={"branch": "main"},
            ),
            turn(timezone="Europe/Oslo"),
            said("hi"),
            event("thread_name_updated", thread_name="Greeting"),
        )
        assert record.conversation == {
            "id": ME,
            "title": "Greeting",
            "started_at": TS,
            "timezone": "Europe/Oslo",
            "source_runtime": "cli",
            "provider": "openai",
            "internal_availability": "unavailable",
        }
        assert notes(events, "context") == [
            {
                "kind": "context",
                "cwd": "/w",
                "git": {"branch": "main"},
                "cli_version": "0.104.0",
                "originator": "codex_cli_rs",
            }
        ]
        assert (events[1]["role"], events[1]["visibility"], body(events[1])) == (
            "system",
            "internal",
            "You are Codex.",
        )
        assert record.participants[-1] == {
            "actor_id": "act_003",
            "kind": "model",
            "name": "assistant",
            "provider": "openai",
            "model": "gpt-5.2",
        }

    @pytest.mark.parametrize(
        ("about", "runtime", "provider"),
        [
            ({"originator": "codex_vscode", "model_provider": "azure"}, "ide", "other"),
            ({"originator": "codex_exec"}, "cli", None),
            ({"originator": "codex-tui", "source": "cli"}, "cli", None),
            ({"originator": "Codex Desktop", "source": "vscode"}, "ide", None),
            ({"originator": "my_app", "source": "mcp"}, "other", None),
            ({"originator": {"odd": 1}, "source": {"subagent": "review"}}, "other", None),
        ],
    )
    def test_where_it_ran(self, about: dict[str, Any], runtime: str, provider: str | None) -> None:
        record, _ = read(line("session_meta", **{"id": ME, "timestamp": TS, **about}), said("x"))
        assert record.conversation["source_runtime"] == runtime
        assert record.conversation.get("provider") == provider

    def test_later_session_metas_give_the_lineage(self) -> None:
        record, events = read(
            meta(CHILD, forked_from_id=ME, instructions="Be kind."),
            meta(ME, instructions="Be kind."),
            said("x"),
        )
        assert record.conversation["id"] == CHILD
        assert notes(events, "context")[0]["forked_from_id"] == ME
        assert [item["id"] for item in notes(events, "lineage")] == [ME]
        assert summarize_content(events).count(("system", "Be kind.")) == 1

    def test_settings_are_annotated_when_they_change(self) -> None:
        record, events = read(
            meta(),
            turn(),
            said("a"),
            turn(),
            said("b"),
            turn(effort="low"),
            turn(effort="low", model="gpt-5.3", cwd="/x"),
            said("c"),
        )
        assert notes(events, "turn_context") == [
            {
                "kind": "turn_context",
                "model": "gpt-5.2",
                "effort": "high",
                "approval_policy": "never",
            },
            {"kind": "turn_context", "effort": "low"},
            {"kind": "turn_context", "cwd": "/x", "model": "gpt-5.3"},
        ]
        assert [who.get("model") for who in record.participants if who["kind"] == "model"] == [
            "gpt-5.2",
            "gpt-5.3",
        ]


class TestDuplicates:
    HELLO: tuple[tuple[str, str], ...] = (
        ("user", "hello"),
        ("assistant_thought", "**Hm**"),
        ("assistant", "hi"),
    )

    @pytest.mark.parametrize(
        "records",
        [
            # 0.40: the item of the user first, then the events, then the items of the model.
            [
                user("hello"),
                event("user_message", message="hello"),
                event("agent_reasoning", text="**Hm**"),
                event("agent_message", message="hi"),
                count(9, 9),
                thought("**Hm**"),
                said("hi"),
            ],
            # 0.100: the event of the user first, the model's item before its event.
            [
                event("user_message", message="hello", images=[]),
                event("task_started"),
                user("hello"),
                thought("**Hm**"),
                event("agent_reasoning", text="**Hm**"),
                said("hi"),
                event("agent_message", message="hi"),
            ],
            # 0.166 paginated: items of the screen.
            [
                user("hello"),
                event(
                    "item_completed",
                    item={
                        "type": "UserMessage",
                        "id": "u",
                        "content": [{"type": "text", "text": "hello"}],
                    },
                ),
                event(
                    "item_completed",
                    item={
                        "type": "Reasoning",
                        "id": "r",
                        "summary_text": ["**Hm**"],
                        "raw_content": [],
                    },
                ),
                thought("**Hm**"),
                said("hi"),
                event(
                    "item_completed",
                    item={
                        "type": "AgentMessage",
                        "id": "a",
                        "content": [{"type": "Text", "text": "hi"}],
                    },
                ),
            ],
            # Events alone, in either form.
            [
                event("user_message", message="hello"),
                event("agent_reasoning", text="**Hm**"),
                event("agent_message", message="hi"),
            ],
            [
                event(
                    "item_completed",
                    item={"type": "UserMessage", "content": [{"type": "text", "text": "hello"}]},
                ),
                event("item_completed", item={"type": "Reasoning", "summary_text": ["**Hm**"]}),
                event(
                    "item_completed",
                    item={"type": "AgentMessage", "content": [{"type": "Text", "text": "hi"}]},
                ),
            ],
            # Items alone.
            [user("hello"), thought("**Hm**"), said("hi")],
        ],
    )
    def test_items_and_events_are_exported_once(self, records: list[Any]) -> None:
        _, events = read(meta(), *records)
        assert tuple(summarize_content(events)) == self.HELLO
        assert [item["visibility"] for item in events if item.get("role") == "user"] == ["public"]

    def test_the_same_words_twice_are_two_messages(self) -> None:
        again = [
            user("yes"),
            event("user_message", message="yes"),
            said("ok"),
            event("agent_message", message="ok"),
        ]
        _, events = read(meta(), *again, *again, *again)
        assert summarize_content(events) == [("user", "yes"), ("assistant", "ok")] * 3

    def test_sections_of_one_thought_are_shown_one_by_one(self) -> None:
        before = [
            event("agent_reasoning", text="a"),
            event("agent_reasoning", text="b"),
            thought("a", "b"),
        ]
        after = [
            thought("c", "d"),
            event("agent_reasoning", text="c"),
            event("agent_reasoning", text="d"),
        ]
        _, events = read(meta(), *before, *after)
        assert summarize_content(events) == [
            ("assistant_thought", "a\n\nb"),
            ("assistant_thought", "c\n\nd"),
        ]

    def test_words_without_an_item_keep_their_place(self) -> None:
        many = [record for n in range(40) for record in (call(f"c{n}"), output(f"c{n}", "x"))]
        _, events = read(
            meta(), user("a"), event("agent_message", message="only shown"), *many, said("z")
        )
        assert summarize_content(events)[:3] == [
            ("user", "a"),
            ("assistant", "only shown"),
            ("assistant", {"tool_name": "exec_command", "arguments": {}, "native_call_id": "c0"}),
        ]
        assert summarize_content(events)[-1] == ("assistant", "z")

    def test_an_image_next_to_text(self) -> None:
        picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
        parts = [{"type": "input_text", "text": "see"}, picture]
        item = line("response_item", type="message", role="user", content=parts)
        _, events = read(meta(), event("user_message", message="see", images=["x"]), item)
        assert [block["type"] for block in summarize_content(events)[0][1]] == ["text", "image"]
        assert len(summarize_content(events)) == 1
        _, events = read(
            meta(), event("user_message", message="see", images=[picture["image_url"]])
        )
        assert [block["type"] for block in summarize_content(events)[0][1]] == ["text", "image"]


class TestInjected:
    @pytest.mark.parametrize(
        "text",
        [
            "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
            "<environment_context>\n<cwd>/w</cwd>\n</environment_context>",
            "<user_instructions>x</user_instructions>",
            "<permissions instructions>x</permissions instructions>",
            "<turn_aborted>x</turn_aborted>",
        ],
    )
    def test_what_codex_puts_in_is_internal(self, text: str) -> None:
        record, events = read(meta(), user(text), user("mine"), said("ok"))
        assert [item["visibility"] for item in events if item.get("role") == "user"] == [
            "internal",
            "public",
        ]
        kinds = {who["actor_id"]: who["kind"] for who in record.participants}
        assert [kinds[item["actor_id"]] for item in events if item.get("role") == "user"] == [
            "system",
            "human",
        ]

    def test_where_events_show_what_is_typed_the_rest_is_not(self) -> None:
        _, events = read(
            meta(),
            user("a plugin's note"),
            user("mine"),
            event("user_message", message="mine"),
            said("ok"),
        )
        assert [item["visibility"] for item in events if item.get("role") == "user"] == [
            "internal",
            "public",
        ]

    def test_typed_text_may_look_injected(self) -> None:
        text = "<environment_context> what is that?"
        for records in (
            [user(text), event("user_message", message=text)],
            [event("user_message", message=text), user(text)],
        ):
            _, events = read(meta(), *records, said("ok"))
            assert [item["visibility"] for item in events if item.get("role") == "user"] == [
                "public"
            ]

    def test_developer_messages(self) -> None:
        developer = line(
            "response_item",
            type="message",
            role="developer",
            content=[{"type": "input_text", "text": "d"}],
        )
        _, events = read(meta(), developer)
        assert (events[1]["role"], events[1]["visibility"]) == ("developer", "internal")

    def test_the_preamble_of_an_editor_is_annotated(self) -> None:
        text = (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\nfix it"
        )
        _, events = read(meta(), user(text), event("user_message", message=text), said("ok"))
        assert summarize_content(events)[0] == ("user", text)
        note = next(
            item
            for item in events
            if item["type"] == "annotation" and body(item)["kind"] == "ide_context"
        )
        assert note["links"]["parent_id"] == "evt_000002"
        assert body(note)["typed_after"] == "## My request for Codex:"


class TestUsage:
    def spent(self, events: list[Event]) -> list[tuple[str, int]]:
        return [(item["type"], item["usage"]["input_tokens"]) for item in events if "usage" in item]

    def test_counts_after_the_items(self) -> None:
        _, events = read(
            meta(),
            user("q"),
            thought("t"),
            call("a"),
            call("b"),
            count(10, 10),
            count(10, 10),
            output("a", "x"),
            output("b", "y"),
            said("done"),
            count(20, 30),
            count(20, 30),
            event("token_count", info=None),
        )
        assert self.spent(events) == [("tool_use", 10), ("message", 20)]
        last = next(item for item in events if item["type"] == "tool_use" and "usage" in item)
        assert body(last)["native_call_id"] == "b"
        assert last["usage"] == tokens(
            input_tokens=10, output_tokens=3, reasoning_tokens=1, cache_read_tokens=5
        )

    def test_counts_before_the_items(self) -> None:
        _, events = read(
            meta(),
            user("q"),
            count(10, 10),
            thought("t"),
            call("a"),
            output("a", "x"),
            count(20, 30),
            thought("u"),
            said("done"),
            user("r"),
            count(30, 60),
            said("more"),
        )
        assert self.spent(events) == [("tool_use", 10), ("message", 20), ("message", 30)]

    def test_reasoning_carries_usage_only_without_other_output(self) -> None:
        _, events = read(
            meta(), said("a"), thought("t"), count(10, 10), user("q"), thought("u"), count(20, 30)
        )
        roles = [item.get("role") for item in events if "usage" in item]
        assert roles == ["assistant", "assistant_thought"]

    def test_a_count_without_output_is_an_annotation(self) -> None:
        _, events = read(meta(), user("q"), count(10, 10), count(20, 30), said("a"))
        assert self.spent(events) == [("annotation", 10), ("message", 20)]

    def test_what_was_aborted_takes_no_later_count(self) -> None:
        _, events = read(
            meta(),
            user("q"),
            call("a"),
            event("turn_aborted", reason="interrupted"),
            user("r"),
            count(7, 7),
            said("b"),
        )
        assert self.spent(events) == [("message", 7)]

    def test_a_record_counts_where_no_count_came(self) -> None:
        def cost(spent: int) -> dict[str, Any]:
            return line("token_usage_record", usage={"input_tokens": spent, "output_tokens": 3})

        _, events = read(
            meta(),
            user("go"),
            call("a"),
            cost(7),
            user("on"),
            said("one"),
            cost(10),
            count(10, 17),
            said("two"),
            cost(5),
        )
        assert self.spent(events) == [("tool_use", 7), ("message", 10), ("message", 5)]

    def test_nothing_counts_nothing(self) -> None:
        _, events = read(
            meta(), said("a"), count(0, 0), event("token_count"), event("token_count", info=[1])
        )
        assert [item["usage"]["output_tokens"] for item in events if "usage" in item] == [3]


class TestHistory:
    def test_a_compaction_is_annotated_without_its_copy(self) -> None:
        copied = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "q"}],
        }
        record, events = read(
            meta(),
            user("q"),
            said("a"),
            line("compacted", message="short", replacement_history=[copied, copied]),
            event("context_compacted"),
            said("b"),
            event("context_compacted"),
        )
        assert summarize_content(events) == [("user", "q"), ("assistant", "a"), ("assistant", "b")]
        assert notes(events, "compaction") == [
            {"kind": "compaction", "message": "short", "replacement_items": 2},
            {"kind": "compaction"},
        ]
        assert [note.code for note in record.notes] == ["replacement-history"]

    def test_the_summary_for_a_compaction_is_not_an_answer_to_the_person(self) -> None:
        _, events = read(
            meta(),
            user("q"),
            said("a"),
            said("the person asks q"),
            line("token_usage_record", usage={"input_tokens": 3, "output_tokens": 3}),
            count(3, 3),
            line("compacted", message="Summary so far:\nthe person asks q"),
        )
        messages = [item for item in events if item["type"] == "message"]
        assert [(item["content"]["text"], item["visibility"]) for item in messages] == [
            ("q", "public"),
            ("a", "public"),
            ("the person asks q", "internal"),
        ]
        annotations = [item for item in events if item["type"] == "annotation"]
        marks = [item for item in annotations if body(item)["kind"] == "compaction_summary"]
        assert [mark["links"]["parent_id"] for mark in marks] == [messages[-1]["id"]]

    @pytest.mark.parametrize(
        ("records", "message"),
        [
            ([said("yes"), event("agent_message", message="yes")], "yes"),
            ([event("agent_message", message="yes"), said("yes")], "yes"),
            ([said("yes")], "They said yes"),
            ([said("yes")], None),
            ([said("yes"), said("no"), user("why?")], "no"),
            ([said("")], ""),
        ],
    )
    def test_an_answer_before_a_compaction_stays_public(
        self, records: list[Any], message: str | None
    ) -> None:
        _, events = read(meta(), user("q"), *records, line("compacted", message=message))
        assert {item["visibility"] for item in events if item["type"] == "message"} == {"public"}
        assert notes(events, "compaction_summary") == []

    def test_turns_taken_back_are_a_branch(self) -> None:
        records = [
            meta(),
            user("a"),
            said("b"),
            user("c"),
            said("d"),
            user("e"),
            event("thread_rolled_back", num_turns=2),
            user("f"),
        ]
        _, events = read(*records)
        assert summarize_content(events) == [("user", "a"), ("assistant", "b"), ("user", "f")]
        assert notes(events, "thread_rolled_back") == [{"kind": "thread_rolled_back", "turns": 2}]
        _, events = read(*records, branches="all")
        assert [kind for kind, _ in summarize_content(events)] == [
            "user",
            "assistant",
            "span_start",
            "user",
            "assistant",
            "user",
            "span_end",
            "user",
        ]

    def test_a_result_of_a_turn_taken_back_is_left_out_with_it(self) -> None:
        back = event("thread_rolled_back", num_turns=1)
        end = event("exec_command_end", **END)
        record, events = read(
            meta(),
            user("a"),
            call("a"),
            call("b"),
            back,
            output("b", "x"),
            end,
            user("c"),
            said("d"),
        )
        assert summarize_content(events) == [("user", "c"), ("assistant", "d")]
        assert [(note.code, note.count) for note in record.notes] == [
            ("abandoned-branch", 1),
            ("abandoned-result", 1),
            ("abandoned-result", 1),
        ]
        _, events = read(meta(), user("a"), call("a"), end, back, said("d"))
        assert summarize_content(events) == [("assistant", "d")]
        _, events = read(meta(), user("a"), call("a"), output("a", "x"), back, end, said("d"))
        assert notes(events, "result_facts")[0]["native_call_id"] == "a"

    def test_what_belongs_to_an_earlier_turn_stays(self) -> None:
        spawn = event("collab_agent_spawn_end", call_id="s", new_thread_id=CHILD, prompt="p")
        wait = event("collab_waiting_end", call_id="w", statuses={CHILD: {"completed": "done"}})
        back = event("thread_rolled_back", num_turns=1)
        _, events = read(
            meta(),
            user("a"),
            call("c"),
            spawn,
            user("b"),
            wait,
            said("x"),
            output("c", "late"),
            back,
            said("d"),
        )
        assert [kind for kind, _ in summarize_content(events)] == [
            "user",
            "assistant",
            "span_start",
            "span_end",
            "tool",
            "assistant",
        ]
        assert_paired(events)

    def test_other_events_become_annotations(self) -> None:
        record, events = read(
            meta(),
            event("error", message="quota", codex_error_info="limit"),
            event("entered_review_mode", target={"type": "commit"}),
            event("exited_review_mode", review_output={"findings": []}),
            event("task_complete", error={"message": "bad"}),
            event("item_completed", item={"type": "Plan", "text": "1. look"}),
            event("thread_goal_updated", goal={"objective": "o"}),
            event("task_started", turn_id="t"),
            event("exec_command_begin", call_id="a"),
            event("a wholly unknown event"),
            line("world_state", full=True, state={}),
            line("novelty", x=1),
        )
        kinds = [body(item)["kind"] for item in events]
        assert kinds == [
            "context",
            "error",
            "entered_review_mode",
            "exited_review_mode",
            "error",
            "plan",
            "goal",
        ]
        assert {(note.code, note.detail) for note in record.notes} == {
            ("bookkeeping", "event task_started"),
            ("bookkeeping", "event exec_command_begin"),
            ("unknown-record", "event without a known type"),
            ("bookkeeping", "record world_state"),
            ("unknown-record", "record novelty"),
        }

    def test_messages_between_agents(self) -> None:
        parts = [
            {"type": "input_text", "text": "done"},
            {"type": "encrypted_content", "encrypted_content": "gAAAA"},
        ]
        record, events = read(
            meta(),
            line(
                "response_item",
                type="agent_message",
                author="/lead/fern",
                recipient="/lead",
                content=parts,
            ),
        )
        assert (events[1]["role"], events[1]["visibility"]) == ("user", "internal")
        assert record.participants[-1]["name"] == "/lead/fern"
        assert "gAAAA" not in json.dumps(events)


BARE: list[dict[str, Any]] = [
    {"id": ME, "timestamp": TS, "instructions": None, "git": {"branch": "main"}},
    {"record_type": "state"},
    user("hello")["payload"],
    call("a")["payload"],
    output("a", "x")["payload"],
    said("hi")["payload"],
]


class TestForms:
    def test_bare_lines(self) -> None:
        record, events = read(*BARE)
        assert record.conversation["id"] == ME
        assert record.conversation["started_at"] == TS
        assert [kind for kind, _ in summarize_content(events)] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert [note.detail for note in record.notes] == ["record state"]

    def test_one_document(self) -> None:
        document = {
            "session": {"id": ME, "timestamp": TS, "instructions": "i"},
            "items": [record for record in BARE if "type" in record],
        }
        draft = Draft()
        origin = Source("rollout.json", data=json.dumps(document, indent=2).encode())
        assert detect_format(origin) == "codex"
        READER.read(origin, draft)
        assert [item.get("role") for item in draft.finish(lambda: "").events][1:] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
        ]

    @pytest.mark.parametrize(
        "records",
        [
            [meta(), said("x")],
            [user("x"), said("y")],
            [{"record_type": "state"}, turn(), said("x")],
            [{"type": "session_meta", "payload": {"id": ME}}],
            [{"type": "of_next_year", "payload": {}, "timestamp": TS}, meta(), said("x")],
            BARE,
            BARE[:1],
            [{"type": "thread.started", "thread_id": ME}],
            [
                {
                    "type": "item.completed",
                    "item": {"id": "item_0", "type": "agent_message", "text": "x"},
                }
            ],
            [{"type": "error", "message": "x"}, {"type": "thread.started", "thread_id": ME}],
        ],
    )
    def test_sniff_claims_codex_files(self, records: list[Any]) -> None:
        assert READER.sniff(source(records))

    @pytest.mark.parametrize(
        "records",
        [
            [
                {
                    "type": "user",
                    "uuid": "u",
                    "parentUuid": None,
                    "sessionId": "s",
                    "timestamp": TS,
                    "message": {"role": "user"},
                }
            ],
            [{"type": "session.start", "data": {"sessionId": "s"}, "timestamp": TS}],
            [{"type": "session", "id": "s", "timestamp": TS, "cwd": "/w"}],
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}],
            [{"type": "message", "id": "m", "timestamp": TS, "message": {"role": "user"}}],
            [{"id": "resp_1", "object": "response", "output": []}],
            [{"type": "response.created", "response": {"id": "resp_1"}}],
            [{"type": "header", "open_token_version": "0.1"}],
            [{"model": "gpt-5", "messages": []}, {"model": "gpt-5", "messages": []}],
            [{"id": "x", "timestamp": TS, "git": {}}, {"no": "type"}],
            [{"type": "item.completed", "item": {"type": "message"}}],
            [{"type": "event_msg", "payload": {"type": "x"}}],
            [{"type": ["event_msg"], "payload": {}, "timestamp": TS}],
            [{"type": "of_next_year", "payload": {}, "timestamp": TS}],
            [1, "a", None, []],
            [],
        ],
    )
    def test_sniff_leaves_other_formats(self, records: list[Any]) -> None:
        assert not READER.sniff(source(records))


ODD: tuple[Any, ...] = (
    None,
    0,
    -1.5,
    True,
    "",
    "text",
    [],
    [None, 3, "x", {}],
    {},
    {"type": 1},
    {"a": {"b": [None]}},
)
RICH: list[Any] = [
    meta(base_instructions={"text": "b"}, git={}, model_provider="p"),
    turn(timezone="UTC"),
    user("q"),
    event("user_message", message="q", images=[]),
    event("agent_reasoning", text="t"),
    thought("t"),
    call("a", "spawn_agent", message="m"),
    event(
        "collab_agent_spawn_end",
        call_id="a",
        new_thread_id=CHILD,
        prompt="p",
        model="m",
        status="running",
    ),
    output("a", json.dumps({"agent_id": GRANDCHILD})),
    event(
        "collab_waiting_end",
        call_id="w",
        agent_statuses=[{"thread_id": CHILD, "status": "done"}],
        statuses={},
    ),
    event("collab_close_end", call_id="w", receiver_thread_id=GRANDCHILD, status="running"),
    event(
        "collab_agent_interaction_end",
        call_id="w",
        receiver_thread_id=CHILD,
        prompt="p",
        status="s",
    ),
    event("sub_agent_activity", agent_thread_id=CHILD, kind="started", event_id="e"),
    event("exec_command_end", **END),
    event(
        "mcp_tool_call_end",
        call_id="m",
        invocation={"tool": "t"},
        duration={"secs": 1, "nanos": 1},
        result={"Ok": {}},
    ),
    event("patch_apply_end", call_id="p", changes={"a": {"type": "add"}}, stdout="s", success=True),
    event(
        "dynamic_tool_call_response",
        call_id="d",
        content_items=[{"text": "x"}],
        tool="t",
        arguments={},
    ),
    event("web_search_end", call_id="w", query="q", action={"query": "q"}, results=[]),
    event("image_generation_end", call_id="i", result="r", saved_path="p"),
    count(1, 1),
    event("turn_aborted", reason="r"),
    event("thread_rolled_back", num_turns=1),
    event("item_completed", item={"type": "UserMessage", "content": [{"text": "z"}]}),
    event("thread_name_updated", thread_name="n"),
    line("compacted", message="m", replacement_history=[]),
    line("response_item", type="agent_message", author="a", recipient="r", content=[]),
    {"type": "thread.started", "thread_id": ME},
    {
        "type": "item.completed",
        "item": {"id": "item_0", "type": "mcp_tool_call", "result": {"content": []}},
    },
]


STATES = ({"record_type": "state"}, {"record_type": "state"})


def spoiled(value: Any) -> Iterator[Any]:
    """The value with each of its parts in turn replaced by something odd."""
    yield from ODD
    if isinstance(value, dict):
        for key, part in value.items():
            for odd in spoiled(part):
                yield {**value, key: odd}
    elif isinstance(value, list):
        for place, part in enumerate(value):
            for odd in spoiled(part):
                yield [*value[:place], odd, *value[place + 1 :]]


@pytest.mark.parametrize("number", range(len(RICH)))
def test_odd_values_never_break_it(number: int) -> None:
    # Some of them: `test_all_other_values` tries all.
    for odd in itertools.islice(spoiled(RICH[number]), number % 4, None, 4):
        records = copy.copy(RICH)
        records[number] = odd
        _, events = read(*STATES, *records[:26])
        read({"type": "thread.started", "thread_id": ME}, {"type": "turn.started"}, odd)
        READER.sniff(source([*STATES, *records]))
        json.dumps(events)
        assert_paired(events)


@pytest.fixture(scope="session")
def rollouts(corpus: Path) -> list[Path]:
    return sorted([*corpus.glob("codex_cli/*.jsonl"), *corpus.glob("native_minimal/codex/*.jsonl")])


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part if key != "type" else None)


def words_of(record: Any) -> Iterator[str]:
    """Every text of a record that the conversation consists of."""
    payload = record.get("payload")
    kept = (
        payload
        if isinstance(payload, dict) and record["type"] == "response_item"
        else record.get("item")
    )
    if not isinstance(kept, dict) or kept.get("type") == "ghost_snapshot":
        return
    for name in (
        "content",
        "summary",
        "output",
        "input",
        "name",
        "text",
        "command",
        "aggregated_output",
    ):
        yield from leaves(kept.get(name))


def test_the_corpus_is_read_whole(rollouts: list[Path]) -> None:
    assert rollouts
    for path in rollouts:
        origin = Source.of(path)
        assert detect_format(origin) == "codex", path.name
        _, events = read(at=path)
        assert_paired(events)
        carried = "\0".join(iter_strings([item["content"] for item in events]))
        for _, record in Source.of(path).records():
            assert [text for text in words_of(record) if text not in carried] == [], path.name


@pytest.mark.spec("usage-counts")
def test_the_corpus_counts_each_request_once(rollouts: list[Path]) -> None:
    for path in rollouts:
        if path.name not in ("vct_codex.jsonl", "agentcmd_rollout_small.jsonl"):
            continue
        totals = [
            record["payload"]["info"]["total_token_usage"]
            for _, record in Source.of(path).records()
            if record["payload"].get("type") == "token_count" and record["payload"].get("info")
        ]
        _, events = read(at=path)
        for ours, theirs in (
            ("input_tokens", "input_tokens"),
            ("reasoning_tokens", "reasoning_output_tokens"),
        ):
            assert (
                sum(item["usage"][ours] for item in events if "usage" in item) == totals[-1][theirs]
            )  # type: ignore[literal-required]


def test_the_last_name_of_a_thread_is_its_title_in_a_list() -> None:
    def renamed(name: object) -> dict[str, object]:
        return {
            "type": "event_msg",
            "payload": {"type": "thread_name_updated", "thread_name": name},
        }

    assert READER.peek_tail(
        [renamed("first"), renamed("second"), renamed(5), renamed(""), None, {"payload": []}]
    ) == {"title": "second"}
    assert READER.peek_tail([]) == {}
