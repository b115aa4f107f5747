"""The commands of `chat:*`: send a message or an answer, stop, compact."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec

from open_token.errors import StoreError
from open_token.jsontools.objects import omit_keys
from open_token.model.agent_settings import parse_settings
from open_token.model.log_events import Json, LogError, NewEvent
from open_token.model.session_types import TurnProjection, encode, to_builtins
from open_token.server.agent.models import build_registry
from open_token.server.agent.run_context import RunRequest
from open_token.server.bus.interface import LogAppended
from open_token.server.core.attachments import store_attachments
from open_token.server.core.chat_request import ChatRequest, parse_chat_request
from open_token.server.core.exchanges import (
    NewExchange,
    build_interruption,
    build_order,
    build_status_change,
    end_run,
    queued_env_key,
)
from open_token.server.core.journal import AppendResult, StepBuilder
from open_token.server.core.message_parts import list_blobs
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, conflict, not_found, to_api_error
from open_token.server.store.interface import TRANSIENT_CODES
from open_token.server.store.rows import Caller, Fence, NewRun, RunEnd
from open_token.session import SessionState

COMPACTION = (
    "compaction_id",
    "summary_preview",
    "summary_full",
    "archived_count",
    "tokens_before",
    "tokens_after",
    "saved_ratio",
    "trigger",
)
"""The additional fields of a compaction turn."""
_MAX_QUEUE = 100
_QUESTION_TIMEOUT = 20.0
"""Seconds within which a run that has shown a question must end."""
_COMPACTION_MARGIN = 30.0
"""Seconds that a compaction may take in addition to the timeout of the model."""
_STATE_POLL = 10.0
"""Seconds between looks at a state that is waited for: a bus does not report deleted sessions."""
_MAX_SESSION_ID = 200

MessageFilter = Callable[[Caller, Json, SessionState], Awaitable[Json | None]]
"""Handles messages that do not go to an agent, as in a replay; returns None to let one pass."""


class Chat:
    """The chat commands, independent of the transport."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.message_filter: MessageFilter | None = None

    async def send(self, caller: Caller, payload: Any) -> Json:
        """Accept a message or an answer: start a run, or queue the message behind the current one."""
        request = parse_chat_request(payload)
        owner = _require_writer(caller)
        state = await self._state(owner, request.session_id)
        if self.message_filter is not None:
            reply = await self.message_filter(caller, payload, state)
            if reply is not None:
                return reply
        models = build_registry(self._services.config, self._services.env)
        order = build_order(request, state, default=models.default)
        models.check(order.model)
        known = _find_duplicate(state, request)
        if known is not None:
            return known
        await self._services.storage.require_space(owner, len(encode(request.message)))
        request = await store_attachments(self._services, owner, request, order)
        payload = {**payload, "message": request.message}
        # Storing files takes time, in which a run may have ended or started.
        state = await self._state(owner, request.session_id)
        if state.run is not None:
            return await self._queue(owner, request, payload)
        return await self._begin(owner, request, order, payload)

    async def stop(self, caller: Caller, session_id: Any) -> Json:
        """Interrupt the current run; everything logged so far stays."""
        owner = _require_writer(caller)
        session_id = _check_session_id(session_id)
        state = await self._state(owner, session_id)
        if state.run is None:
            return {"status": "ok", "stopped": False}
        run_id = state.run.run_id
        stopped = await self._services.runner.stop(session_id, run_id)
        if not stopped:
            stopped = await self._stop_elsewhere(owner, session_id, run_id)
        return {"status": "ok", "stopped": stopped}

    async def compact(self, caller: Caller, session_id: Any) -> Json:
        """Summarize the conversation so far; returns when that is done."""
        owner = _require_writer(caller)
        session_id = _check_session_id(session_id)
        state = await self._state(owner, session_id)
        if not state.path:
            raise conflict("there is nothing to compact", "nothing_to_compact")
        models = build_registry(self._services.config, self._services.env)
        order = RunRequest(
            kind="compact",
            model=state.session.model or models.default,
            mode=state.mode,
            settings=parse_settings(state.agent.settings),
        )
        models.check(order.model)
        run_id = self._services.clock.name("run")
        run = NewRun(id=run_id, body=msgspec.json.encode(order), at=self._services.clock.now())
        info = {"model": order.model, "kind": "compact"}

        def start_run(state: SessionState) -> Iterator[NewEvent]:
            if state.run is not None:
                raise conflict("a run is in progress; stop it or wait", "session_busy")
            yield "run.started", {"run_id": run_id, "info": info}
            yield build_status_change(state)

        await self._write(owner, session_id, start_run, run=run)
        self._services.runner.wake()
        return await self._wait_for_compaction(owner, session_id, run_id)

    async def _wait_for_compaction(self, owner: str, session_id: str, run_id: str) -> Json:
        try:
            async with asyncio.timeout(self._services.config.model_timeout + _COMPACTION_MARGIN):
                await self.wait_for_run_end(owner, session_id, run_id)
        except TimeoutError:
            return {
                "status": "ok",
                "message": "compaction still in progress",
                "code": "under_way",
            }
        state = await self._state(owner, session_id)
        turns = (turn.facts for turn in reversed(state.path))
        last = next((turn for turn in turns if turn.kind == "compaction"), None)
        if last is None or last.status != "completed":
            raise ApiError(502, _compaction_failure(last), "compaction_failed")
        entry = to_builtins(state.turn(last.turn_id))
        return {
            "status": "ok",
            "message": "conversation compacted",
            "code": "compacted",
            **{name: entry[name] for name in ("id", "turn_id", *COMPACTION)},
            "entry": entry,
        }

    async def wait_for_run_end(self, owner: str, session_id: str, run_id: str) -> None:
        """Wait until a run has ended."""
        await self.wait_until(
            owner,
            session_id,
            lambda state: state.run is None or state.run.run_id != run_id,
        )

    async def wait_until(
        self, owner: str, session_id: str, is_so: Callable[[SessionState], bool]
    ) -> SessionState:
        """Wait until the state of a session fulfils a condition, and return the state."""
        log_grown = asyncio.Event()

        def on_growth(_: LogAppended) -> None:
            log_grown.set()

        unsubscribe = self._services.bus.listen(session_id, on_growth)
        try:
            while True:
                log_grown.clear()
                state = await self._state(owner, session_id)
                if is_so(state):
                    return state
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STATE_POLL):
                        await log_grown.wait()
        finally:
            unsubscribe()

    async def _begin(
        self, owner: str, request: ChatRequest, order: RunRequest, payload: Json
    ) -> Json:
        exchange = NewExchange(self._services, request, order)

        def start_exchange(state: SessionState) -> Iterator[NewEvent]:
            _raise_if_duplicate(state, request)
            if state.run is not None:
                raise _RunInProgress
            yield from exchange.steps(state)

        try:
            written = await self._write(
                owner,
                request.session_id,
                start_exchange,
                run=exchange.run,
                **_build_transaction(request),
            )
        except _Duplicate as duplicate:
            return duplicate.reply
        except _RunInProgress:
            return await self._queue(owner, request, payload)
        # The store detects duplicates of other nodes that the state did not contain yet.
        if written.repeated:
            return await self._reply_to_duplicate(owner, request, written)
        self._services.runner.wake()
        return _build_ack(request.session_id, exchange.turn_id, exchange.run_id)

    async def _queue(self, owner: str, request: ChatRequest, payload: Json) -> Json:
        if request.whatif is not None:
            raise conflict("a run is in progress; stop it before going back", "session_busy")
        if request.askuser_answer is not None or request.tool_results:
            return await self._answer(owner, request, payload)
        message_id = self._services.clock.name("msg")
        message = omit_keys(payload, "runtime_env")

        # Called with the latest state for every attempt to write: the run may end, or another node
        # may accept the same message, between the first look and the write.
        def queue_message(state: SessionState) -> list[NewEvent]:
            _raise_if_duplicate(state, request)
            if state.run is None:
                raise _NoRun
            if len(state.queue) >= _MAX_QUEUE:
                raise conflict(f"message queue full: {_MAX_QUEUE} messages", "queue_full")
            return [("message.queued", {"message_id": message_id, "message": message})]

        try:
            async with self._stored_environment(request, message_id):
                written = await self._write(
                    owner, request.session_id, queue_message, **_build_transaction(request)
                )
                if written.repeated:
                    raise _Duplicate(await self._reply_to_duplicate(owner, request, written))
        except _Duplicate as duplicate:
            return duplicate.reply
        except _NoRun:
            return await self._begin_now(owner, request, payload)
        return _build_ack(request.session_id, queued=True)

    async def _answer(self, owner: str, request: ChatRequest, payload: Json) -> Json:
        """Accept an answer to a question that the current run has shown and is about to end with."""
        state = await self._state(owner, request.session_id)
        if state.run is not None:
            if not _is_asking(state):
                raise conflict("no question is open while the agent works", "no_question")
            try:
                async with asyncio.timeout(_QUESTION_TIMEOUT):
                    await self.wait_for_run_end(owner, request.session_id, state.run.run_id)
            except TimeoutError:
                raise conflict(
                    "the question is not open yet; retry later", "session_busy"
                ) from None
        return await self._begin_now(owner, request, payload)

    @contextlib.asynccontextmanager
    async def _stored_environment(
        self, request: ChatRequest, message_id: str
    ) -> AsyncIterator[None]:
        """Store the environment of a queued message outside the log.

        It is removed when the message is not queued after all. After a server error it stays,
        because the write may have succeeded."""
        if not request.runtime_env:
            yield
            return
        store = self._services.store
        key = queued_env_key(request.session_id, message_id)
        await store.set_setting(key, msgspec.json.encode(request.runtime_env).decode())
        try:
            yield
        except (_Duplicate, _NoRun, ApiError) as problem:
            may_be_queued = isinstance(problem, ApiError) and problem.status >= 500
            if not may_be_queued:
                await store.set_setting(key, None)
            raise

    async def _begin_now(self, owner: str, request: ChatRequest, payload: Json) -> Json:
        """Start the exchange at once: the run that the message was to wait for has ended."""
        state = await self._state(owner, request.session_id)
        registry = build_registry(self._services.config, self._services.env)
        order = build_order(request, state, default=registry.default)
        return await self._begin(owner, request, order, payload)

    async def _reply_to_duplicate(
        self, owner: str, request: ChatRequest, written: AppendResult
    ) -> Json:
        state = await self._state(owner, request.session_id)
        known = _find_duplicate(state, request)
        return known or _build_ack(request.session_id, None, written.run_id)

    async def _stop_elsewhere(self, owner: str, session_id: str, run_id: str) -> bool:
        """Stop a run that this node does not work on: it waits, or its worker is another node."""
        runs = await self._services.store.runs(owner, session_id)
        row = next((run for run in runs if run.id == run_id and run.status == "running"), None)
        fence = None
        how = None
        if row is not None:
            fence = Fence(run_id=run_id, token=row.fencing_token)
            how = RunEnd(status="interrupted", at=self._services.clock.now())

        def interrupt(state: SessionState) -> Iterable[NewEvent]:
            if state.run is None or state.run.run_id != run_id:
                raise _NoRun
            return build_interruption(state)

        try:
            await end_run(self._services, owner, session_id, interrupt, fence=fence, how=how)
        except _NoRun:
            return False
        except StoreError as problem:
            if problem.code in TRANSIENT_CODES:
                raise to_api_error(problem) from None
            # The fence failed: another worker has taken over or ended the run.
            return False
        self._services.runner.wake()
        return True

    async def _state(self, owner: str, session_id: str) -> SessionState:
        try:
            return await self._services.journal.state(owner, session_id)
        except StoreError as problem:
            raise to_api_error(problem) from None

    async def _write(
        self, owner: str, session_id: str, make: StepBuilder, **transaction: Any
    ) -> AppendResult:
        try:
            return await self._services.journal.write(owner, session_id, make, **transaction)
        except LogError as fault:
            raise ApiError(409, str(fault), "conflict") from None
        except StoreError as problem:
            raise to_api_error(problem) from None


