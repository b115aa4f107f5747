"""A run from its claim to its end: prepared, worked on, and ended in one transaction with what
waits behind it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from open_token.entries import Json, Step
from open_token.errors import StoreError
from open_token.reducer import State, steps
from open_token.server import exchanges, memories
from open_token.server.agent import calls, compaction, history, loop, outputs, prompt
from open_token.server.agent.interface import ModelFault
from open_token.server.agent.models import catalogue
from open_token.server.agent.recovery import recovered
from open_token.server.agent.tools.asking import AskUserQuestion
from open_token.server.agent.tools.catalogue import tools_for
from open_token.server.agent.tools.interface import Tool
from open_token.server.agent.tools.subagents import Agent
from open_token.server.agent.work import Order, Put, Spot, Work
from open_token.server.clock import iso, moment_of
from open_token.server.refusals import Refused
from open_token.server.store.interface import PASSING, Fenced, Missing
from open_token.server.store.rows import Fence, Run, RunEnd

if TYPE_CHECKING:
    from open_token.server.services import Services

MOST_ATTEMPTS = 5
_DEFAULT_TITLE = "something went wrong inside the server"


class Failed(Exception):
    """A run that cannot be carried out, in words for the person."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Job:
    """One run in the hands of this worker."""

    def __init__(self, services: "Services", run: Run, is_closing: Callable[[], bool]) -> None:
        self._services = services
        self._run = run
        self._is_closing = is_closing
        self._work: Work | None = None
        self._is_first = run.attempts <= 1
        """Nobody has worked on it yet: there is nothing to recover."""
        self._fence = Fence(run_id=run.id, token=run.fencing_token)

    async def close(self) -> None:
        """Let go of the model's connections."""
        close = getattr(self._work.model, "close", None) if self._work is not None else None
        if close is not None:
            await close()

    async def begin_again(self) -> None:
        """Forget what could not be written: the next `carry_out` goes on from the log."""
        await self.close()
        self._work, self._is_first = None, False

    async def carry_out(self) -> None:
        """Work until the run is over, is put down for the next start, or belongs to another.

        A fault of the store that may pass is raised: nothing can be written about it now.
        """
        try:
            if await self._is_wanted():
                await self._carried_out()
        except Put:
            await self.put_down()
        except Fenced:
            await self._let_go()
        except Missing:
            return  # the session was deleted meanwhile, and its runs with it
        except (ModelFault, Refused, Failed) as fault:
            kind = fault.kind if isinstance(fault, ModelFault) else fault.code
            await self._fail(str(fault), kind)
        except StoreError as fault:
            if fault.code in PASSING:
                raise
            await self._fail(fault.what, fault.code)
        except Exception as fault:
            await self._fail(f"{_DEFAULT_TITLE}: {type(fault).__name__}", "internal")

    async def interrupt(self) -> None:
        """The person said stop: what was said stays, and the run is over."""

        def interrupted(state: State) -> Iterator[Step]:
            yield from self._leftover()
            yield from exchanges.broken_off(state)

        with contextlib.suppress(Fenced, Missing):
            await self._end(interrupted, "interrupted")

    async def put_down(self) -> None:
        """Write what was said, and let another worker have the run at once."""
        with contextlib.suppress(Fenced, Missing):
            if self._work is not None and self._work.leftover:
                await self._work.write(self._leftover())
        now = await self._services.store.time(self._services.clock.now())
        await self._services.store.renew_lease(
            self._fence, iso(moment_of(now) - timedelta(seconds=1))
        )

    async def _is_wanted(self) -> bool:
        """Does the log still wait for this run? One that was stopped before it began is only
        written off."""
        state = await self._services.journal.state(self._run.owner, self._run.session_id)
        if state.run is None or state.run.run_id != self._run.id:
            await self._let_go()
            return False
        if self._run.attempts > MOST_ATTEMPTS:
            raise Failed(
                f"given up: the server stopped {MOST_ATTEMPTS} times while it worked on this",
                "attempts",
            )
        return True

    async def _carried_out(self) -> None:
        work = self._work = await self._prepared()
        if not self._is_first:
            await work.write(lambda state: recovered(work, state))
        if work.order.kind == "compact":
            await compaction.compact(work, Spot(), "manual")
            await self._end(
                lambda _: [("run.ended", {"run_id": self._run.id, "output": None})], "completed"
            )
            return
        outcome = await loop.go_on(work)
        output: Any = outcome.text if outcome.asks is None else None
        if (
            work.order.output_schema is not None
            and outcome.asks is None
            and outcome.finish_reason is None
        ):
            output = await self._fitting(work, outcome.text)
        await self._end(lambda state: self._ended(state, outcome, output), "completed")

    async def _prepared(self) -> Work:
        order = msgspec.json.decode(self._run.body, type=Order)
        services, run = self._services, self._run
        models = catalogue(services.config, services.env)
        model = await asyncio.to_thread(models.open, order.model or models.default)
        state = await services.journal.state(run.owner, run.session_id)
        tools = await tools_of(services, run.owner, state, is_headless=order.headless)
        kept = await services.store.setting(f"env/{run.session_id}")
        env = msgspec.json.decode(kept) if kept else {}
        work = Work(
            services, run, order, model, tools, {**env, **order.runtime_env}, self._is_closing
        )
        if state.session.memory_enabled and services.config.memory and order.kind == "chat":
            work.memories = list(await memories.recall(services, run.owner, _last_said(state)))
        return work

    async def _fitting(self, work: Work, text: str) -> Any:
        """The answer as JSON of the schema; a model that gets it wrong is told so once."""
        schema = work.order.output_schema or {}
        value, fault = await asyncio.to_thread(_read, text, schema)
        if fault:
            outcome = await loop.go_on(work, note=prompt.refitted(fault))
            value, fault = await asyncio.to_thread(_read, outcome.text, schema)
        if fault:
            raise Failed(
                f"the model did not answer as output_schema says: {fault}", "output_schema"
            )
        return value

    def _ended(self, state: State, outcome: loop.Outcome, output: Any) -> Iterator[Step]:
        if outcome.asks is not None:
            asks = outcome.asks
            yield from steps.ask(state, asks.turn_id, asks.tool_call_id, asks.questions)
            paused = [
                turn.facts.turn_id
                for turn in reversed(state.path)
                if turn.facts.status == "streaming"
            ]
            names = paused if asks.turn_id in paused else [asks.turn_id, *paused]
            for name in names:
                yield from steps.halted(name, "paused")
        work = self._work
        told: Json = {
            "run_id": self._run.id,
            "finish_reason": outcome.finish_reason,
            "output": output,
        }
        if work is not None:
            told["config_snapshot"] = {"model": work.model.name, "mode": work.order.mode}
            told["schema"] = work.order.output_schema
        yield "run.ended", {**told, "duration_ms": self._took()}

    async def _fail(self, message: str, code: str) -> None:
        def failed(state: State) -> Iterator[Step]:
            yield from self._leftover()
            ends = exchanges.broken_off(state, status="failed", reason=message)
            yield from ends[:-1]
            yield "error.raised", {"message": message, "code": code, "run_id": self._run.id}
            kind, data = ends[-1]
            yield kind, {**data, "duration_ms": self._took()}

        with contextlib.suppress(Fenced, Missing):
            await self._end(failed, "failed", message)

    async def _end(
        self, make: Callable[[State], Iterable[Step]], status: Any, error: str | None = None
    ) -> None:
        def ours(state: State) -> Iterable[Step]:
            if state.run is None or state.run.run_id != self._run.id:
                raise Fenced
            return make(state)

        how = RunEnd(status=status, at=self._services.clock.now(), error=error)
        owner, session_id = self._run.owner, self._run.session_id
        await exchanges.end_run(self._services, owner, session_id, ours, fence=self._fence, how=how)

    async def _let_go(self) -> None:
        """Write off a run that the log no longer waits for; another worker's is left alone."""
        how = RunEnd(status="interrupted", at=self._services.clock.now())
        with contextlib.suppress(Fenced, Missing):
            await self._services.journal.write(
                self._run.owner, self._run.session_id, lambda _: [], fence=self._fence, run_end=how
            )

    def _leftover(self) -> list[Step]:
        """What was streamed and not written, once."""
        return list(self._work.leftover) if self._work is not None else []

    def _took(self) -> int:
        return calls.milliseconds(self._run.created_at, self._services.clock.now())


