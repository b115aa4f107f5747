"""What a person can tell an agent: a message, an answer, stop, compact."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec

from open_token.errors import StoreError
from open_token.model.log_events import Json, LogError, NewEvent
from open_token.model.session_types import to_builtins
from open_token.server.agent.models import build_registry
from open_token.server.agent.run_context import RunRequest
from open_token.server.bus.interface import LogAppended
from open_token.server.exchanges import Beginning, broken_off, end_run, order_of, queued_env
from open_token.server.journal import Written
from open_token.server.refusals import Refused, bad, busy, missing, refusal_of
from open_token.server.sent import Sent, sent_of
from open_token.server.services import Services
from open_token.server.store.interface import TRANSIENT_CODES
from open_token.server.store.rows import Caller, Fence, NewRun, RunEnd
from open_token.session import SessionState

COMPACTION = (
    *("compaction_id", "summary_preview", "summary_full", "archived_count"),
    *("tokens_before", "tokens_after", "saved_ratio", "trigger"),
)
"""What a turn has more when it is a compaction."""
_LONGEST_QUEUE = 100
_SOON = 20.0
"""Seconds in which a run that shows a question comes to its end."""
_MORE_TIME = 30.0
"""Seconds that a compaction may take beside the model's silence."""

Divert = Callable[[Caller, Json, SessionState], Awaitable[Json | None]]
"""Takes a message of a session that does not go to an agent, as in a replay; None lets it pass."""


