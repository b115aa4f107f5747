"""Recognize trajectories and demonstrations of SWE-agent, and trajectories of mini-swe-agent."""

import re
from typing import Any

from open_token.sources.source import Source

_MESSAGE_FIELDS = frozenset(("agent", "message_type", "thought", "action", "is_demo"))
_STEP_FIELDS = frozenset(("action", "observation", "response", "thought", "state", "query"))
_YAML_HISTORY = re.compile(
    rb"^history:[ \t]*\r?\n(?:[ \t]*#[^\n]*\n)*[ \t]*- (?:role|message_type|content|agent):",
    re.MULTILINE,
)


def sniff(source: Source) -> bool:
    """Return whether the source is a trajectory or a demonstration."""
    if source.shape == "text":
        return _YAML_HISTORY.search(source.head) is not None
    if len(source.sample) != 1 or not isinstance(source.sample[0], dict):
        return False
    return is_mini_trajectory(source.sample[0]) or _is_trajectory(source.sample[0])


def is_mini_trajectory(document: dict[str, Any]) -> bool:
    """Return whether mini-swe-agent wrote the document."""
    if not isinstance(document.get("messages"), list):
        return False
    name = document.get("trajectory_format")
    if isinstance(name, str) and name.startswith("mini-swe-agent"):
        return True
    # Before 1.0 there was no name of the format.
    info = document.get("info")
    if not isinstance(info, dict):
        return False
    return "mini_version" in info or {"exit_status", "model_stats"} <= info.keys()


def _is_trajectory(document: dict[str, Any]) -> bool:
    history = document.get("history")
    if isinstance(history, list):
        for item in history[:8]:
            if isinstance(item, dict) and "role" in item and not _MESSAGE_FIELDS.isdisjoint(item):
                return True
    # Some files hold only the steps.
    steps = document.get("trajectory")
    if not isinstance(steps, list) or not steps or not isinstance(steps[0], dict):
        return False
    return "role" not in steps[0] and len(_STEP_FIELDS.intersection(steps[0])) > 2
