"""What a model is to the loop: words and calls in, pieces of an answer out; providers hide behind
it."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

Json = dict[str, Any]


class Text(Struct, frozen=True, tag="text"):
    """Words."""

    text: str


class Media(Struct, frozen=True, tag="media"):
    """A picture or a file, by address (https:, data:) or as bytes."""

    media_type: str
    url: str = ""
    data: bytes = b""
    name: str = ""


class Thinking(Struct, frozen=True, tag="thinking"):
    """What the model thought; some providers want it back with their signature."""

    text: str
    signature: str | None = None


class Call(Struct, frozen=True, tag="call"):
    """A call that the model made; arguments are JSON text. Some providers want it back with their
    signature."""

    id: str
    name: str
    arguments: str = "{}"
    signature: str | None = None


class Result(Struct, frozen=True, tag="result"):
    """What came of a call, and the pictures that came with it."""

    call_id: str
    name: str
    content: Any = None
    is_error: bool = False
    media: Sequence[Media] = ()


Part = Text | Media | Thinking | Call | Result


class Message(Struct, frozen=True):
    """One message of the history that the model sees: results of calls stand in a message of role
    `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: Sequence[Part]


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as the model and people see it; parameters are a JSON Schema."""

    name: str
    description: str
    parameters: Json = field(default_factory=lambda: {"type": "object", "properties": {}})
    display_name: str = ""


class Request(Struct, frozen=True, kw_only=True):
    """One model call."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    output_schema: Json | None = None
    """The answer must be JSON of this schema."""
    mode: str = "executing"
    depth: int = 0
    """0 for the agent that talks with the person, 1 for its subagents, and so on."""


class TextPiece(Struct, frozen=True):
    """More words of the answer."""

    text: str


class ThinkingPiece(Struct, frozen=True):
    """More thoughts; the signature comes with the last piece, if at all."""

    text: str = ""
    signature: str | None = None


class CallBegun(Struct, frozen=True):
    """The model begins to call a tool; with the signature of the provider, if it signs calls."""

    id: str
    name: str
    signature: str | None = None


class CallPiece(Struct, frozen=True):
    """More of the arguments of a call."""

    id: str
    arguments: str


class Counted(Struct, frozen=True):
    """What the answer took: input_tokens (cached ones too), output_tokens, and what else the
    provider tells."""

    usage: dict[str, int]


Piece = TextPiece | ThinkingPiece | CallBegun | CallPiece | Counted
"""What streams out of a model; the stream ends when the answer is complete."""


class Model(Protocol):
    """A model that answers."""

    name: str
    context_window: int

    def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Answer; raises ModelFault. Closing the iterator stops the provider's work."""
        ...


class ModelFault(Exception):
    """A model call that failed, in words for the person."""

    def __init__(
        self,
        message: str,
        kind: Literal[
            "context", "rate", "auth", "timeout", "server", "request", "unknown"
        ] = "unknown",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after

    @property
    def is_passing(self) -> bool:
        """Trying again may help."""
        return self.kind in ("rate", "timeout", "server")
