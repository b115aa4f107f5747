"""Replays: sessions that play a recorded session again at its pace; nothing is executed."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Literal

from open_token.errors import StoreError
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import to_builtins
from open_token.server.core.pending import PendingSessions
from open_token.server.core.replay_player import (
    PLAYING_STATUSES,
    Player,
    build_state_step,
    get_replay_state,
    is_replaying,
)
from open_token.server.core.replay_script import Outline, Script
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request, conflict
from open_token.server.store.interface import NotFoundError
from open_token.server.store.rows import Caller
from open_token.session import SessionState, actions

PENDING_KEY = "replays"
SPEEDS = (1, 2, 5)
KEEP_REPLAY = "keep_replay"
CONTINUE_REPLAY = "continue_replay"
_DECISIONS = (KEEP_REPLAY, CONTINUE_REPLAY)
_EARLIER_NAMES = {"keep": KEEP_REPLAY, "go_on": CONTINUE_REPLAY}
_SOURCE_SEQUENCE = "replay_source_sequence"
_log = logging.getLogger("open_token.server")

InputMatch = Literal["match", "mismatch"]


class Replays:
    """The replays of this node: started, controlled, and played by a task each."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pending = PendingSessions(services.store, PENDING_KEY)
        self._players: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """The players, including those that only clean up."""
        self._woken: dict[str, asyncio.Event] = {}
        self._scripts: dict[str, Script] = {}
        self._typed: dict[str, int] = {}
        """By session: the position of the input that the user has already typed."""
        self._status_before_mismatch: dict[str, str] = {}

    async def start(self) -> None:
        """Resume the replays of an earlier process, and intercept messages to replays."""
        self._services.chat.message_filter = self.handle_message
        for session_id, owner in (await self._pending.take_over()).items():
            self._play(owner, session_id)

    async def close(self) -> None:
        """Stop playing; the positions are in the logs."""
        for task in self._players.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def preview(self, owner: str, session_id: str) -> Json:
        """Return whether a session can be replayed, and if not, why."""
        state = await self._services.journal.state(owner, session_id)
        reason = _find_obstacle(state)
        return {
            "session_id": session_id,
            "intent": state.session.intent,
            "supported": reason is None,
            "reason": reason,
        }

    async def begin(self, owner: str, source: str, speed: int = 1) -> str:
        """Start a new session that replays a recorded one; returns its id."""
        _check_speed(speed)
        if len(self._players) >= self._services.config.limits.runs:
            raise ApiError(429, "too many replays in progress; retry later", "too_many_replays")
        state = await self._services.journal.state(owner, source)
        reason = _find_obstacle(state)
        if reason is not None:
            raise conflict(reason, "not_replayable")
        # The state is shared and may change during the next await.
        sequence = state.seq
        intent = state.session.intent
        model = state.session.model
        session_id = self._services.clock.name("sess")
        script = Script(self._services, owner, source, sequence, session_id)
        self._scripts[session_id] = script
        outline = await script.outline()
        session: Json = {
            "id": session_id,
            "intent": intent,
            "model": model,
            "replay_state": {
                "source_session_id": source,
                "speed": speed,
                "status": "playing",
                "position": 0,
                "total": outline.total,
            },
            _SOURCE_SEQUENCE: sequence,
        }
        await self._services.journal.create(owner, session)
        await self._pending.add(session_id, owner)
        self._play(owner, session_id)
        return session_id

    async def steer(self, owner: str, session_id: str, changes: Json) -> Json:
        """Change the speed or the status (`playing`, `paused`, `autonomous`; None: `playing`)."""

        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            replay_state = get_replay_state(state)
            if replay_state["status"] == "finished":
                raise conflict("the replay has finished", "replay_finished")
            if "status" in changes:
                if replay_state["status"] == "mismatch":
                    raise conflict(
                        f"resolve the mismatch first: chat:send with replay_decision {KEEP_REPLAY} "
                        f"or {CONTINUE_REPLAY}",
                        "mismatch",
                    )
                replay_state["status"] = _parse_status(changes["status"])
            if changes.get("speed") is not None:
                replay_state["speed"] = _check_speed(changes["speed"])
            yield build_state_step(replay_state)

        await self._services.journal.write(owner, session_id, build_steps)
        replay_state = get_replay_state(await self._services.journal.state(owner, session_id))
        if replay_state["status"] in PLAYING_STATUSES:
            await self._continue(owner, session_id)
        else:
            self._wake(session_id)
        return replay_state

    async def match_input(self, owner: str, session_id: str, text: str) -> InputMatch | None:
        """Compare what the user typed with the recording; None when there is no active replay."""
        state = await self._services.journal.state(owner, session_id)
        if not is_replaying(state):
            return None
        replay_state = get_replay_state(state)
        outline = await self._load_outline(owner, session_id, state)
        expected = outline.find_next_input(replay_state["position"])
        expected_text = None
        if expected is not None:
            position, expected_text = expected
            is_same = expected_text.split() == text.split()
            if is_same and replay_state["status"] != "mismatch":
                self._typed[session_id] = position
                if replay_state["status"] == "paused":
                    await self.steer(owner, session_id, {"status": "playing"})
                self._wake(session_id)
                return "match"
        await self._report_mismatch(owner, session_id, expected_text, text)
        return "mismatch"

    async def decide(self, owner: str, session_id: str, decision: Any) -> None:
        """Resolve a mismatch: keep the recording, or continue with what the user types."""
        decision = _parse_decision(decision)
        previous_status = self._status_before_mismatch.pop(session_id, "playing")
        keeps_recording = decision == KEEP_REPLAY

        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            replay_state = get_replay_state(state)
            if replay_state["status"] != "mismatch":
                raise conflict("the replay has no mismatch to resolve", "no_mismatch")
            if not keeps_recording:
                yield from actions.interrupt_run(state)
            status = previous_status if keeps_recording else "finished"
            yield build_state_step(replay_state | {"status": status})

        await self._services.journal.write(owner, session_id, build_steps)
        if keeps_recording:
            await self._continue(owner, session_id)

    async def handle_message(
        self, caller: Caller, payload: Json, state: SessionState
    ) -> Json | None:
        """Handle a message to an active replay; None when the agent is to receive it."""
        if not is_replaying(state):
            return None
        owner = caller.user.id
        session_id = state.session_id
        outcome = payload.get("replay_decision")
        if outcome is not None:
            outcome = _parse_decision(outcome)
            await self.decide(owner, session_id, outcome)
            if outcome == CONTINUE_REPLAY:
                return None
        else:
            outcome = await self.match_input(owner, session_id, _extract_text(payload, state))
            if outcome is None:
                return None
        return {
            "status": "ok",
            "session_id": session_id,
            "turn_id": None,
            "chat_run_id": None,
            "queued": False,
            "replay": outcome,
        }

    async def _report_mismatch(
        self, owner: str, session_id: str, expected: str | None, actual: str
    ) -> None:
        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            replay_state = get_replay_state(state)
            if replay_state["status"] != "mismatch":
                is_autonomous = replay_state["status"] == "autonomous"
                previous_status = "autonomous" if is_autonomous else "playing"
                self._status_before_mismatch[session_id] = previous_status
            payload = {
                "session_id": session_id,
                "position": replay_state["position"],
                "expected": expected,
                "actual": actual,
            }
            yield "signal.sent", {"event": "replay:input_mismatch", "payload": payload}
            yield build_state_step(replay_state | {"status": "mismatch"})

        await self._services.journal.write(owner, session_id, build_steps)
        self._wake(session_id)

    async def _load_outline(self, owner: str, session_id: str, state: SessionState) -> Outline:
        return await self._get_script(owner, session_id, state).outline()

    def _get_script(self, owner: str, session_id: str, state: SessionState) -> Script:
        script = self._scripts.get(session_id)
        if script is None:
            session = to_builtins(state.session)
            source = session["replay_state"]["source_session_id"]
            sequence = session.get(_SOURCE_SEQUENCE, 0)
            script = Script(self._services, owner, source, sequence, session_id)
            self._scripts[session_id] = script
        return script

    async def _continue(self, owner: str, session_id: str) -> None:
        await self._pending.add(session_id, owner)
        self._play(owner, session_id)
        self._wake(session_id)

    def _wake(self, session_id: str) -> None:
        event = self._woken.get(session_id)
        if event is not None:
            event.set()

    def _play(self, owner: str, session_id: str) -> None:
        """Start the player of a replay unless it has one."""
        task = self._players.get(session_id)
        if task is None or task.done():
            self._woken[session_id] = asyncio.Event()
            task = asyncio.ensure_future(self._run_player(owner, session_id))
            self._players[session_id] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_player(self, owner: str, session_id: str) -> None:
        """Play until the replay ends or pauses; after a failure it stays pending."""
        try:
            player = Player(self._services, owner, session_id, self._woken[session_id], self._typed)
            while await player.play(lambda state: self._get_script(owner, session_id, state)):
                pass
        except StoreError as problem:
            _log.warning("replay stopped: %s", problem.what)
            if not isinstance(problem, NotFoundError):
                return  # the next start resumes it
        self._players.pop(session_id, None)
        self._woken.pop(session_id, None)
        self._scripts.pop(session_id, None)
        self._typed.pop(session_id, None)
        with contextlib.suppress(StoreError):
            await self._pending.remove(session_id)


