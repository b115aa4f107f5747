"""A run in progress: its request, model and tools, and the right to write to its session."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as struct_field

from open_token.model.agent_settings import AgentSettings
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import ROOT_LOOP
from open_token.server.agent.model_interface import Model
from open_token.server.agent.tools.interface import Tool, ToolContext
from open_token.server.core.journal import AppendResult
from open_token.server.store.interface import FencedError
from open_token.server.store.rows import Fence, Run
from open_token.session import SessionState

if TYPE_CHECKING:
    from open_token.server.core.services import Services


class RunRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run has to do; it is the body of the run in the store, not a part of the log."""

    kind: str = "chat"
    """`chat` or `compact`."""
    model: str
    mode: str = "executing"
    headless: bool = False
    output_schema: Json | None = None
    runtime_env: dict[str, str] = struct_field(default_factory=dict)
    settings: AgentSettings = AgentSettings()
    """Those of the session, changed by those of the message."""


class RunSuspended(Exception):
    """The server is shutting down: the run stops at a safe point and resumes at the next start."""


@dataclass(frozen=True)
class LoopRef:
    """A loop: that of the main agent, or of a subagent."""

    loop_id: str = ROOT_LOOP
    depth: int = 0
    parent_call: str | None = None
    """The tool call that started the subagent."""


@dataclass
class RunContext:
    """A run that this worker has claimed."""

    services: "Services"
    run: Run
    request: RunRequest
    model: Model
    tools: dict[str, Tool]
    env: Mapping[str, str] = field(default_factory=dict)
    is_closing: Callable[[], bool] = lambda: False
    leftover: list[NewEvent] = field(default_factory=list)
    """Streamed events that were not written when the run was interrupted."""
    memories: list[Any] = field(default_factory=list)
    """The memories for the model; clients are sent them with the first turn."""
    memories_sent: bool = False
    skill_instructions: str = ""
    """The instructions of the skill that the session follows."""
    shown: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """A cache of blob results for the model: size and content by the hash of the blob."""

    @property
    def owner(self) -> str:
        """The owner of the session."""
        return self.run.owner

    @property
    def session_id(self) -> str:
        """The session."""
        return self.run.session_id

    @property
    def settings(self) -> AgentSettings:
        """How the agent works."""
        return self.request.settings

    @property
    def context_window(self) -> int:
        """The context window of the model: as set, or as the model says."""
        return self.settings.context_window or self.model.context_window

    @property
    def fence(self) -> Fence:
        """The fencing token that every write is checked against."""
        return Fence(run_id=self.run.id, token=self.run.fencing_token)

    async def state(self) -> SessionState:
        """Return the current state of the session."""
        return await self.services.journal.state(self.owner, self.session_id)

    async def write(
        self, events: Callable[[SessionState], Iterable[NewEvent]] | list[NewEvent], **more: Any
    ) -> AppendResult:
        """Write events for this run; raise FencedError if it was taken over by another worker."""

        def build_events(state: SessionState) -> Iterable[NewEvent]:
            if state.run is None or state.run.run_id != self.run.id:
                raise FencedError
            if callable(events):
                return events(state)
            return events

        return await self.services.journal.write(
            self.owner, self.session_id, build_events, fence=self.fence, **more
        )

    def build_tool_context(self, turn_id: str, tool_call_id: str, loop_id: str) -> ToolContext:
        """Return the context of a tool call."""
        return ToolContext(
            services=self.services,
            owner=self.owner,
            session_id=self.session_id,
            turn_id=turn_id,
            tool_call_id=tool_call_id,
            loop_id=loop_id,
            workspace=self.services.workspaces.get(self.session_id),
            env=self.env,
        )

    def display_name(self, tool_name: str) -> str:
        """Return the name of a tool for the user."""
        configured = self.services.config.display_names.get(tool_name)
        if configured:
            return configured
        tool = self.tools.get(tool_name)
        if tool is not None and tool.spec.display_name:
            return tool.spec.display_name
        return tool_name
