"""Subagents of Codex: events of their rollouts inside a span."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.library.discovery import Discovery
from open_token.sources.decompress import load_zstd
from readers.codex_rollouts import (
    CHILD,
    GRANDCHILD,
    ME,
    assert_paired,
    body,
    call,
    count,
    event,
    meta,
    notes,
    output,
    read,
    said,
    summarize_content,
    turn,
    user,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder as Codex keeps its sessions: a parent, and its child on another day."""
    parent = [
        meta(),
        turn(),
        user("send one"),
        event("user_message", message="send one"),
        call("s", "spawn_agent", message="look around", agent_type="explorer"),
        event(
            "collab_agent_spawn_end",
            call_id="s",
            new_thread_id=CHILD,
            new_agent_nickname="Fern",
            new_agent_role="explorer",
            prompt="look around",
            model="mini",
            status="pending_init",
        ),
        output("s", json.dumps({"agent_id": CHILD})),
        event("collab_waiting_end", call_id="w", statuses={CHILD: {"completed": "all well"}}),
        said("all well"),
    ]
    child = [
        meta(CHILD, forked_from_id=ME),
        *parent[:4],
        turn(model="mini"),
        user("look around"),
        event("user_message", message="look around"),
        call("a"),
        output("a", "x"),
        count(5, 5),
        call("g", "spawn_agent", message="deeper"),
        output("g", json.dumps({"agent_id": GRANDCHILD})),
        said("all well"),
    ]
    for day, session, records in (("01/31", ME, parent), ("02/01", CHILD, child)):
        folder = tmp_path / "sessions/2026" / day
        folder.mkdir(parents=True)
        path = folder / f"rollout-2026-01-31T00-00-00-{session}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path / f"sessions/2026/01/31/rollout-2026-01-31T00-00-00-{ME}.jsonl"


def compress(path: Path) -> Path:
    """Replaces a rollout by what Codex makes of one that has not changed for a while."""
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(load_zstd().compress(path.read_bytes()))
    path.unlink()
    return packed


class TestCompression:
    def test_a_compressed_rollout_is_found_and_read(self, tree: Path) -> None:
        home = tree.parents[4]
        (home / "sessions").rename(home / ".codex-sessions")
        (home / ".codex").mkdir()
        (home / ".codex-sessions").rename(home / ".codex" / "sessions")
        packed = compress(home / ".codex" / tree.relative_to(home))
        found = {item.path: item for item in Discovery({}, home, None, home / "cache").sessions()}
        assert found[packed].reader == "codex"
        assert found[packed].id == ME
        _, events = read(at=packed)
        assert (
            next(value for role, value in summarize_content(events) if role == "user") == "send one"
        )

    def test_a_compressed_subagent(self, tree: Path) -> None:
        _, plain = read(at=tree)
        for child in (tree.parents[2] / "02/01").glob("*.jsonl"):
            compress(child)
        _, events = read(at=tree)
        assert events == plain


