"""Plays a replay: writes what is due, in the rhythm of the recording, and looks up when somebody
steers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from open_token.model.log_events import Json, LogError, NewEvent, merge_deltas
from open_token.model.session_types import to_builtins
from open_token.server._script import Item, Script
from open_token.server.refusals import busy
from open_token.server.services import Services
from open_token.session import SessionState, actions

LIVE = ("playing", "autonomous")
_TICK = 0.1
"""Seconds; what falls into one is written together."""
_MOST = 200
_LAG = 0.5
"""Seconds; a replay that is later than that, as on a busy machine, does not hurry to make up for
it."""


class _Moved(Exception):
    """The replay does not stand where its player thought."""


def is_under_way(state: SessionState) -> bool:
    """Whether a session is a replay that is not over."""
    replay = state.session.replay_state
    return replay is not None and replay.status != "finished"


def standing_of(state: SessionState) -> Json:
    """How a replay stands; Refused when the session is none."""
    if state.session.replay_state is None:
        raise busy("this session is no replay", "no_replay")
    standing: Json = to_builtins(state.session.replay_state)
    return standing


def changed(standing: Json) -> NewEvent:
    """A replay stands otherwise now."""
    return "replay.changed", {"replay_state": standing}


class Player:
    """Plays one replay from where it stands."""

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
        """Set when the replay was steered."""
        self._typed = typed
        """By session, the place of the input that the person typed before its time."""
        self._due = asyncio.get_running_loop().time()
        self._run: str | None = None

    async def play(self, script_of: Callable[[SessionState], Script]) -> bool:
        """Play until it is over or stopped; True when it goes on and must be looked at anew."""
        state = await self._services.journal.state(self._owner, self._session_id)
        if not is_under_way(state) or (standing := standing_of(state))["status"] not in LIVE:
            return False
        position = standing["position"]
        self._run = state.run.run_id if state.run else None
        async with contextlib.aclosing(script_of(state).items(position)) as items:
            return await self._perform(items, position, standing)

    async def _perform(self, items: AsyncIterator[Item], position: int, standing: Json) -> bool:
        batch: list[Item] = []
        async for item in items:
            if batch and not self._goes_along(batch, item, standing):
                if not await self._write(batch, position, standing["source_session_id"]):
                    return await self._is_mine(position)
                position += len(batch)
                batch = []
            if not batch and (goes_on := await self._waited(item, position, standing)) is not None:
                return goes_on
            if not batch:
                standing = standing_of(
                    await self._services.journal.state(self._owner, self._session_id)
                )
                if standing["status"] not in LIVE:
                    return False
            batch.append(item)
        if batch and await self._write(batch, position, standing["source_session_id"]):
            position += len(batch)
        return await self._end(position, standing["total"])

    def _goes_along(self, batch: list[Item], item: Item, standing: Json) -> bool:
        """Whether an item is so near to the one before that both are written together."""
        pause = item.pause / standing["speed"]
        now = asyncio.get_running_loop().time()
        if item.is_input or len(batch) >= _MOST or self._due + pause > now + _TICK:
            return False
        self._due += pause
        return True

    async def _waited(self, item: Item, position: int, standing: Json) -> bool | None:
        """Wait for the time of an item; a word of the person's ends the waiting, and then all is
        looked at anew."""
        loop = asyncio.get_running_loop()
        left = 0.0 if self._is_free(item, position, standing) else item.pause
        speed = standing["speed"]
        self._due = max(self._due + left / speed, loop.time() - _LAG)
        while (rest := self._due - loop.time()) > 0:
            began = loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._woken.wait()
            if not self._woken.is_set():
                break
            self._woken.clear()
            state = await self._services.journal.state(self._owner, self._session_id)
            if not is_under_way(state) or standing_of(state)["status"] not in LIVE:
                return False
            now = standing_of(state)
            left = max(0.0, left - (loop.time() - began) * speed)
            if self._is_free(item, position, now):
                left = 0.0
            speed = now["speed"]
            self._due = loop.time() + left / speed
        return None

    def _is_free(self, item: Item, position: int, standing: Json) -> bool:
        """Whether nobody is waited for: the person typed it already, or is not to be waited for."""
        is_typed = self._typed.get(self._session_id) == position
        return item.is_input and (is_typed or standing["status"] == "autonomous")

    async def _write(self, batch: list[Item], position: int, source: str) -> bool:
        """Write what is due; False when the replay no longer stands where it did."""
        read = self._services.store.read_blob
        named = dict.fromkeys(item.blob for item in batch if item.blob)
        blobs = [name for name in named if await read(self._owner, source, name, 0, 1) is not None]

        def make(state: SessionState) -> Iterator[NewEvent]:
            standing = standing_of(state)
            if standing["status"] not in LIVE or standing["position"] != position:
                raise _Moved
            if self._run is not None and (state.run is None or state.run.run_id != self._run):
                raise LogError("the run was stopped")
            yield from merge_deltas([item.step for item in batch])
            self._run = state.run.run_id if state.run else None
            yield changed(standing | {"position": position + len(batch)})

        try:
            await self._services.journal.write(self._owner, self._session_id, make, blobs=blobs)
        except _Moved:
            return False
        except LogError:
            await self._break_off()
            return False
        return True

    async def _is_mine(self, position: int) -> bool:
        """Whether a replay that could not be written to goes on, and nobody else plays it."""
        state = await self._services.journal.state(self._owner, self._session_id)
        standing = standing_of(state)
        return standing["status"] in LIVE and standing["position"] == position

    async def _end(self, position: int, total: int) -> bool:
        """The script is over; when the recording was taken away meanwhile, it pauses where it
        is."""

        def make(state: SessionState) -> Iterator[NewEvent]:
            standing = standing_of(state)
            if standing["status"] not in LIVE or standing["position"] != position:
                raise _Moved
            if position < total:
                yield (
                    "notice.given",
                    {
                        "message": "the recorded session is no longer there",
                        "info": {"level": "error"},
                    },
                )
                yield changed(standing | {"status": "paused"})
                return
            yield from actions.interrupt_run(state)
            yield changed(standing | {"status": "finished"})

        try:
            await self._services.journal.write(self._owner, self._session_id, make)
        except _Moved:
            return await self._is_mine(position)
        return False

    async def _break_off(self) -> None:
        """The session went another way, as when its turn was stopped: the recording no longer
        fits."""

        def make(state: SessionState) -> Iterator[NewEvent]:
            yield from actions.interrupt_run(state)
            yield changed(standing_of(state) | {"status": "finished"})

        await self._services.journal.write(self._owner, self._session_id, make)
