"""Execute a run from its claim to its end.

The end of a run is written in one transaction with the start of the next queued message.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from open_token.errors import StoreError
from open_token.jsontools.objects import omit_keys
from open_token.model.agent_settings import AgentSettings
from open_token.model.log_events import Json, NewEvent
from open_token.server.agent import (
    compaction,
    endings,
    history,
    loop,
    output_schema,
    prompt,
    tool_calls,
)
from open_token.server.agent.model_interface import ModelError, Text
from open_token.server.agent.models import build_registry
from open_token.server.agent.run_context import LoopRef, RunContext, RunRequest, RunSuspended
from open_token.server.agent.tool_calls import INTERRUPTED
from open_token.server.agent.tools.ask_user_question import AskUserQuestion
from open_token.server.agent.tools.client_side import ClientSideTool
from open_token.server.agent.tools.interface import Tool
from open_token.server.agent.tools.registry import list_session_tools
from open_token.server.agent.tools.subagent import Agent
from open_token.server.clock import format_timestamp, parse_timestamp
from open_token.server.core import exchanges, memories
from open_token.server.core.skills import find_skills, split_front_matter
from open_token.server.errors import ApiError
from open_token.server.store.interface import TRANSIENT_CODES, FencedError, NotFoundError
from open_token.server.store.rows import Fence, Run, RunEnd
from open_token.session import SessionState, Turn, actions

if TYPE_CHECKING:
    from open_token.server.core.services import Services

MAX_ATTEMPTS = 5
_MAX_QUERY_LENGTH = 4000
"""Of the message by which memories are searched."""


class RunFailed(Exception):
    """A run that cannot be executed, described for the user."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class AgentRun:
    """A run that this worker has claimed."""

    def __init__(self, services: "Services", run: Run, is_closing: Callable[[], bool]) -> None:
        self._services = services
        self._run = run
        self._is_closing = is_closing
        self._context: RunContext | None = None
        self._is_first_attempt = run.attempts <= 1
        """There is nothing to recover."""
        self._fence = Fence(run_id=run.id, token=run.fencing_token)

    async def close(self) -> None:
        """Close the connections of the model."""
        if self._context is None:
            return
        close = getattr(self._context.model, "close", None)
        if close is not None:
            await close()

    async def reset(self) -> None:
        """Forget what could not be written: the next `execute` continues from the log."""
        await self.close()
        self._context = None
        self._is_first_attempt = False

    async def execute(self) -> None:
        """Work until the run has ended, is suspended, or was taken over by another worker.

        Transient errors of the store are raised, because they cannot be recorded in the log.
        """
        try:
            if await self._is_current():
                await self._execute()
        except RunSuspended:
            await self.suspend()
        except FencedError:
            await self._abandon()
        except NotFoundError:
            return  # the session was deleted meanwhile, and its runs with it
        except ModelError as error:
            await self._fail(str(error), error.kind)
        except (ApiError, RunFailed) as error:
            await self._fail(str(error), error.code)
        except StoreError as error:
            if error.code in TRANSIENT_CODES:
                raise
            await self._fail(error.what, error.code)
        except Exception as error:
            await self._fail(f"internal server error: {type(error).__name__}", "internal")

    async def interrupt(self) -> None:
        """Stop the run on request of the user; what was streamed so far stays."""

        def build_events(state: SessionState) -> Iterator[NewEvent]:
            yield from self._get_leftover()
            yield from exchanges.build_interruption(state)

        with contextlib.suppress(FencedError, NotFoundError):
            await self._end(build_events, "interrupted")

    async def suspend(self) -> None:
        """Write what was streamed, and release the lease so that another worker can continue."""
        with contextlib.suppress(FencedError, NotFoundError):
            if self._context is not None and self._context.leftover:
                await self._context.write(self._get_leftover())
        now = await self._services.store.time(self._services.clock.now())
        expired = format_timestamp(parse_timestamp(now) - timedelta(seconds=1))
        await self._services.store.renew_lease(self._fence, expired)

    async def _is_current(self) -> bool:
        """Return whether the log waits for this run; one that was stopped early is abandoned."""
        state = await self._services.journal.state(self._run.owner, self._run.session_id)
        if state.run is None or state.run.run_id != self._run.id:
            await self._abandon()
            return False
        if self._run.attempts > MAX_ATTEMPTS:
            raise RunFailed(
                f"gave up: the server stopped {MAX_ATTEMPTS} times during this run", "attempts"
            )
        return True

    async def _execute(self) -> None:
        context = await self._prepare()
        self._context = context
        if not self._is_first_attempt:
            await context.write(lambda state: recover_run(context, state))
        if context.request.kind == "compact":
            await compaction.compact(context, LoopRef(), "manual")
            ended: NewEvent = ("run.ended", {"run_id": self._run.id, "output": None})
            await self._end(lambda _: [ended], "completed")
            return
        outcome = await loop.run_loop(context)
        output: Any = None
        if not outcome.questions:
            output = outcome.text
            is_answer = outcome.finish_reason in (None, *endings.CUT_OFF)
            if context.request.output_schema is not None and is_answer:
                output, outcome = await self._parse_output(context, outcome)
        await self._end(
            lambda state: self._build_end(state, outcome, output),
            "completed",
            is_waiting=bool(outcome.questions),
        )

    async def _prepare(self) -> RunContext:
        services = self._services
        run = self._run
        request = msgspec.json.decode(run.body, type=RunRequest)
        models = build_registry(services.config, services.env)
        model = await asyncio.to_thread(models.open, request.model or models.default)
        ask_window = getattr(model, "ask_window", None)
        if ask_window is not None and request.settings.context_window is None:
            await ask_window()
        state = await services.journal.state(run.owner, run.session_id)
        tools = await list_run_tools(
            services, run.owner, state, request.settings, is_headless=request.headless
        )
        # The environment may hold secrets, and is therefore a setting, not an entry of the log.
        # What came with the message has precedence.
        stored_env = await services.store.setting(f"env/{run.session_id}")
        env = msgspec.json.decode(stored_env) if stored_env else {}
        env |= request.runtime_env
        context = RunContext(services, run, request, model, tools, env, self._is_closing)
        context.skill_instructions = await self._load_primary_skill(state)
        if state.session.memory_enabled and services.config.memory and request.kind == "chat":
            query = _get_last_message(state)
            context.memories = list(await memories.recall(services, run.owner, query))
        return context

    async def _load_primary_skill(self, state: SessionState) -> str:
        """Return the instructions of the skill that the session was created with."""
        more = state.session.more
        name = more.get("primary_skill_id") if isinstance(more, dict) else None
        if not isinstance(name, str):
            return ""
        workspace = self._services.workspaces.get(state.session_id)
        skills = await asyncio.to_thread(find_skills, self._services.config, workspace)
        if name not in skills:
            raise RunFailed("there is no skill with the name in primary_skill_id", "no_skill")
        _, body = split_front_matter(await asyncio.to_thread(skills[name].read))
        return body

    async def _parse_output(
        self, context: RunContext, outcome: loop.LoopOutcome
    ) -> tuple[Any, loop.LoopOutcome]:
        """Return the answer as JSON of the schema; the model gets one chance to correct it."""
        schema = context.request.output_schema or {}
        value, error = await asyncio.to_thread(_check_output, outcome.text, schema)
        if error:
            outcome = await loop.run_loop(context, note=prompt.build_schema_retry(error))
            value, error = await asyncio.to_thread(_check_output, outcome.text, schema)
        if error:
            notice = endings.describe(outcome.finish_reason)
            message = f"the answer does not match output_schema: {error}"
            raise RunFailed(f"{message}. {notice}" if notice else message, "output_schema")
        return value, outcome

    def _build_end(
        self, state: SessionState, outcome: loop.LoopOutcome, output: Any
    ) -> Iterator[NewEvent]:
        if outcome.questions:
            yield from _pause_turns(state, outcome.questions)
        if outcome.finish_reason in endings.LIMITS:
            turn_id = self._services.clock.name("turn")
            yield from endings.build_limit_turn(turn_id, outcome.finish_reason)
        ended: Json = {
            "run_id": self._run.id,
            "finish_reason": outcome.finish_reason,
            "output": output,
        }
        context = self._context
        if context is not None:
            mode = context.request.mode
            ended["config_snapshot"] = {"model": context.model.name, "mode": mode}
            ended["schema"] = context.request.output_schema
        ended["duration_ms"] = self._get_duration()
        yield "run.ended", ended

    async def _fail(self, message: str, code: str) -> None:
        def build_events(state: SessionState) -> Iterator[NewEvent]:
            yield from self._get_leftover()
            events = exchanges.build_interruption(state, status="failed", reason=message)
            yield from events[:-1]
            yield "error.raised", {"message": message, "code": code, "run_id": self._run.id}
            kind, data = events[-1]
            yield kind, {**data, "duration_ms": self._get_duration()}

        with contextlib.suppress(FencedError, NotFoundError):
            await self._end(build_events, "failed", message)

    async def _end(
        self,
        build_events: Callable[[SessionState], Iterable[NewEvent]],
        status: Any,
        error: str | None = None,
        is_waiting: bool = False,
    ) -> None:
        def build_if_current(state: SessionState) -> Iterable[NewEvent]:
            if state.run is None or state.run.run_id != self._run.id:
                raise FencedError
            return build_events(state)

        now = self._services.clock.now()
        end = RunEnd(status=status, at=now, error=error, is_waiting=is_waiting)
        await exchanges.end_run(
            self._services,
            self._run.owner,
            self._run.session_id,
            build_if_current,
            fence=self._fence,
            how=end,
        )

    async def _abandon(self) -> None:
        """End a run that the log no longer waits for, unless another worker has it."""
        end = RunEnd(status="interrupted", at=self._services.clock.now())
        with contextlib.suppress(FencedError, NotFoundError):
            await self._services.journal.write(
                self._run.owner, self._run.session_id, lambda _: [], fence=self._fence, run_end=end
            )

    def _get_leftover(self) -> list[NewEvent]:
        """Return what was streamed and not written."""
        if self._context is not None:
            return list(self._context.leftover)
        return []

    def _get_duration(self) -> int:
        return tool_calls.elapsed_ms(self._run.created_at, self._services.clock.now())