class _Duplicate(Exception):
    """The message was received before."""

    def __init__(self, reply: Json) -> None:
        super().__init__()
        self.reply = reply


class _RunInProgress(Exception):
    """The session has a run."""


class _NoRun(Exception):
    """The session has no run, or another one."""


def _compaction_failure(turn: TurnProjection | None) -> str:
    if turn is not None and isinstance(turn.failure_reason, str) and turn.failure_reason:
        return turn.failure_reason
    return "compaction failed"


def _is_asking(state: SessionState) -> bool:
    """Return whether an unfinished turn of the current branch shows a question."""
    for turn in reversed(state.path):
        if turn.facts.status != "streaming":
            continue
        if any(calling.call.status == "awaiting_answer" for calling in turn.calls.values()):
            return True
    return False


def _require_writer(caller: Caller) -> str:
    if caller.key.scope != "full":
        raise ApiError(403, "this key is read-only", "read_only")
    return caller.user.id


def _check_session_id(session_id: Any) -> str:
    if not isinstance(session_id, str) or not session_id:
        raise bad_request("session_id is missing")
    if len(session_id) > _MAX_SESSION_ID:
        raise not_found()
    return session_id


def _build_transaction(request: ChatRequest) -> Json:
    """Return what is written together with a message: its id, and the hashes of its files."""
    transaction: Json = {"blobs": list_blobs(request.message)}
    if request.client_message_id:
        transaction["client_message_id"] = request.client_message_id
    return transaction


def _raise_if_duplicate(state: SessionState, request: ChatRequest) -> None:
    known = _find_duplicate(state, request)
    if known is not None:
        raise _Duplicate(known)


def _find_duplicate(state: SessionState, request: ChatRequest) -> Json | None:
    """Return the reply to a message with the same client id, if there was one."""
    message_id = request.client_message_id
    if message_id is None:
        return None
    if message_id in state.sent:
        run_id = state.run.run_id if state.run else None
        return _build_ack(request.session_id, state.sent[message_id], run_id)
    queued = state.queue.values()
    if any(message.get("client_message_id") == message_id for message in queued):
        return _build_ack(request.session_id, queued=True)
    return None


def _build_ack(
    session_id: str, turn_id: str | None = None, run_id: str | None = None, *, queued: bool = False
) -> Json:
    return {
        "status": "ok",
        "session_id": session_id,
        "turn_id": turn_id,
        "chat_run_id": run_id,
        "queued": queued,
    }
