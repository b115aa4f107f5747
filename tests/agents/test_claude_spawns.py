"""Finds the call that a subagent belongs to, and stays quick when thousands wait."""

from typing import Any

from open_token.agents.claude_code.subagents import Spawn, Spawns


def spawns(*arguments: dict[str, Any]) -> Spawns:
    made = Spawns()
    for number, given in enumerate(arguments):
        made.add(Spawn(f"k{number}", given, "act_001", None))
    return made


def key_of(spawn: Spawn | None) -> str | None:
    return spawn.key if spawn else None


def test_the_prompt_decides() -> None:
    made = spawns({"prompt": "a"}, {"prompt": "b"}, {"prompt": "b"})
    assert [key_of(made.take("b", None)) for _ in range(4)] == ["k1", "k2", "k0", None]


def test_without_its_prompt_the_first_of_its_kind_is_taken() -> None:
    made = spawns(
        {"subagent_type": "review"}, {"subagent_type": "plan"}, {}, {"subagent_type": "plan"}
    )
    assert [key_of(made.take(None, "plan")) for _ in range(4)] == ["k1", "k2", "k3", None]
    assert key_of(made.take(7, None)) == "k0"


def test_an_answered_call_is_nobodys() -> None:
    made = spawns({"prompt": "a"}, {})
    assert "k0" in made
    assert key_of(made.answer("k0")) == "k0"
    assert "k0" not in made
    assert made.answer("k0") is None
    assert key_of(made.take("a", None)) == "k1"


def test_a_call_told_again_takes_the_place_of_the_first() -> None:
    made = spawns({"prompt": "a"})
    made.add(Spawn("k0", {"prompt": "b"}, "act_001", None))
    assert key_of(made.take("b", None)) == "k0"
    assert made.take("a", None) is None


def test_each_waiting_call_is_looked_at_a_few_times_only() -> None:
    looks = 0

    class Counted(Spawn):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "taken"
            return super().__getattribute__(name)

    made, count = Spawns(), 2000
    for number in range(count):
        made.add(Counted(f"k{number}", {"prompt": f"p{number}"}, "act_001", None))
    for number in reversed(range(count)):
        assert key_of(made.take(f"p{number}", None)) == f"k{number}"
    assert looks < 10 * count