def _pause_turns(
    state: SessionState, questions: Sequence[loop.PendingQuestion]
) -> Iterator[NewEvent]:
    """Ask what is not asked yet, and pause all turns that wait for the answers."""
    for question in questions:
        if question.tool_call_id not in state.questions:
            yield from actions.ask_question(
                state, question.turn_id, question.tool_call_id, question.questions, question.kind
            )
    turn_ids = []
    for turn in reversed(state.path):
        if turn.facts.status == "streaming":
            turn_ids.append(turn.facts.turn_id)
    if questions[0].turn_id not in turn_ids:
        turn_ids.insert(0, questions[0].turn_id)
    for turn_id in turn_ids:
        yield from actions.stop_turn(turn_id, "paused")


async def list_run_tools(
    services: "Services",
    owner: str,
    state: SessionState,
    settings: AgentSettings,
    *,
    is_headless: bool = False,
    starts: bool = True,
) -> dict[str, Tool]:
    """Return the tools of a run: those that the settings offer, and those of the client.

    A session may be created without some of them, or all. See `list_session_tools` for `starts`.
    """
    more = state.session.more
    disabled = more.get("disable_tools") if isinstance(more, dict) else None
    if disabled is True:
        return {}
    tools = await list_session_tools(services, owner, state.session_id, starts=starts)
    tools = {**tools, **tool_calls.get_builtin_tools()}
    tools[Agent.spec.name] = Agent()
    if not is_headless:
        tools[AskUserQuestion.spec.name] = AskUserQuestion()
    names = disabled if isinstance(disabled, list) else [disabled]
    offered = {
        name: tool for name, tool in omit_keys(tools, *names).items() if settings.offers(name)
    }
    for client_tool in settings.client_tools or ():
        offered[client_tool.name] = ClientSideTool(client_tool)
    return offered