class TestSubagents:
    @pytest.mark.spec("span-events")
    def test_inline(self, tree: Path) -> None:
        record, events = read(at=tree)
        start = next(item for item in events if item["type"] == "span_start")
        assert body(start) == {
            "kind": "subagent",
            "thread_id": CHILD,
            "spawn_reason": "look around",
            "role": "explorer",
            "nickname": "Fern",
            "model": "mini",
        }
        assert start["links"]["call_id"] == "call_000001"
        inside = [item for item in events if item.get("links", {}).get("span_id") == "span_000001"]
        assert [kind for kind, _ in summarize_content(inside)] == [
            "span_start",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "span_end",
        ]
        assert body(inside[-1]) == {"status": "completed", "result": "all well"}
        assert summarize_content(events).count(("user", "send one")) == 1
        who = {one["actor_id"]: one for one in record.participants}
        assert who[start["actor_id"]] == {
            "actor_id": start["actor_id"],
            "kind": "model",
            "name": "Fern",
            "model": "mini",
            "instance_id": CHILD,
        }
        asked = next(item for item in inside if item.get("role") == "user")
        assert (who[asked["actor_id"]]["name"], asked["visibility"]) == ("assistant", "internal")
        assert [note.code for note in record.notes] == ["copied-history"]
        assert record.notes[0].count == 4
        assert_paired(events)

    def test_a_subagent_of_a_subagent_that_is_not_there_is_a_reference(self, tree: Path) -> None:
        _, events = read(at=tree)
        inner = [item for item in events if item["type"] == "span_start"][1]
        assert body(inner) == {
            "kind": "subagent",
            "thread_id": GRANDCHILD,
            "spawn_reason": "deeper",
            "parent_span": "span_000001",
            "reference": GRANDCHILD,
        }
        ends = [item["links"]["span_id"] for item in events if item["type"] == "span_end"]
        assert ends == ["span_000002", "span_000001"]

    def test_reference_and_none(self, tree: Path) -> None:
        _, events = read(at=tree, subagents="reference")
        spans = [item for item in events if item["type"].startswith("span")]
        assert [item["type"] for item in spans] == ["span_start", "span_end"]
        assert body(spans[0])["reference"] == CHILD
        record, events = read(at=tree, subagents="none")
        assert not [item for item in events if item["type"].startswith("span")]
        assert [note.code for note in record.notes] == ["subagent"]

    def test_activity_of_the_second_version(self) -> None:
        def activity(kind: str) -> dict[str, Any]:
            return event(
                "sub_agent_activity",
                event_id="s",
                agent_thread_id=CHILD,
                agent_path="/lead/a",
                kind=kind,
            )

        _, events = read(
            meta(),
            call("s", "spawn_agent"),
            activity("started"),
            activity("interacted"),
            activity("interrupted"),
        )
        assert [item["type"] for item in events if item["type"].startswith("span")] == [
            "span_start",
            "span_end",
        ]
        assert notes(events, "subagent_activity")[0]["activity"] == "interacted"

    def test_an_id_is_never_a_pattern(self, tree: Path) -> None:
        spawn = event("collab_agent_spawn_end", call_id="s", new_thread_id="*", prompt="p")
        tree.write_text("".join(json.dumps(record) + "\n" for record in (meta(), said("x"), spawn)))
        _, events = read(at=tree)
        assert [body(item)["reference"] for item in events if item["type"] == "span_start"] == ["*"]

    def test_agents_as_items(self) -> None:
        def build_item(tool: str, **more: Any) -> dict[str, Any]:
            item = {
                "type": "CollabAgentToolCall",
                "tool": tool,
                "receiver_thread_ids": [CHILD],
                **more,
            }
            return event("item_completed", item=item)

        agent = {"thread_id": CHILD, "agent_nickname": "Fern", "agent_role": None}
        record, events = read(
            meta(),
            call("s", "spawn_agent", message="look"),
            build_item(
                "spawn_agent",
                id="s",
                receiver_agents=[agent],
                prompt="look",
                agents_states={CHILD: "running"},
            ),
            output("s", json.dumps({"agent_id": CHILD})),
            build_item("send_input", id="i", prompt="look up", agents_states={CHILD: "running"}),
            build_item("wait", id="w", agents_states={CHILD: {"completed": "all well"}}),
            build_item("wait", id="w"),
        )
        start, end = (item for item in events if item["type"].startswith("span"))
        assert (start["links"]["call_id"], body(start)["nickname"]) == (
            events[1]["links"]["call_id"],
            "Fern",
        )
        assert body(end) == {"status": "completed", "result": "all well"}
        assert notes(events, "subagent_message")[0]["prompt"] == "look up"
        assert not record.notes

    def test_a_fork_whose_history_is_not_there(self) -> None:
        base = {"thread_id": CHILD, "end_ordinal_exclusive": 9}
        record, events = read(meta(history_base=base), said("on"))
        assert [note.code for note in record.notes] == ["history-elsewhere"]
        assert summarize_content(events) == [("assistant", "on")]

    def test_a_fork_of_itself(self, tmp_path: Path) -> None:
        path = tmp_path / f"rollout-2026-03-02T09-00-00-{ME}.jsonl"
        records = (meta(history_base={"thread_id": ME, "end_ordinal_exclusive": 9}), said("on"))
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        record, events = read(at=path)
        assert [note.code for note in record.notes] == ["history-elsewhere"]
        assert summarize_content(events) == [("assistant", "on")]