def _find_obstacle(state: SessionState) -> str | None:
    if state.run is not None:
        return "a run is in progress in this session; stop it or wait"
    if not state.path:
        return "this session is empty"
    return None


def _check_speed(speed: Any) -> int:
    if type(speed) is not int or speed not in SPEEDS:
        raise bad_request("speed must be 1, 2 or 5", "speed")
    return speed


def _parse_decision(value: Any) -> str:
    """Return a decision by its present name."""
    decision = _EARLIER_NAMES.get(value, value) if isinstance(value, str) else None
    if decision not in _DECISIONS:
        raise bad_request(
            f"replay_decision must be {KEEP_REPLAY} or {CONTINUE_REPLAY}", "replay_decision"
        )
    return decision


def _parse_status(status: Any) -> str:
    if status is None:
        return "playing"
    if status not in (*PLAYING_STATUSES, "paused"):
        raise bad_request("status must be autonomous, playing, paused or null", "status")
    return str(status)


def _extract_text(payload: Json, state: SessionState) -> str:
    """Return the text of a message, or of an answer to a question."""
    answer = payload.get("askuser_answer")
    if isinstance(answer, dict):
        call_id = str(answer.get("tool_call_id") or answer.get("prompt_id"))
        question = state.questions.get(call_id)
        if question is None:
            raise ApiError(409, "no such question", "no_question")
        return ", ".join(actions.normalize_answer(question, answer)["answers"])
    message = payload.get("message")
    if isinstance(message, list):
        texts = [part.get("text") for part in message if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return message if isinstance(message, str) else ""
