"""A model that plays the model's side of an Open-Token file: the same words and calls, answer by
answer."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from open_token.api import read
from open_token.errors import OpenTokenError
from open_token.reducer import State
from open_token.reducer.documents import import_document
from open_token.server.agent.interface import (
    CallBegun,
    CallPiece,
    Piece,
    Request,
    Text,
    TextPiece,
    ThinkingPiece,
)
from open_token.server.config import ServerConfig
from open_token.server.refusals import bad
from open_token.turns import ROOT, TurnProjection

_OVER = "(The recording ends here.)"
_AT = "1970-01-01T00:00:00.000Z"


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "Recorded":
    """The model of a file in the folder `recordings` of the data, or of any file that the
    operator's settings name."""
    wanted = Path(name.partition(":")[2])
    if name not in (config.model, *config.models):
        if wanted.name != str(wanted) or wanted.name.startswith("."):
            raise bad(
                "recorded:<file> names a file in the folder `recordings` of the data", "no_model"
            )
        wanted = config.data / "recordings" / wanted
    try:
        return Recorded(name, read(wanted))
    except OpenTokenError:
        raise bad("the recording cannot be read as an Open-Token file", "no_model") from None


class Recorded:
    """Answers as the model of a recording did."""

    context_window = 200_000

    def __init__(self, name: str, document: Any) -> None:
        self.name = name
        state = State("recording")
        for _ in import_document(
            state, document["events"], _AT, participants=document.get("participants")
        ):
            pass
        self._loops: dict[str, list[TurnProjection]] = {}
        self._tasks: dict[str, str] = {}
        for turn in state.branch():
            if turn.role == "assistant":
                self._loops.setdefault(turn.loop_id, []).append(turn)
            elif turn.role == "user" and turn.loop_id != ROOT:
                self._tasks.setdefault(_said(turn), turn.loop_id)

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """The answer that stands at this place of the recording."""
        answers = self._loops.get(self._loop(request), [])
        place = sum(message.role == "assistant" for message in request.messages)
        if place >= len(answers):
            yield TextPiece(_OVER)
            return
        for piece in _pieces(answers[place]):
            yield piece

    def _loop(self, request: Request) -> str:
        """The agent that talks with the person, or the subagent that had this task."""
        if not request.depth:
            return ROOT
        asked = next((message for message in request.messages if message.role == "user"), None)
        words = (
            "".join(part.text for part in asked.parts if isinstance(part, Text)) if asked else ""
        )
        return self._tasks.get(words, "")


def _said(turn: TurnProjection) -> str:
    return "".join(
        block.content
        for block in turn.blocks
        if block.type == "text" and isinstance(block.content, str)
    )


def _pieces(turn: TurnProjection) -> Iterator[Piece]:
    calls = {call.id: call for call in turn.tool_calls}
    for block in turn.blocks:
        if block.type == "text" and isinstance(block.content, str):
            yield TextPiece(block.content)
        elif block.type == "thinking" and isinstance(block.content, str) and block.content:
            yield ThinkingPiece(block.content)
        elif block.type == "tool_use" and (call := calls.get(block.tool_call_id or "")) is not None:
            yield CallBegun(call.id, call.tool_name)
            yield CallPiece(call.id, call.arguments)