async def tools_of(
    services: "Services",
    owner: str,
    state: State,
    *,
    is_headless: bool = False,
    starts: bool = True,
) -> dict[str, Tool]:
    """The tools of a run; a session may be made without some, or without any. See `tools_for` for
    `starts`."""
    barred = (
        state.session.more.get("disable_tools") if isinstance(state.session.more, dict) else None
    )
    if barred is True:
        return {}
    tools: dict[str, Tool] = {
        **await tools_for(services, owner, state.session_id, starts=starts),
        **calls.own_tools(),
    }
    tools[Agent.spec.name] = Agent()
    if not is_headless:
        tools[AskUserQuestion.spec.name] = AskUserQuestion()
    names = barred if isinstance(barred, list) else [barred]
    return {name: tool for name, tool in tools.items() if name not in names}


def _last_said(state: State) -> str:
    """The person's last words, for which memories are looked up."""
    told = history.messages(state)
    said = next((message for message in reversed(told) if message.role == "user"), None)
    return "\n".join(getattr(part, "text", "") for part in said.parts)[:4000] if said else ""


def _read(text: str, schema: Json) -> tuple[Any, str | None]:
    try:
        value = outputs.output_of(text)
    except ValueError as fault:
        return None, str(fault)
    return value, outputs.output_fault(value, schema)
