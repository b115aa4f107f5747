"""Matching of subagents with their calls, in linear time."""

from typing import Any

from open_token.agents.claude_code.subagents import SpawnCall, SpawnCalls


def spawns(*arguments: dict[str, Any]) -> SpawnCalls:
    calls = SpawnCalls()
    for number, given in enumerate(arguments):
        calls.add(SpawnCall(f"k{number}", given, "act_001", None))
    return calls


def key_of(spawn: SpawnCall | None) -> str | None:
    return spawn.key if spawn else None


def test_the_prompt_decides() -> None:
    calls = spawns({"prompt": "a"}, {"prompt": "b"}, {"prompt": "b"})
    assert [key_of(calls.take("b", None)) for _ in range(4)] == ["k1", "k2", "k0", None]


def test_without_its_prompt_the_first_of_its_kind_is_taken() -> None:
    calls = spawns(
        {"subagent_type": "review"}, {"subagent_type": "plan"}, {}, {"subagent_type": "plan"}
    )
    assert [key_of(calls.take(None, "plan")) for _ in range(4)] == ["k1", "k2", "k3", None]
    assert key_of(calls.take(7, None)) == "k0"


def test_a_closed_call_cannot_be_taken() -> None:
    calls = spawns({"prompt": "a"}, {})
    assert "k0" in calls
    assert key_of(calls.close("k0")) == "k0"
    assert "k0" not in calls
    assert calls.close("k0") is None
    assert key_of(calls.take("a", None)) == "k1"


def test_a_repeated_call_replaces_the_first() -> None:
    calls = spawns({"prompt": "a"})
    calls.add(SpawnCall("k0", {"prompt": "b"}, "act_001", None))
    assert key_of(calls.take("b", None)) == "k0"
    assert calls.take("a", None) is None


def test_each_waiting_call_is_looked_at_a_few_times_only() -> None:
    looks = 0

    class Counted(SpawnCall):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "is_taken"
            return super().__getattribute__(name)

    calls, count = SpawnCalls(), 2000
    for number in range(count):
        calls.add(Counted(f"k{number}", {"prompt": f"p{number}"}, "act_001", None))
    for number in reversed(range(count)):
        assert key_of(calls.take(f"p{number}", None)) == f"k{number}"
    assert looks < 10 * count