def recover_run(context: RunContext, state: SessionState) -> Iterator[NewEvent]:
    """Return the events that bring an interrupted run to a state from which the loop continues.

    A turn without usage was interrupted during its model call: it ends with what was streamed. In
    other turns the first call without a result may have been started: unless its tool is
    idempotent, it gets an error as its result.
    """
    for turn in reversed(state.path):
        if turn.facts.status == "streaming" and turn.facts.usage is None:
            yield from _stop_interrupted_turn(turn)
        elif turn.facts.status in ("streaming", "paused"):
            yield from _fail_interrupted_call(context, turn)


def _stop_interrupted_turn(turn: Turn) -> Iterator[NewEvent]:
    turn_id = turn.facts.turn_id
    for call_id, buffer in turn.calls.items():
        if buffer.call.status == "pending":
            yield (
                "tool.status",
                {
                    "turn_id": turn_id,
                    "tool_call_id": call_id,
                    "status": "cancelled",
                },
            )
    yield from actions.stop_turn(turn_id, "interrupted", "interrupted by a restart of the server")


def _fail_interrupted_call(context: RunContext, turn: Turn) -> Iterator[NewEvent]:
    calls = (buffer.call for buffer in turn.calls.values())
    call = next((call for call in calls if call.status == "pending"), None)
    if call is None:
        return
    tool = context.tools.get(call.tool_name)
    if tool is None or tool.is_idempotent:
        return
    yield (
        "tool.result",
        {
            "turn_id": turn.facts.turn_id,
            "tool_call_id": call.id,
            "result": {"error": INTERRUPTED},
            "status": "error",
        },
    )


def _get_last_message(state: SessionState) -> str:
    """Return the last message of the user, by which memories are searched."""
    for message in reversed(history.build_messages(state)):
        if message.role == "user":
            text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
            return text[:_MAX_QUERY_LENGTH]
    return ""


def _check_output(text: str, schema: Json) -> tuple[Any, str | None]:
    """Return the parsed answer, or the error of an answer that does not match the schema."""
    try:
        value = output_schema.parse_output(text)
    except ValueError as error:
        return None, str(error)
    return value, output_schema.find_output_error(value, schema)
