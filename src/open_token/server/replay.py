"""Replays: sessions that play a recorded one again in its own rhythm; nothing is run, only
written."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Literal

from open_token.errors import StoreError
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import to_builtins
from open_token.server._marks import Marks
from open_token.server._player import LIVE, Player, changed, is_under_way, standing_of
from open_token.server._script import Outline, Script
from open_token.server.refusals import Refused, bad, busy
from open_token.server.services import Services
from open_token.server.store.interface import NotFoundError
from open_token.server.store.rows import Caller
from open_token.session import SessionState, actions

MARKS = "replays"
SPEEDS = (1, 2, 5)
DECISIONS = ("keep", "go_on")
_SEQUENCE = "replay_source_sequence"
_log = logging.getLogger("open_token.server")

Heard = Literal["match", "mismatch"]


class Replays:
    """The replays of this node: begun, steered, and played by a task each."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._marks = Marks(services.store, MARKS)
        self._players: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """The players, and those that only tidy up."""
        self._woken: dict[str, asyncio.Event] = {}
        self._scripts: dict[str, Script] = {}
        self._typed: dict[str, int] = {}
        """The input that the person typed before its time, by session."""
        self._before: dict[str, str] = {}
        """How a replay went before the person typed something else."""

    async def start(self) -> None:
        """Go on with what was playing when the server stopped; from now on messages to replays come
        here."""
        chat: Any = self._services.chat
        chat.divert = self.divert
        for session_id, owner in (await self._marks.left()).items():
            self._play(owner, session_id)

    async def close(self) -> None:
        """Stop playing; the log knows how far it came."""
        for task in self._players.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def preview(self, owner: str, session_id: str) -> Json:
        """Whether a session can be played, and why not."""
        state = await self._services.journal.state(owner, session_id)
        reason = _hindrance(state)
        about = {"session_id": session_id, "intent": state.session.intent}
        return {**about, "supported": reason is None, "reason": reason}

    async def begin(self, owner: str, source: str, speed: int = 1) -> str:
        """A new session that plays a recorded one as it is now."""
        _speed(speed)
        if len(self._players) >= self._services.config.limits.runs:
            raise Refused(
                429, "too many replays play at once; wait until one is over", "too_many_replays"
            )
        state = await self._services.journal.state(owner, source)
        if (reason := _hindrance(state)) is not None:
            raise busy(reason, "not_replayable")
        sequence, about = state.seq, {"intent": state.session.intent, "model": state.session.model}
        session_id = self._services.clock.name("sess")
        script = self._scripts[session_id] = Script(
            self._services, owner, source, sequence, session_id
        )
        outline = await script.outline()
        standing = {"source_session_id": source, "speed": speed, "status": "playing", "position": 0}
        standing["total"] = outline.total
        made: Json = {"id": session_id, **about, "replay_state": standing, _SEQUENCE: sequence}
        await self._services.journal.create(owner, made)
        await self._marks.add(session_id, owner)
        self._play(owner, session_id)
        return session_id

    async def steer(self, owner: str, session_id: str, changes: Json) -> Json:
        """Change the speed, pause, go on, let it run by itself (`autonomous`), or no longer
        (None)."""

        def make(state: SessionState) -> Iterator[NewEvent]:
            standing = standing_of(state)
            if standing["status"] == "finished":
                raise busy("the replay is over", "replay_finished")
            if "status" in changes:
                if standing["status"] == "mismatch":
                    raise busy(
                        "first decide what to do: chat:send with replay_decision keep or go_on",
                        "mismatch",
                    )
                standing["status"] = _status(changes["status"])
            if changes.get("speed") is not None:
                standing["speed"] = _speed(changes["speed"])
            yield changed(standing)

        await self._services.journal.write(owner, session_id, make)
        standing = standing_of(await self._services.journal.state(owner, session_id))
        if standing["status"] in LIVE:
            await self._go_on(owner, session_id)
        else:
            self._wake(session_id)
        return standing

    async def heard(self, owner: str, session_id: str, text: str) -> Heard | None:
        """The person typed something: what was recorded, something else, or (None) this is no
        replay under way."""
        state = await self._services.journal.state(owner, session_id)
        if not is_under_way(state):
            return None
        standing = standing_of(state)
        expected = (await self._outline(owner, session_id, state)).expected(standing["position"])
        if expected is not None and _same(expected[1], text) and standing["status"] != "mismatch":
            self._typed[session_id] = expected[0]
            if standing["status"] == "paused":
                await self.steer(owner, session_id, {"status": "playing"})
            self._wake(session_id)
            return "match"
        await self._mismatch(owner, session_id, expected[1] if expected else None, text)
        return "mismatch"

    async def decide(self, owner: str, session_id: str, decision: Any) -> None:
        """After a mismatch: `keep` to the recording, or `go_on` from here with what the person
        types."""
        if decision not in DECISIONS:
            raise bad("replay_decision is keep or go_on", "replay_decision")
        before = self._before.pop(session_id, "playing")

        def make(state: SessionState) -> Iterator[NewEvent]:
            standing = standing_of(state)
            if standing["status"] != "mismatch":
                raise busy("the replay waits for no decision", "no_mismatch")
            if decision == "go_on":
                yield from actions.interrupt_run(state)
            yield changed(standing | {"status": before if decision == "keep" else "finished"})

        await self._services.journal.write(owner, session_id, make)
        if decision == "keep":
            await self._go_on(owner, session_id)

    async def divert(self, caller: Caller, payload: Json, state: SessionState) -> Json | None:
        """A message to a session: one to a replay is compared with the recording; None when the
        agent is to have it."""
        if not is_under_way(state):
            return None
        owner, session_id = caller.user.id, state.session_id
        decision = payload.get("replay_decision")
        if decision is not None:
            await self.decide(owner, session_id, decision)
            if decision == "go_on":
                return None
        else:
            heard = await self.heard(owner, session_id, _said(payload, state))
            if heard is None:
                return None
            decision = heard
        ack = {
            "status": "ok",
            "session_id": session_id,
            "turn_id": None,
            "chat_run_id": None,
            "queued": False,
        }
        return {**ack, "replay": decision}

    async def _mismatch(
        self, owner: str, session_id: str, expected: str | None, actual: str
    ) -> None:
        def make(state: SessionState) -> Iterator[NewEvent]:
            standing = standing_of(state)
            if standing["status"] != "mismatch":
                self._before[session_id] = (
                    "autonomous" if standing["status"] == "autonomous" else "playing"
                )
            told = {
                "session_id": session_id,
                "position": standing["position"],
                "expected": expected,
                "actual": actual,
            }
            yield "signal.sent", {"event": "replay:input_mismatch", "payload": told}
            yield changed(standing | {"status": "mismatch"})

        await self._services.journal.write(owner, session_id, make)
        self._wake(session_id)

    async def _outline(self, owner: str, session_id: str, state: SessionState) -> Outline:
        return await self._script(owner, session_id, state).outline()

    def _script(self, owner: str, session_id: str, state: SessionState) -> Script:
        script = self._scripts.get(session_id)
        if script is None:
            standing = to_builtins(state.session)
            source, sequence = (
                standing["replay_state"]["source_session_id"],
                standing.get(_SEQUENCE, 0),
            )
            script = self._scripts[session_id] = Script(
                self._services, owner, source, sequence, session_id
            )
        return script

    async def _go_on(self, owner: str, session_id: str) -> None:
        await self._marks.add(session_id, owner)
        self._play(owner, session_id)
        self._wake(session_id)

    def _wake(self, session_id: str) -> None:
        if (event := self._woken.get(session_id)) is not None:
            event.set()

    def _play(self, owner: str, session_id: str) -> None:
        task = self._players.get(session_id)
        if task is None or task.done():
            self._woken[session_id] = asyncio.Event()
            task = self._players[session_id] = asyncio.ensure_future(
                self._played(owner, session_id)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _played(self, owner: str, session_id: str) -> None:
        """Play until there is nothing more to play here; a replay that is only paused is known as
        such."""
        try:
            player = Player(self._services, owner, session_id, self._woken[session_id], self._typed)
            while await player.play(lambda state: self._script(owner, session_id, state)):
                pass
        except StoreError as problem:
            _log.warning("a replay stopped: %s", problem.what)
            if not isinstance(problem, NotFoundError):
                return  # the mark stays, and the next start goes on
        self._players.pop(session_id, None)
        for held in (self._woken, self._scripts, self._typed):
            held.pop(session_id, None)
        with contextlib.suppress(StoreError):
            await self._marks.remove(session_id)


async def heard(services: Services, owner: str, session_id: str, text: str) -> Heard | None:
    """What a message is to a replay: `match`, `mismatch`, or None when the session is no replay
    under way."""
    return await services.replays.heard(owner, session_id, text)


async def decide(services: Services, owner: str, session_id: str, decision: Any) -> None:
    """What the person decides after a mismatch: keep or go_on."""
    await services.replays.decide(owner, session_id, decision)


async def resume_all(services: Services) -> None:
    """Go on with the replays that were playing when the server stopped."""
    await services.replays.start()


def _hindrance(state: SessionState) -> str | None:
    if state.run is not None:
        return "the agent is still at work in this session; wait until it is done, or stop it"
    if not state.path:
        return "nothing was said in this session"
    return None


def _speed(speed: Any) -> int:
    if type(speed) is not int or speed not in SPEEDS:
        raise bad("speed is 1, 2 or 5", "speed")
    return speed


def _status(status: Any) -> str:
    if status is None:
        return "playing"
    if status not in (*LIVE, "paused"):
        raise bad("status is autonomous, playing, paused or null", "status")
    return str(status)


def _same(one: str, other: str) -> bool:
    return one.split() == other.split()


def _said(payload: Json, state: SessionState) -> str:
    """The words of a message, or of an answer to a question."""
    given = payload.get("askuser_answer")
    if isinstance(given, dict):
        question = state.questions.get(str(given.get("tool_call_id") or given.get("prompt_id")))
        if question is None:
            raise Refused(409, "there is no such question", "no_question")
        return ", ".join(actions.normalize_answer(question, given)["answers"])
    message = payload.get("message")
    if isinstance(message, list):
        texts = [part.get("text") for part in message if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return message if isinstance(message, str) else ""
