"""A model that replays the answers of a recorded Open-Token file."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from open_token.api import read
from open_token.errors import OpenTokenError
from open_token.model.session_types import ROOT_LOOP, TurnProjection
from open_token.server.agent.model_interface import (
    CallArgumentsPiece,
    CallStart,
    Piece,
    Request,
    Text,
    TextPiece,
    ThinkingPiece,
)
from open_token.server.config import ServerConfig
from open_token.server.errors import bad_request
from open_token.session import SessionState
from open_token.session.document_import import import_document

_END_OF_RECORDING = "(The recording ends here.)"
_IMPORT_TIME = "1970-01-01T00:00:00.000Z"


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "RecordedModel":
    """Open the model of a file in the folder `recordings`, or of any file named in the settings."""
    path = Path(name.partition(":")[2])
    if name not in (config.model, *config.models):
        if path.name != str(path) or path.name.startswith("."):
            raise bad_request(
                "recorded:<file> must name a file in the folder `recordings` of the data folder",
                "no_model",
            )
        path = config.data / "recordings" / path
    try:
        return RecordedModel(name, read(path))
    except OpenTokenError:
        raise bad_request("the recording is not a valid Open-Token file", "no_model") from None


class RecordedModel:
    """A model that answers as in a recording."""

    context_window = 200_000

    def __init__(self, name: str, document: Any) -> None:
        self.name = name
        state = SessionState("recording")
        for _ in import_document(
            state,
            document["events"],
            lambda: _IMPORT_TIME,
            participants=document.get("participants"),
        ):
            pass
        self._loops: dict[str, list[TurnProjection]] = {}
        self._tasks: dict[str, str] = {}
        for turn in state.branch():
            if turn.role == "assistant":
                self._loops.setdefault(turn.loop_id, []).append(turn)
            elif turn.role == "user" and turn.loop_id != ROOT_LOOP:
                self._tasks.setdefault(_get_text(turn), turn.loop_id)

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Stream the answer at this position of the recording."""
        answers = self._loops.get(self._find_loop(request), [])
        position = sum(message.role == "assistant" for message in request.messages)
        if position >= len(answers):
            yield TextPiece(_END_OF_RECORDING)
            return
        for piece in _to_pieces(answers[position]):
            yield piece

    def _find_loop(self, request: Request) -> str:
        """Return the recorded loop: that of the main agent, or of the subagent with the task."""
        if not request.depth:
            return ROOT_LOOP
        task = ""
        for message in request.messages:
            if message.role == "user":
                task = "".join(part.text for part in message.parts if isinstance(part, Text))
                break
        return self._tasks.get(task, "")


def _get_text(turn: TurnProjection) -> str:
    return "".join(
        block.content
        for block in turn.blocks
        if block.type == "text" and isinstance(block.content, str)
    )


def _to_pieces(turn: TurnProjection) -> Iterator[Piece]:
    calls = {call.id: call for call in turn.tool_calls}
    for block in turn.blocks:
        if block.type == "text" and isinstance(block.content, str):
            yield TextPiece(block.content)
        elif block.type == "thinking" and isinstance(block.content, str) and block.content:
            yield ThinkingPiece(block.content)
        elif block.type == "tool_use":
            call = calls.get(block.tool_call_id or "")
            if call is not None:
                yield CallStart(call.id, call.tool_name)
                yield CallArgumentsPiece(call.id, call.arguments)
