"""SWE-agent: trajectories and demonstrations, and the trajectories of mini-swe-agent."""

import re
from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.source import Source

TITLE = "SWE-agent and mini-swe-agent"
PLACES = (
    "$SWE_AGENT_TRAJECTORY_DIR/*/*/*.traj",
    "$SWE_AGENT_TRAJECTORY_DIR/*/*/*/*.traj",
    "./trajectories/*/*/*.traj",
    "./trajectories/*/*/*/*.traj",
    "$MSWEA_GLOBAL_CONFIG_DIR/last_mini_run.traj.json",
    ".config/mini-swe-agent/last_mini_run.traj.json",
    "Library/Application Support/mini-swe-agent/last_mini_run.traj.json",
    "AppData/Local/mini-swe-agent/mini-swe-agent/last_mini_run.traj.json",
)
SEEN = "SWE-agent 0.x and 1.x trajectories (text, XML, function calls), demonstrations; mini-swe-agent 1.x and 2.x"
CARRIES = "Prompts, demonstrations, answers, thoughts, commands, outputs with state and time, the outcome, tokens and cost."
LEAVES = "The configuration of the run, and the input of each model call, which repeats what was said before."
ASIDE = ("replay_config",)
"""Fields that nobody said."""

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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    if source.shape == "text":
        documents = import_module("open_token.readers._yaml_values").documents(
            source.text, source.name
        )
        document = documents[0] if documents else {}
    else:
        document = source.document
    part = "_mini_swe_agent" if isinstance(document, dict) and is_mini(document) else "_swe_agent"
    import_module(f"open_token.readers.{part}").tell(
        document if isinstance(document, dict) else {}, draft
    )
