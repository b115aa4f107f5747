"""The interface of models: messages in, pieces of an answer out."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from open_token.model.agent_settings import AgentSettings

Json = dict[str, Any]


class Text(Struct, frozen=True, tag="text"):
    """Text."""

    text: str


class Media(Struct, frozen=True, tag="media"):
    """An image or a file, by URL (https:, data:) or as bytes."""

    media_type: str
    url: str = ""
    data: bytes = b""
    name: str = ""
    detail: str = ""
    """How closely to look at an image: `auto`, `low` or `high`."""


class Attachment(Struct, frozen=True, tag="attachment", kw_only=True):
    """A stored file of a message; models see its text, or Media in its place."""

    name: str
    media_type: str
    size: int
    sha256: str
    path: str = ""
    """Where it is in the workspace."""
    detail: str = ""
    text: str | None = None
    """What models are shown of it; None while it has not been read."""


class Thinking(Struct, frozen=True, tag="thinking"):
    """Reasoning of the model; some providers require it back with their signature."""

    text: str
    signature: str | None = None


class Call(Struct, frozen=True, tag="call"):
    """A tool call with arguments as JSON text; some providers require their signature back."""

    id: str
    name: str
    arguments: str = "{}"
    signature: str | None = None


class Result(Struct, frozen=True, tag="result"):
    """The result of a tool call, and the images in it."""

    call_id: str
    name: str
    content: Any = None
    is_error: bool = False
    media: Sequence[Media] = ()


Part = Text | Media | Attachment | Thinking | Call | Result


class Message(Struct, frozen=True):
    """One message of the history; results of tool calls are in messages of role `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: Sequence[Part]


class ToolSpec(Struct, frozen=True, kw_only=True):
    """The description of a tool for models and users; parameters are a JSON Schema."""

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
    """0 for the main agent, 1 for its subagents, and so on."""
    settings: AgentSettings = AgentSettings()
    """Of these, models obey temperature, max_output_tokens, thinking and effort."""


class TextPiece(Struct, frozen=True):
    """More text of the answer."""

    text: str


class ThinkingPiece(Struct, frozen=True):
    """More reasoning; a signature may come with the last piece."""

    text: str = ""
    signature: str | None = None


class CallStart(Struct, frozen=True):
    """The start of a tool call, with the signature of providers that sign calls."""

    id: str
    name: str
    signature: str | None = None


class CallArgumentsPiece(Struct, frozen=True):
    """More of the arguments of a call."""

    id: str
    arguments: str


class UsagePiece(Struct, frozen=True):
    """The usage of a call: input_tokens (including cached ones), output_tokens, and more."""

    usage: dict[str, int]


class FinishPiece(Struct, frozen=True):
    """Why the answer ends: `stop`, `tool_call`, `length`, `content_filter` or `error`."""

    reason: str


Piece = TextPiece | ThinkingPiece | CallStart | CallArgumentsPiece | UsagePiece | FinishPiece
"""What a model streams; the stream ends when the answer is complete."""


class Model(Protocol):
    """A language model."""

    name: str

    @property
    def context_window(self) -> int:
        """The context window in tokens, as far as it is known."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Stream an answer; raise ModelError. Closing the iterator cancels the request."""
        ...


class ModelError(Exception):
    """A failed model call, described for the user."""

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
    def is_transient(self) -> bool:
        """Whether a retry may help."""
        return self.kind in ("rate", "timeout", "server")
