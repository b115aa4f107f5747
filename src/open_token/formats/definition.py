"""What a format or an agent declares about itself: data only, so that loading it costs nothing."""

from typing import Any

import msgspec


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of input that can be read.

    Its package also holds `detect.py` (is this input of that format?) and `reader.py` (read it).
    """

    name: str
    """The name of the package, which `--from` takes; people write it with dashes."""
    title: str
    """What people call it."""
    checked: str
    """The versions of real files that it was checked against; behind `from descriptions only:`, what
    was never seen."""
    includes: str
    """What an export of it holds."""
    omits: str
    """What an export of it leaves out; `native=full` preserves it."""
    signatures: tuple[bytes, ...] = ()
    """A prefilter: one of these byte strings is in the first 64 kB of such an input. Without any,
    `detect.sniff` is always asked."""
    containers: tuple[str, ...] = ()
    """The shapes of input besides text that it can come in: `sqlite`, `zip`, `folder`."""
    holds_several: bool = False
    """Whether one input can hold several conversations; `reader.py` then defines
    `list_conversations` and `find_owner`."""
    places: tuple[str, ...] = ()
    """Where sessions are stored: globs below the home directory, below a directory that `$NAME` in
    the environment names, or below the working directory (`./...`). A pattern that ends in a slash
    matches directories."""
    part_files: tuple[str, ...] = ()
    """File name patterns of files that belong to the session in another file."""
    block_separator: str | None = None
    """A regular expression for the start of a block, where the format is text in blocks."""
    technical_fields: tuple[str, ...] = ()
    """Fields, lists of a document and tables that hold nothing anybody said; the fidelity report
    does not expect them in an export."""
    is_general: bool = False
    """Whether formats with fields of their own look like this one, too; their claim wins."""
    is_experimental: bool = False
    """Whether the reader was written from descriptions alone and never checked on a real file."""
    unreadable: str = ""
    """Why the files at `places` cannot be read, for an agent that has no reader: "they are
    encrypted". Such files are listed, so that nobody believes there are none."""

    @property
    def label(self) -> str:
        """The name as people write it."""
        return self.name.replace("_", "-")


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent calls a command at the end of a session.

    In paths, `{home}`, `{claude}`, `{codex}`, ... stand for the directory of the user or of the
    agent, which environment variables may move.
    """

    home: str
    """A directory that exists where the agent is installed."""
    user: str
    """The configuration file of the user."""
    project: str
    """The configuration file of a project, relative to it."""
    events: tuple[str, ...]
    """The end of a session, the moment before a compaction, and the end of a turn: an agent that is
    killed never reports the end of its session."""
    handler: dict[str, Any]
    """One handler as the file holds it; `{command}` stands for the command. Timeouts are in the
    agent's own unit."""
    next_step: str
    """What the user does after the installation."""
    is_grouped: bool = False
    """Whether handlers stand in groups with a matcher."""
    top_level: dict[str, Any] = {}
    """What the file needs besides."""


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent looks for skills, and how a person calls ours there."""

    call: str
    user: str | None = None
    """The skills directory of the user; None for the shared one."""
    project: str | None = None
    """The skills directory of a project; None for the shared one."""
    folders: tuple[str, ...] = ()
    """Directories that exist where the agent is installed."""
    commands: tuple[str, ...] = ()
    """Programs that exist where the agent is installed: only names that nothing else has."""
    frontmatter: tuple[str, ...] = ()
    """Lines that the agent honours beyond the skill standard."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is pointed at a provider on this machine; `{url}` stands for its address."""

    env: dict[str, str]
    command: str = ""
    """What to type after the variables are set."""


class McpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent registers MCP servers: files in JSON or TOML, and the key of the servers."""

    files: tuple[str, ...]
    key: str = "mcpServers"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """After how many days an agent deletes its sessions."""

    file: str
    """The settings file of the user, in JSON."""
    shown: str
    """That file as people write it."""
    key: str
    days: int
    """What holds without that key."""


class Agent(Format, frozen=True, kw_only=True):
    """A runtime whose sessions can be read, and what else is known about it."""

    session_id_variables: tuple[str, ...] = ()
    """Environment variables in which a running session passes its id to commands."""
    session_file_variables: tuple[str, ...] = ()
    """Environment variables in which a running session passes the path of its file."""
    hooks: Hooks | None = None
    skill: Skill | None = None
    replay: Replay | None = None
    mcp: McpConfig | None = None
    retention: Retention | None = None
    accepts_handoff: bool = False
    """Whether the package holds `handoff.py`, which writes a session for this agent."""
    resume: str = ""
    """The command that resumes a session; `{id}` stands for its id."""
