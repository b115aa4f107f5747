"""What a request to a model holds, whatever wire it came over, and what is answered."""

from functools import cached_property
from typing import Any, Literal

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """A tool that a request offers."""

    name: str
    schema: dict[str, Any]
    is_custom: bool = False
    """It takes one text, not an object."""
    is_script: bool = False
    """That text is JavaScript, in which a shell is `tools.exec_command`: Codex with its newest
    models."""


class Said(msgspec.Struct, frozen=True):
    """Words of one side."""

    by: Literal["user", "model"]
    text: str


class Made(msgspec.Struct, frozen=True):
    """A call that the model made; `id` is empty where the wire has none."""

    id: str
    name: str
    arguments: Any


class Got(msgspec.Struct, frozen=True):
    """What a call gave back."""

    id: str
    name: str
    text: str


Item = Said | Made | Got


class Asked(msgspec.Struct, dict=True):
    """One request: what was said and done so far, in order, and what is wanted."""

    wire: str
    model: str
    stream: bool
    items: list[Item]
    tools: list[Tool] = []
    system: str = ""
    schema: Any = None
    """The form that the answer must have, where a request asks for one."""
    is_form: bool = False
    """It wants JSON, with or without a schema."""
    limit: int | None = None
    """The most tokens that it wants."""
    with_usage: bool = False
    is_listed: bool = False
    """A stream is wanted as a JSON list, not as events."""

    @cached_property
    def end(self) -> int:
        """Where the tail begins: what came after the last words or call of the model."""
        for place in range(len(self.items) - 1, -1, -1):
            item = self.items[place]
            if isinstance(item, Made) or (isinstance(item, Said) and item.by == "model"):
                return place + 1
        return 0

    @cached_property
    def prompts(self) -> list[str]:
        """What the user said last."""
        return [item.text for item in self.items[self.end :] if isinstance(item, Said)]

    @cached_property
    def results(self) -> list[Got]:
        """What calls gave back last."""
        return [item for item in self.items[self.end :] if isinstance(item, Got)]

    @cached_property
    def all_results(self) -> dict[str, Got]:
        """Every result by the id of its call."""
        return {item.id: item for item in self.items if isinstance(item, Got) and item.id}

    @cached_property
    def all_calls(self) -> dict[str, Made]:
        """Every call by its id."""
        return {item.id: item for item in self.items if isinstance(item, Made) and item.id}

    @cached_property
    def last_calls(self) -> list[Made]:
        """The calls of the model's last answer."""
        found: list[Made] = []
        for item in reversed(self.items[: self.end]):
            if not isinstance(item, Made):
                break
            found.append(item)
        return found[::-1]

    @cached_property
    def last_words(self) -> str:
        """What the model said last, before its calls."""
        place = self.end - len(self.last_calls)
        words: list[str] = []
        while place > 0 and isinstance(item := self.items[place - 1], Said) and item.by == "model":
            words.append(item.text)
            place -= 1
        return "\n\n".join(reversed(words))


class Answer(msgspec.Struct, frozen=True):
    """What the model said and called; `error` instead, where nothing is recorded for a request."""

    id: str
    parts: list[str | Made]
    error: str = ""

    @property
    def calls(self) -> list[Made]:
        """Its calls."""
        return [part for part in self.parts if isinstance(part, Made)]

    @property
    def text(self) -> str:
        """Its words."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))
