"""The agents with hooks, and how our handlers are recognized."""

from pathlib import Path

import pytest

from open_token import registry
from open_token.library.hooks.handlers import (
    build_command,
    build_handler,
    find_our_program,
    get_hooks,
    list_hook_agents,
)

US = "/opt/with space/open-token"


def test_every_runtime_has_a_reader_and_three_events() -> None:
    assert list(list_hook_agents()) == [
        "claude-code",
        "codex",
        "copilot-cli",
        "cursor",
        "gemini-cli",
        "qwen-code",
    ]
    for name, agent in list_hook_agents().items():
        assert agent.name in registry.READERS
        assert len(get_hooks(name).events) == 3
        assert list(build_handler(get_hooks(name), "x").values()).count("x") == 1


def test_times_are_in_the_unit_of_the_runtime() -> None:
    limits = {
        name: get_hooks(name).handler.get("timeout", get_hooks(name).handler.get("timeoutSec"))
        for name in list_hook_agents()
    }
    assert limits["codex"] == 3  # more is cut down to that, with a warning at each start
    assert {name for name, limit in limits.items() if limit > 1000} == {"gemini-cli", "qwen-code"}


def test_a_command_is_quoted_and_known_again() -> None:
    command = build_command((US,), "codex", Path("/home/you/my sessions"))
    assert (
        command == "'/opt/with space/open-token' hook run --for codex --to '/home/you/my sessions'"
    )
    assert find_our_program({"type": "command", "command": command, "timeout": 99}, "codex") == US
    assert find_our_program({"command": command}, "cursor") is None
    module = build_command(("/usr/bin/python3", "-P", "-m", "open_token"), "cursor", None)
    assert find_our_program({"bash": module}, "cursor") == "/usr/bin/python3"


@pytest.mark.parametrize(
    "handler",
    [
        None,
        "open-token hook run --for codex",
        [],
        {},
        {"command": 1},
        {"command": "'open quote"},
        {"command": "hook run --for codex"},
        {"command": "other hook run --for codex"},
        {"command": "echo open-token hook run --for codex"},
        {"command": "open-token hook status --for codex"},
        {"command": "open-token hook run --for"},
    ],
)
def test_handlers_of_others_are_not_ours(handler: object) -> None:
    assert find_our_program(handler, "codex") is None