class Chat:
    """The commands of `chat:*`, for sockets and tests alike."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.divert: Divert | None = None

    async def send(self, caller: Caller, payload: Any) -> Json:
        """Take a message or an answer: the agent begins to work on it, or it waits its turn."""
        sent = sent_of(payload)
        owner = _writer(caller)
        state = await self._state(owner, sent.session_id)
        if (
            self.divert is not None
            and (taken := await self.divert(caller, payload, state)) is not None
        ):
            return taken
        models = build_registry(self._services.config, self._services.env)
        order = order_of(sent, state, default=models.default)
        models.check(order.model)
        if (known := _said_before(state, sent)) is not None:
            return known
        if state.run is not None:
            return await self._queue(owner, sent, payload)
        return await self._begin(owner, sent, order, payload)

    async def stop(self, caller: Caller, session_id: Any) -> Json:
        """Break off whatever the agent is doing; what was said stays."""
        owner = _writer(caller)
        name = _name(session_id)
        state = await self._state(owner, name)
        if state.run is None:
            return {"status": "ok", "stopped": False}
        run_id = state.run.run_id
        stopped = await self._services.runner.stop(name, run_id) or await self._stop_elsewhere(
            owner, name, run_id
        )
        return {"status": "ok", "stopped": stopped}

    async def compact(self, caller: Caller, session_id: Any) -> Json:
        """Put the talk so far together; answers when it is done."""
        owner = _writer(caller)
        name = _name(session_id)
        state = await self._state(owner, name)
        if not state.path:
            raise busy("there is nothing to compact", "nothing_to_compact")
        models = build_registry(self._services.config, self._services.env)
        order = RunRequest(
            kind="compact", model=state.session.model or models.default, mode=state.mode
        )
        models.check(order.model)
        run_id = self._services.clock.name("run")
        run = NewRun(id=run_id, body=msgspec.json.encode(order), at=self._services.clock.now())

        def begun(state: SessionState) -> list[NewEvent]:
            if state.run is not None:
                raise busy("the agent is at work; stop it or wait", "session_busy")
            return [
                (
                    "run.started",
                    {"run_id": run_id, "info": {"model": order.model, "kind": "compact"}},
                )
            ]

        await self._write(owner, name, begun, run=run)
        self._services.runner.wake()
        return await self._compacted(owner, name, run_id)

    async def _compacted(self, owner: str, session_id: str, run_id: str) -> Json:
        try:
            async with asyncio.timeout(self._services.config.model_timeout + _MORE_TIME):
                await self.ended(owner, session_id, run_id)
        except TimeoutError:
            return {
                "status": "ok",
                "message": "the compaction is still under way",
                "code": "under_way",
            }
        state = await self._state(owner, session_id)
        turns = (turn.facts for turn in reversed(state.path))
        last = next((turn for turn in turns if turn.kind == "compaction"), None)
        if last is None or last.status != "completed":
            reason = (
                last.failure_reason
                if last is not None and isinstance(last.failure_reason, str)
                else None
            )
            raise Refused(502, reason or "the compaction failed", "compaction_failed")
        entry = to_builtins(state.turn(last.turn_id))
        told = {name: entry[name] for name in ("id", "turn_id", *COMPACTION)}
        return {
            "status": "ok",
            "message": "the conversation was compacted",
            "code": "compacted",
            **told,
            "entry": entry,
        }

    async def ended(self, owner: str, session_id: str, run_id: str) -> None:
        """Wait until a run is over."""
        grown = asyncio.Event()

        def hear(_: LogAppended) -> None:
            grown.set()

        unlisten = self._services.bus.listen(session_id, hear)
        try:
            while True:
                grown.clear()
                state = await self._state(owner, session_id)
                if state.run is None or state.run.run_id != run_id:
                    return
                await grown.wait()
        finally:
            unlisten()

    async def _begin(self, owner: str, sent: Sent, order: RunRequest, payload: Json) -> Json:
        begins = Beginning(self._services, sent, order)

        def begun(state: SessionState) -> Iterator[NewEvent]:
            if (known := _said_before(state, sent)) is not None:
                raise _Known(known)
            if state.run is not None:
                raise _Busy
            yield from begins.steps(state)

        try:
            written = await self._write(
                owner, sent.session_id, begun, run=begins.run, **_once(sent)
            )
        except _Known as known:
            return known.answer
        except _Busy:
            return await self._queue(owner, sent, payload)
        if written.repeated:
            return await self._repeated(owner, sent, written)
        self._services.runner.wake()
        return _ack(sent.session_id, begins.turn_id, begins.run_id)

    async def _queue(self, owner: str, sent: Sent, payload: Json) -> Json:
        if sent.whatif is not None:
            raise busy("the agent is at work; stop it before you go back", "session_busy")
        if sent.askuser_answer is not None:
            return await self._answer(owner, sent, payload)
        message_id = self._services.clock.name("msg")
        message = {name: value for name, value in payload.items() if name != "runtime_env"}

        def queued(state: SessionState) -> list[NewEvent]:
            if (known := _said_before(state, sent)) is not None:
                raise _Known(known)
            if state.run is None:
                raise _Free
            if len(state.queue) >= _LONGEST_QUEUE:
                raise busy("too many messages wait already", "queue_full")
            return [("message.queued", {"message_id": message_id, "message": message})]

        try:
            async with self._keeping_env(sent, message_id):
                written = await self._write(owner, sent.session_id, queued, **_once(sent))
                if written.repeated:
                    raise _Known(await self._repeated(owner, sent, written))
        except _Known as known:
            return known.answer
        except _Free:
            return await self.send_again(owner, sent, payload)
        return _ack(sent.session_id, queued=True)

    async def _answer(self, owner: str, sent: Sent, payload: Json) -> Json:
        """Take an answer to a question that a run has shown and is about to end with."""
        state = await self._state(owner, sent.session_id)
        if state.run is not None:
            if not _is_asking(state):
                raise busy("no question waits for an answer while the agent works", "no_question")
            try:
                async with asyncio.timeout(_SOON):
                    await self.ended(owner, sent.session_id, state.run.run_id)
            except TimeoutError:
                raise busy(
                    "the question is not asked yet; answer again in a while", "session_busy"
                ) from None
        return await self.send_again(owner, sent, payload)

    @contextlib.asynccontextmanager
    async def _keeping_env(self, sent: Sent, message_id: str) -> AsyncIterator[None]:
        """Keep the environment of a message beside the log, unless it turns out that the message
        does not wait."""
        store, key = self._services.store, queued_env(sent.session_id, message_id)
        if sent.runtime_env:
            await store.set_setting(key, msgspec.json.encode(sent.runtime_env).decode())
        try:
            yield
        except (_Known, _Free, Refused) as why:
            may_wait = isinstance(why, Refused) and why.status >= 500
            if sent.runtime_env and not may_wait:
                await store.set_setting(key, None)
            raise

    async def send_again(self, owner: str, sent: Sent, payload: Json) -> Json:
        """The run that a message was to wait for ended meanwhile: it begins at once."""
        state = await self._state(owner, sent.session_id)
        default = build_registry(self._services.config, self._services.env).default
        return await self._begin(owner, sent, order_of(sent, state, default=default), payload)

    async def _repeated(self, owner: str, sent: Sent, written: Written) -> Json:
        state = await self._state(owner, sent.session_id)
        return _said_before(state, sent) or _ack(sent.session_id, None, written.run_id)

    async def _stop_elsewhere(self, owner: str, session_id: str, run_id: str) -> bool:
        """Stop a run that nobody here works on: it waits, or its worker is another node or has
        died."""
        runs = await self._services.store.runs(owner, session_id)
        row = next((run for run in runs if run.id == run_id and run.status == "running"), None)
        fence = Fence(run_id=run_id, token=row.fencing_token) if row else None
        how = RunEnd(status="interrupted", at=self._services.clock.now()) if row else None

        def interrupted(state: SessionState) -> Iterable[NewEvent]:
            if state.run is None or state.run.run_id != run_id:
                raise _Free
            return broken_off(state)

        try:
            await end_run(self._services, owner, session_id, interrupted, fence=fence, how=how)
        except _Free:
            return False
        except StoreError as problem:
            if problem.code in TRANSIENT_CODES:
                raise refusal_of(problem) from None
            return False
        self._services.runner.wake()
        return True

    async def _state(self, owner: str, session_id: str) -> SessionState:
        try:
            return await self._services.journal.state(owner, session_id)
        except StoreError as problem:
            raise refusal_of(problem) from None

    async def _write(
        self,
        owner: str,
        session_id: str,
        make: Callable[[SessionState], Iterable[NewEvent]],
        **more: Any,
    ) -> Written:
        try:
            return await self._services.journal.write(owner, session_id, make, **more)
        except LogError as fault:
            raise Refused(409, str(fault), "conflict") from None
        except StoreError as problem:
            raise refusal_of(problem) from None


class _Known(Exception):
    """The same message came before."""

    def __init__(self, answer: Json) -> None:
        super().__init__()
        self.answer = answer


class _Busy(Exception):
    """A run is under way."""


class _Free(Exception):
    """No run is under way."""


def _is_asking(state: SessionState) -> bool:
    """Whether a turn that is not over yet shows a question."""
    open_turns = (turn for turn in reversed(state.path) if turn.facts.status == "streaming")
    return any(
        calling.call.status == "awaiting_answer"
        for turn in open_turns
        for calling in turn.calls.values()
    )


def _writer(caller: Caller) -> str:
    if caller.key.scope != "full":
        raise Refused(403, "this key may only read", "read_only")
    return caller.user.id


def _name(session_id: Any) -> str:
    if not isinstance(session_id, str) or not session_id:
        raise bad("session_id is missing")
    if len(session_id) > 200:
        raise missing()
    return session_id


def _once(sent: Sent) -> Json:
    return {"client_message_id": sent.client_message_id} if sent.client_message_id else {}


def _said_before(state: SessionState, sent: Sent) -> Json | None:
    """The answer to a message that came before, by its client's own id."""
    own = sent.client_message_id
    if own is None:
        return None
    if own in state.sent:
        return _ack(sent.session_id, state.sent[own], state.run.run_id if state.run else None)
    waits = any(message.get("client_message_id") == own for message in state.queue.values())
    return _ack(sent.session_id, queued=True) if waits else None


def _ack(
    session_id: str, turn_id: str | None = None, run_id: str | None = None, *, queued: bool = False
) -> Json:
    return {
        "status": "ok",
        "session_id": session_id,
        "turn_id": turn_id,
        "chat_run_id": run_id,
        "queued": queued,
    }
