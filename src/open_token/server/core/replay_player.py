"""The player of a replay: appends the recorded steps at their time and reacts to commands."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from open_token.model.log_events import Json, LogError, NewEvent, merge_deltas
from open_token.model.session_types import to_builtins
from open_token.server.core.replay_script import Script, ScriptItem
from open_token.server.core.services import Services
from open_token.server.errors import conflict
from open_token.session import SessionState, actions

PLAYING_STATUSES = ("playing", "autonomous")
_BATCH_SECONDS = 0.1
"""Steps that are due within this time are written together."""
_MAX_BATCH = 200
_MAX_LAG = 0.5
"""Seconds that a replay may be late, as on a busy machine, and still catch up."""


class _Moved(Exception):
    """The replay is not at the position where its player expected it."""


def is_replaying(state: SessionState) -> bool:
    """Return whether a session is a replay that has not finished."""
    replay = state.session.replay_state
    return replay is not None and replay.status != "finished"


def get_replay_state(state: SessionState) -> Json:
    """Return the state of a replay; raises ApiError when the session is not one."""
    if state.session.replay_state is None:
        raise conflict("this session is not a replay", "no_replay")
    replay_state: Json = to_builtins(state.session.replay_state)
    return replay_state


def build_state_step(replay_state: Json) -> NewEvent:
    """Build the step that changes the state of a replay."""
    return "replay.changed", {"replay_state": replay_state}


def _is_playing(replay_state: Json) -> bool:
    return replay_state["status"] in PLAYING_STATUSES


class Player:
    """Plays one replay from its current position."""

    def __init__(
        self,
        services: Services,
        owner: str,
        session_id: str,
        woken: asyncio.Event,
        typed: dict[str, int],
    ) -> None:
        self._services = services
        self._owner = owner
        self._session_id = session_id
        self._woken = woken
        """Set when a command changed the replay."""
        self._typed = typed
        """By session: the position of the input that the user has already typed."""
        self._due = asyncio.get_running_loop().time()
        self._run_id: str | None = None

    async def play(self, script_of: Callable[[SessionState], Script]) -> bool:
        """Play until the replay ends or is paused; True when it must be played again."""
        state = await self._load_state()
        if not is_replaying(state):
            return False
        replay_state = get_replay_state(state)
        if not _is_playing(replay_state):
            return False
        position = replay_state["position"]
        self._run_id = state.run.run_id if state.run else None
        async with contextlib.aclosing(script_of(state).items(position)) as items:
            return await self._play_items(items, position, replay_state)

    async def _load_state(self) -> SessionState:
        return await self._services.journal.state(self._owner, self._session_id)

    async def _play_items(
        self, items: AsyncIterator[ScriptItem], position: int, replay_state: Json
    ) -> bool:
        batch: list[ScriptItem] = []
        async for item in items:
            if batch and not self._can_join_batch(batch, item, replay_state):
                if not await self._write(batch, position, replay_state["source_session_id"]):
                    return await self._is_still_mine(position)
                position += len(batch)
                batch = []
            if not batch:
                if not await self._wait_until_due(item, position, replay_state):
                    return False
                replay_state = get_replay_state(await self._load_state())
                if not _is_playing(replay_state):
                    return False
            batch.append(item)
        if batch and await self._write(batch, position, replay_state["source_session_id"]):
            position += len(batch)
        return await self._finish(position, replay_state["total"])

    def _can_join_batch(
        self, batch: list[ScriptItem], item: ScriptItem, replay_state: Json
    ) -> bool:
        """Return whether an item is due so soon that it is written with the current batch."""
        pause = item.pause / replay_state["speed"]
        now = asyncio.get_running_loop().time()
        if item.is_input or len(batch) >= _MAX_BATCH:
            return False
        if self._due + pause > now + _BATCH_SECONDS:
            return False
        self._due += pause
        return True

    async def _wait_until_due(self, item: ScriptItem, position: int, replay_state: Json) -> bool:
        """Wait for the time of an item; False when the replay was paused or ended meanwhile.

        A command, such as another speed, changes the remaining time."""
        loop = asyncio.get_running_loop()
        speed = replay_state["speed"]
        if self._can_skip_pause(item, position, replay_state):
            pause = 0.0
        else:
            pause = item.pause
        # Due times are added up, so that small delays do not accumulate. Behind by more than
        # _MAX_LAG, the replay does not catch up: it would rush through what was missed.
        self._due = max(self._due + pause / speed, loop.time() - _MAX_LAG)
        while True:
            started_at = loop.time()
            remaining = self._due - started_at
            if remaining <= 0:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._woken.wait()
            if not self._woken.is_set():
                return True
            self._woken.clear()
            state = await self._load_state()
            if not is_replaying(state) or not _is_playing(get_replay_state(state)):
                return False
            current = get_replay_state(state)
            pause = max(0.0, pause - (loop.time() - started_at) * speed)
            if self._can_skip_pause(item, position, current):
                pause = 0.0
            speed = current["speed"]
            self._due = loop.time() + pause / speed

    def _can_skip_pause(self, item: ScriptItem, position: int, replay_state: Json) -> bool:
        """Return whether an input is due at once: it was typed, or nobody is waited for."""
        if not item.is_input:
            return False
        is_typed = self._typed.get(self._session_id) == position
        return is_typed or replay_state["status"] == "autonomous"

    async def _write(self, batch: list[ScriptItem], position: int, source: str) -> bool:
        """Append a batch; False when the replay is no longer at this position."""
        blobs = await self._find_blobs(batch, source)

        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            replay_state = _require_position(state, position)
            if self._run_id is not None:
                if state.run is None or state.run.run_id != self._run_id:
                    raise LogError("the run was stopped")
            yield from merge_deltas([item.step for item in batch])
            self._run_id = state.run.run_id if state.run else None
            yield build_state_step(replay_state | {"position": position + len(batch)})

        journal = self._services.journal
        try:
            await journal.write(self._owner, self._session_id, build_steps, blobs=blobs)
        except _Moved:
            return False
        except LogError:
            await self._abandon()
            return False
        return True

    async def _find_blobs(self, batch: list[ScriptItem], source: str) -> list[str]:
        """Return the blobs of a batch that the recorded session has."""
        read_blob = self._services.store.read_blob
        hashes = dict.fromkeys(item.blob for item in batch if item.blob)
        found = []
        for sha256 in hashes:
            if await read_blob(self._owner, source, sha256, 0, 1) is not None:
                found.append(sha256)
        return found

    async def _is_still_mine(self, position: int) -> bool:
        """Return whether a replay goes on, and no other player has moved it."""
        replay_state = get_replay_state(await self._load_state())
        return _is_playing(replay_state) and replay_state["position"] == position

    async def _finish(self, position: int, total: int) -> bool:
        """End the replay; it pauses when the recorded session was deleted before its end."""

        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            replay_state = _require_position(state, position)
            if position < total:
                notice = {
                    "message": "the recorded session no longer exists",
                    "info": {"level": "error"},
                }
                yield "notice.given", notice
                yield build_state_step(replay_state | {"status": "paused"})
                return
            yield from actions.interrupt_run(state)
            yield build_state_step(replay_state | {"status": "finished"})

        try:
            await self._services.journal.write(self._owner, self._session_id, build_steps)
        except _Moved:
            return await self._is_still_mine(position)
        return False

    async def _abandon(self) -> None:
        """End the replay: the session changed, and the recording no longer fits."""

        def build_steps(state: SessionState) -> Iterator[NewEvent]:
            yield from actions.interrupt_run(state)
            yield build_state_step(get_replay_state(state) | {"status": "finished"})

        await self._services.journal.write(self._owner, self._session_id, build_steps)


def _require_position(state: SessionState, position: int) -> Json:
    replay_state = get_replay_state(state)
    if not _is_playing(replay_state) or replay_state["position"] != position:
        raise _Moved
    return replay_state
