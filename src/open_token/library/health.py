"""The state of open-token on this machine: packages, agents and their sessions, archive, index.

Nothing is changed or created, and no session is read.
"""

import os
import platform
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from open_token import __version__
from open_token.errors import OpenTokenError
from open_token.formats.definition import Agent, McpConfig, Retention
from open_token.library import skills
from open_token.library.archive.index import CURRENT, FAILED, GONE, INDEX_NAME, Index
from open_token.library.discovery import Discovery, Session, UnreadableFiles
from open_token.library.hooks import installation as hooks
from open_token.library.index import SearchIndex
from open_token.library.index.database import FILE_NAME
from open_token.library.places import path_to_text
from open_token.library.skills import InstallEnvironment
from open_token.registry import list_agents, load_reader
from open_token.settings import Settings, load_settings
from open_token.sources.decompress import load_zstd
from open_token.storage.files import read_optional

SOON_DAYS = 7
"""A session that its agent deletes within this many days is worth a warning."""
_DAY_SECONDS = 86_400
_MAX_CONFIG_BYTES = 1 << 25
_BROKEN_HOOKS = ("broken", "outdated", "unreadable")
_BROKEN_SKILLS = ("incomplete", "outdated")


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and what to do about it."""

    text: str
    remedy: str


@dataclass(frozen=True)
class Package:
    """An optional package: whether it is there, and what is missing without it."""

    name: str
    is_present: bool
    effect: str
    """What is missing without it."""
    remedy: str


@dataclass
class AgentHealth:
    """An agent that was found on this machine."""

    name: str
    title: str
    places: dict[str, int] = field(default_factory=dict)
    """The number of sessions by folder."""
    unreadable: list[UnreadableFiles] = field(default_factory=list)
    hook: str | None = None
    """The state of our hooks; None if the agent has none."""
    skill: str | None = None
    """The state of our skill; None if the agent takes none."""
    mcp: str | None = None
    """Whether our MCP server is registered; None if that is not known."""
    keeps_days: int | None = None
    """After how many days the agent deletes its sessions."""
    expiring: int = 0
    """How many sessions it deletes soon that are not archived."""


@dataclass(frozen=True)
class ArchiveHealth:
    """The archive in its usual folder."""

    folder: Path
    sessions: int
    failed: int
    last_pass: str | None


@dataclass(frozen=True)
class IndexHealth:
    """The search index."""

    path: Path
    sessions: int
    failed: int


@dataclass
class Health:
    """Everything that a report says."""

    version: str
    python: str
    packages: list[Package] = field(default_factory=list)
    agents: list[AgentHealth] = field(default_factory=list)
    archive: ArchiveHealth | None = None
    index: IndexHealth | None = None
    problems: list[Problem] = field(default_factory=list)


def check_health(
    env: Mapping[str, str], machine: InstallEnvironment, program: tuple[str, ...], now: float
) -> Health:
    """Return the state of everything; `program` is the command that starts open-token."""
    health = Health(__version__, platform.python_version())
    health.packages = _check_packages()
    archived: dict[str, int] = {}
    settings = _check_settings(env, machine.project, health.problems)
    if settings is not None:
        archived = _check_archive(settings, health)
        _check_index(settings, health)
    discovery = Discovery.of(env, machine.home, machine.project)
    _check_agents(discovery, machine, program, archived, now, health)
    return health


def _check_packages() -> list[Package]:
    return [
        Package(
            "hyperscan",
            find_spec("hyperscan") is not None,
            "redaction is slower",
            "install the package hyperscan, where it exists for this platform",
        ),
        Package(
            "zstd",
            load_zstd() is not None,
            "sessions compressed with Zstandard cannot be read (Zed, Codex, Inspect AI)",
            "install the package backports.zstd, or use Python 3.14",
        ),
        Package(
            "prices",
            find_spec("genai_prices") is not None,
            "`open-token stats` estimates no cost",
            "install the package genai-prices",
        ),
        Package(
            "pii",
            find_spec("mimesis") is not None,
            "redact=pii and strict do not mask names by lists of names",
            "install the package mimesis",
        ),
        Package(
            "server",
            find_spec("fastapi") is not None and find_spec("uvicorn") is not None,
            "`open-token serve` does not start",
            "install open-token-cli[server]",
        ),
    ]


def _check_settings(env: Mapping[str, str], cwd: Path, problems: list[Problem]) -> Settings | None:
    try:
        settings = load_settings(env, cwd)
    except OpenTokenError as problem:
        where = f"{problem.where}: " if problem.where else ""
        problems.append(Problem(f"{where}{problem.what}", problem.help or "correct the settings"))
        return None
    for warning in settings.warnings:
        problems.append(Problem(warning, "correct or remove that entry of the settings"))
    return settings


def _check_archive(settings: Settings, health: Health) -> dict[str, int]:
    """Check the archive in its usual folder.

    Return the time of each source when it was archived: what came later is not in it.
    """
    folder = settings.folders.data / "archive"
    if not os.path.exists(folder / INDEX_NAME):
        return {}
    try:
        entries = list(Index(folder).entries.values())
    except OpenTokenError as problem:
        health.problems.append(Problem(f"the archive: {problem.what}", problem.help or ""))
        return {}
    failed = sum(entry.state == FAILED for entry in entries)
    passes = [entry.archived_at for entry in entries if entry.archived_at]
    kept = [entry for entry in entries if entry.state in (CURRENT, GONE)]
    health.archive = ArchiveHealth(folder, len(kept), failed, max(passes, default=None))
    if failed:
        health.problems.append(
            Problem(
                f"sessions that could not be archived: {failed:,}",
                "run `open-token archive`, which says why",
            )
        )
    return {
        entry.source: entry.source_mtime_ns
        for entry in entries
        if entry.source and entry.state == CURRENT
    }


def _check_index(settings: Settings, health: Health) -> None:
    folder = settings.folders.cache
    if not os.path.exists(folder / FILE_NAME):
        return
    try:
        with SearchIndex(folder) as index:
            status = index.read_status()
    except OpenTokenError as problem:
        health.problems.append(Problem(f"the search index: {problem.what}", problem.help or ""))
        return
    health.index = IndexHealth(status.path, status.sessions, status.failed)
    if status.failed:
        health.problems.append(
            Problem(
                f"sessions that could not be indexed: {status.failed:,}",
                "`open-token index --status` lists them; `open-token export PATH` says why",
            )
        )


def _check_agents(
    discovery: Discovery,
    machine: InstallEnvironment,
    program: tuple[str, ...],
    archived: dict[str, int],
    now: float,
    health: Health,
) -> None:
    sessions = discovery.sessions()
    unreadable = discovery.find_unreadable()
    hook_states: dict[str, hooks.HookInstallation] = {}
    for item in hooks.list_installations(machine, program):
        if item.scope == "user":
            hook_states[item.runtime] = item
    skill_states = _read_skill_states(machine, health.problems)

    # An agent is there if it left sessions, or if something was installed for it.
    known = {agent.name: agent for agent in list_agents()}
    present = {session.reader for session in sessions}
    present |= {files.agent for files in unreadable}
    for name, agent in known.items():
        if agent.label in hook_states or agent.label in skill_states:
            present.add(name)

    for name in sorted(present):
        definition = known.get(name)
        own = [session for session in sessions if session.reader == name]
        title = definition.title if definition else load_reader(name).definition.title
        found = AgentHealth(name, title, _count_by_folder(own))
        found.unreadable = [files for files in unreadable if files.agent == name]
        health.agents.append(found)
        if definition is None:
            # A format that no agent owns has nothing that could be installed.
            continue
        agent = definition
        if agent.hooks:
            place = hook_states.get(agent.label)
            found.hook = place.state if place else "absent"
            if place and place.state in _BROKEN_HOOKS:
                health.problems.append(_describe_hook_problem(agent, place))
        if agent.skill:
            found.skill = skill_states.get(agent.label, "absent")
            if found.skill in _BROKEN_SKILLS:
                health.problems.append(_describe_skill_problem(agent, found.skill))
        if agent.mcp:
            found.mcp = _find_mcp_server(agent.mcp, machine)
        if agent.retention:
            _check_retention(found, agent.retention, machine, own, archived, now, health.problems)


def _read_skill_states(machine: InstallEnvironment, problems: list[Problem]) -> dict[str, str]:
    states: dict[str, str] = {}
    try:
        installations = skills.list_installations(machine)
    except OpenTokenError as problem:
        problems.append(Problem(problem.what, problem.help or ""))
        return states
    for item in installations:
        for label in item.runtimes:
            states.setdefault(label, item.state)
    states.pop("universal", None)
    return states


def _describe_hook_problem(agent: Agent, place: hooks.HookInstallation) -> Problem:
    remedy = f"run `open-token hook install --for {agent.label}`"
    if place.state == "unreadable":
        text = f"the hooks of {agent.title} are not known: {place.path} cannot be read"
        return Problem(text, f"correct that file, then {remedy}")
    if place.state == "broken":
        return Problem(f"the hooks of {agent.title} call a program that is gone", remedy)
    return Problem(f"the hooks of {agent.title} are of another installation", remedy)


def _describe_skill_problem(agent: Agent, state: str) -> Problem:
    return Problem(
        f"the skill of {agent.title} is {state}",
        f"run `open-token skill install --for {agent.label}`",
    )


def _count_by_folder(sessions: Iterable[Session]) -> dict[str, int]:
    """Count sessions by folder; folders of single projects or sessions count as one."""
    counts = Counter(session.path.parent for session in sessions)
    siblings = Counter(folder.parent for folder in counts)
    places: Counter[str] = Counter()
    for folder, count in counts.items():
        place = folder
        if siblings[folder.parent] > 1:
            place = folder.parent
        places[path_to_text(place)] += count
    return dict(sorted(places.items()))


def _find_mcp_server(mcp: McpConfig, machine: InstallEnvironment) -> str | None:
    """Return whether our server is registered; None if a configuration cannot be read."""
    state: str | None = "absent"
    for template in mcp.files:
        path = machine.resolve_template(template)
        if not os.path.exists(path):
            continue
        config = _read_config(path)
        if config is None:
            state = None
            continue
        servers = config.get(mcp.key)
        if isinstance(servers, dict) and any(_is_ours(*item) for item in servers.items()):
            return "registered"
    return state


def _is_ours(name: str, server: Any) -> bool:
    if not isinstance(server, dict):
        return False
    if name == "open-token":
        return True
    # Under another name it is known by its command, which may start with `uvx` or a Python.
    words = [server.get("command")]
    args = server.get("args")
    if isinstance(args, list):
        words += args
    return "mcp" in words and any(_is_program(word) for word in words)


def _is_program(word: Any) -> bool:
    return isinstance(word, str) and Path(word).name in ("open-token", "open_token")


def _read_config(path: Path) -> dict[str, Any] | None:
    """Return a configuration file of an agent; None if it is too large or not valid."""
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            return None
        raw = read_optional(path)
        if raw is None:
            return None
        if path.suffix == ".toml":
            return tomllib.loads(raw.decode("utf-8"))
        value = msgspec.json.decode(raw or b"{}")
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _check_retention(
    found: AgentHealth,
    retention: Retention,
    machine: InstallEnvironment,
    sessions: list[Session],
    archived: dict[str, int],
    now: float,
    problems: list[Problem],
) -> None:
    """Count the sessions that the agent deletes soon and that the archive does not have."""
    config = _read_config(machine.resolve_template(retention.file)) or {}
    days = config.get(retention.key)
    found.keeps_days = retention.days
    if type(days) is int and days >= 0:
        found.keeps_days = days
    limit = now - (found.keeps_days - SOON_DAYS) * _DAY_SECONDS
    for session in sessions:
        archived_mtime_ns = archived.get(path_to_text(session.path), -1)
        is_archived = archived_mtime_ns >= session.mtime_ns
        if session.modified < limit and not is_archived:
            found.expiring += 1
    if found.expiring:
        problems.append(
            Problem(
                f"sessions that {found.title} deletes within {SOON_DAYS} days, and that are not "
                f"archived: {found.expiring:,}; it keeps them for {found.keeps_days} days",
                f"keep them with `open-token archive`, or raise {retention.key} in "
                f"{retention.shown}",
            )
        )


def format_day(moment: str | None) -> str:
    """Return the day and time of a pass, in UTC; `never` if there was none."""
    if moment is None:
        return "never"
    try:
        parsed = datetime.fromisoformat(moment).astimezone(UTC)
    except ValueError:
        return "at an unknown time"
    return parsed.strftime("%Y-%m-%d %H:%M UTC")
