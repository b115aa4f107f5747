"""A run while it is worked on: what was ordered, with which model and tools, and the right to write
for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as struct_field

from open_token.entries import Json, Step
from open_token.reducer import State
from open_token.server.agent.interface import Model
from open_token.server.agent.tools.interface import Place, Tool
from open_token.server.journal import Written
from open_token.server.store.interface import Fenced
from open_token.server.store.rows import Fence, Run
from open_token.turns import ROOT

if TYPE_CHECKING:
    from open_token.server.services import Services


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is to do; it is the body of the run in the store, not a part of the log."""

    kind: str = "chat"
    """`chat`, or `compact`."""
    model: str
    mode: str = "executing"
    headless: bool = False
    output_schema: Json | None = None
    runtime_env: dict[str, str] = struct_field(default_factory=dict)


class Put(Exception):
    """The server is about to stop: the run is put down at a safe point, and goes on at the next
    start."""


@dataclass(frozen=True)
class Spot:
    """Which loop: the agent that talks with the person, or a subagent that serves a call."""

    loop_id: str = ROOT
    depth: int = 0
    fork: str | None = None
    """The call that it serves."""


@dataclass
class Work:
    """A run in the hands of a worker."""

    services: "Services"
    run: Run
    order: Order
    model: Model
    tools: dict[str, Tool]
    env: Mapping[str, str] = field(default_factory=dict)
    is_closing: Callable[[], bool] = lambda: False
    leftover: list[Step] = field(default_factory=list)
    """What was streamed and not written when the work was broken off."""
    memories: list[Any] = field(default_factory=list)
    """What the model is reminded of; told to clients with the first turn."""
    memories_told: bool = False
    shown: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """What the model is told of results that lie beside the log, with its size, by the names of
    their blobs."""

    @property
    def owner(self) -> str:
        """Whose session it is."""
        return self.run.owner

    @property
    def session_id(self) -> str:
        """The session."""
        return self.run.session_id

    @property
    def fence(self) -> Fence:
        """What every write is checked against."""
        return Fence(run_id=self.run.id, token=self.run.fencing_token)

    async def state(self) -> State:
        """The session as it is now."""
        return await self.services.journal.state(self.owner, self.session_id)

    async def write(
        self, make: Callable[[State], Iterable[Step]] | list[Step], **more: Any
    ) -> Written:
        """Write for this run; Fenced when it belongs to another by now."""

        def steps(state: State) -> Iterable[Step]:
            if state.run is None or state.run.run_id != self.run.id:
                raise Fenced
            return make(state) if callable(make) else make

        return await self.services.journal.write(
            self.owner, self.session_id, steps, fence=self.fence, **more
        )

    def place(self, turn_id: str, tool_call_id: str, loop_id: str) -> Place:
        """Where a call of a tool happens."""
        return Place(
            services=self.services,
            owner=self.owner,
            session_id=self.session_id,
            turn_id=turn_id,
            tool_call_id=tool_call_id,
            loop_id=loop_id,
            workspace=self.services.workspaces.of(self.session_id),
            env=self.env,
        )

    def display_name(self, tool_name: str) -> str:
        """What people read for a tool's name."""
        tool = self.tools.get(tool_name)
        given = self.services.config.display_names.get(tool_name)
        return given or (tool.spec.display_name if tool else "") or tool_name
