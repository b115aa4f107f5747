"""SWE-agent: trajectories and demonstrations, and the trajectories of mini-swe-agent."""

import re
from typing import Any

from open_token.sources.source import Source

_MARKS = frozenset("agent message_type thought action is_demo".split())
_STEP = frozenset("action observation response thought state query".split())
_YAML = re.compile(
    rb"^history:[ \t]*\r?\n(?:[ \t]*#[^\n]*\n)*[ \t]*- (?:role|message_type|content|agent):",
    re.MULTILINE,
)


def sniff(source: Source) -> bool:
    """Whether it is a trajectory with its history, a demonstration, or a trajectory of
    mini-swe-agent."""
    if source.shape == "text":
        return _YAML.search(source.head) is not None
    if len(source.sample) != 1 or not isinstance(source.sample[0], dict):
        return False
    return is_mini(source.sample[0]) or _is_trajectory(source.sample[0])


def is_mini(document: dict[str, Any]) -> bool:
    """Whether mini-swe-agent wrote it, which names its format; before 1.0 it only gave its
    version."""
    if not isinstance(document.get("messages"), list):
        return False
    name, info = document.get("trajectory_format"), document.get("info")
    if isinstance(name, str) and name.startswith("mini-swe-agent"):
        return True
    return isinstance(info, dict) and (
        "mini_version" in info or {"exit_status", "model_stats"} <= info.keys()
    )


def _is_trajectory(document: dict[str, Any]) -> bool:
    history, steps = document.get("history"), document.get("trajectory")
    if isinstance(history, list) and any(
        isinstance(item, dict) and "role" in item and not _MARKS.isdisjoint(item)
        for item in history[:8]
    ):
        return True
    first = steps[0] if isinstance(steps, list) and steps else None
    return isinstance(first, dict) and len(_STEP.intersection(first)) > 2 and "role" not in first
