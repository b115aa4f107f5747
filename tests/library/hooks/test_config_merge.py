"""Handlers are added, updated and removed without any other change to the file."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.library.hooks.config_merge import (
    UnsafeEditError,
    add_handlers,
    find_our_programs,
    parse_config,
    remove_handlers,
    render_snippet,
)
from open_token.library.hooks.handlers import build_command, get_hooks, list_hook_agents

NAMES = list(list_hook_agents())
OTHER = {"type": "command", "command": "say done"}


def command(name: str, program: str = "/opt/open-token") -> str:
    return build_command((program,), name, None)


def put(raw: bytes, name: str, program: str = "/opt/open-token") -> bytes:
    return add_handlers(raw, get_hooks(name), name, command(name, program))


def out(raw: bytes, name: str) -> bytes:
    return remove_handlers(raw, get_hooks(name), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_new_file_has_one_handler_for_each_event(name: str) -> None:
    runtime = get_hooks(name)
    raw = put(b"", name)
    whole = json.loads(raw)
    assert {key: value for key, value in whole.items() if key != "hooks"} == runtime.top_level
    assert tuple(whole["hooks"]) == runtime.events
    assert find_our_programs(raw, runtime, name) == ["/opt/open-token"] * 3
    assert put(raw, name) == raw
    assert json.loads(out(raw, name)) == runtime.top_level
    assert json.loads(render_snippet(runtime, command(name))) == whole


@pytest.mark.parametrize("name", NAMES)
def test_what_others_wrote_stays_where_it_was(name: str) -> None:
    runtime = get_hooks(name)
    entry: Any = {"matcher": "*", "hooks": [OTHER]} if runtime.is_grouped else OTHER
    before = {
        "model": "x",
        "hooks": {runtime.events[2]: [entry], "Other": [entry], "enabled": True},
        "z": [1, 2.5],
    }
    raw = put(json.dumps(before | runtime.top_level).encode(), name)
    after = json.loads(raw)
    assert after["hooks"][runtime.events[2]][0] == entry
    assert after["hooks"]["Other"] == [entry]
    assert list(after)[:3] == ["model", "hooks", "z"]
    assert json.loads(out(raw, name)) == before | runtime.top_level


def test_a_handler_beside_another_in_one_group_is_replaced_and_taken_out_alone() -> None:
    old = {"type": "command", "command": command("claude-code", "/old/open-token"), "timeout": 1}
    group = {"matcher": "", "hooks": [old, OTHER, old]}
    raw = put(json.dumps({"hooks": {"Stop": [group]}}).encode(), "claude-code")
    (stop,) = json.loads(raw)["hooks"]["Stop"]
    assert [handler["command"] for handler in stop["hooks"]] == [command("claude-code"), "say done"]
    assert json.loads(out(raw, "claude-code")) == {
        "hooks": {"Stop": [{"matcher": "", "hooks": [OTHER]}]}
    }


def test_a_group_with_a_matcher_stays_when_it_gets_empty() -> None:
    ours = {"type": "command", "command": command("claude-code")}
    raw = json.dumps({"hooks": {"Stop": [{"matcher": "x", "hooks": [ours]}]}}).encode()
    assert json.loads(out(raw, "claude-code")) == {
        "hooks": {"Stop": [{"matcher": "x", "hooks": []}]}
    }


def test_handlers_for_events_of_earlier_versions_go_too() -> None:
    raw = json.dumps({"hooks": {"Long ago": [{"hooks": [{"command": command("codex")}]}]}}).encode()
    assert json.loads(out(raw, "codex")) == {}


def test_indentation_and_line_ends_stay() -> None:
    raw = b'{\r\n\t"model": "\xc3\xa4",\r\n\t"hooks": {}\r\n}\r\n'
    fresh = put(raw, "cursor")
    assert fresh.startswith(b'{\r\n\t"model": "\xc3\xa4",\r\n\t"hooks": {\r\n\t\t"sessionEnd"')
    assert fresh.endswith(b"}\r\n")
    assert b"\n" not in fresh.replace(b"\r\n", b"")
    assert not put(b'{"a": 1}', "cursor").endswith(b"\n")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"// mine\n{}", "comments"),
        (b'{"a": 1,}', "comments"),
        (b'\xef\xbb\xbf{"a": 1}', "comments"),
        (b"\xff{}", "comments"),
        (b"[" * 100_000, "comments"),
        (b'{"a": "\\ud800"}', "comments"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b"[]", "object"),
        (b'{"hooks": []}', "hooks"),
        (b'{"hooks": {"Stop": {}}}', "Stop"),
    ],
)
def test_what_would_lose_something_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(UnsafeEditError, match=why):
        put(raw, "claude-code")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"hooks": []}',
        b'{"hooks": {"Stop": {}}}',
        b'{"hooks": {"Stop": [1, {"hooks": 2}]}}',
        b"{}",
    ],
)
def test_a_file_without_our_entries_stays_byte_identical(raw: bytes) -> None:
    assert out(raw, "claude-code") == raw
    assert find_our_programs(raw, get_hooks("claude-code"), "claude-code") == []


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
HANDLERS = st.lists(st.just(OTHER) | VALUES, min_size=1, max_size=3)
EVENTS = st.sampled_from(["Stop", "SessionEnd", "stop", "sessionEnd", "Other"])
FILES = st.dictionaries(st.text().filter(lambda key: key != "hooks"), VALUES, max_size=3)


@given(FILES, st.dictionaries(EVENTS, HANDLERS, min_size=1), st.sampled_from(NAMES))
def test_put_in_and_taken_out_is_as_before(
    others: dict[str, Any], hooks: dict[str, Any], name: str
) -> None:
    before = others | get_hooks(name).top_level | {"hooks": hooks}
    raw = json.dumps(before).encode()
    there = put(raw, name)
    assert put(there, name) == there
    assert len(find_our_programs(there, get_hooks(name), name)) == 3
    assert parse_config(out(there, name)) == before
