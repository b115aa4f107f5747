"""What a Gemini CLI file says again: after a cancelled call the client writes its history down
anew, under new ids."""

from typing import Any

from open_token.formats.shared.gemini_tool_outputs import (
    get_function_call,
    get_function_response,
    list_content_parts,
)
from open_token.jsontools.nesting import encode_deep

_CONTEXT = "<session_context>"
Body = dict[str, Any]


class History:
    """Knows what was told, and whether the client is just telling it again (0.61)."""

    def __init__(self) -> None:
        self._told: set[int] = set()
        self.is_again = False
        """From a second context of the session on, until the history is put in place or something
        new comes."""

    def repeats(self, message: Body) -> bool:
        """Whether a message says nothing but what was told; if not, it is told from now on."""
        marks = [
            mark
            for part in list_content_parts(message.get("content"))
            if (mark := _mark(part)) is not None
        ]
        if self._told and marks and _begins(message):
            self.is_again = True
        self.is_again = self.is_again and self._told.issuperset(marks)
        if not self.is_again:
            calls = message.get("toolCalls")
            self._told.update(marks)
            self._told.update(_called(call) for call in _objects(calls))
        return self.is_again


def _begins(message: Body) -> bool:
    first = next(iter(list_content_parts(message.get("content"))), {})
    return str(first.get("text", "")).lstrip().startswith(_CONTEXT)


def _mark(part: Body) -> int | None:
    """What a part is known by: its words, or its call; a thought, a result and the context are not
    looked at."""
    if part.get("thought") is True or get_function_response(part) is not None:
        return None
    if (call := get_function_call(part)) is not None:
        return _called(call)
    text = part.get("text")
    if not isinstance(text, str):
        return hash(encode_deep(part))
    return None if text.lstrip().startswith(_CONTEXT) or not text else hash(text)


def _called(call: Body) -> int:
    """A call by its tool and arguments: the id is another one in a history."""
    return hash((encode_deep(call.get("name")), encode_deep(call.get("args"))))


def _objects(value: Any) -> list[Body]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
