"""AskUserQuestion: the agent asks the person; the loop ends there, and the answer begins it
again."""

from typing import Any

import msgspec

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.turns import Question, plain, typed

NAME = "AskUserQuestion"
_MOST = 10
_OPTION = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
    "required": ["label"],
}
_QUESTION = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "header": {"type": "string", "description": "One or two words."},
        "options": {"type": "array", "items": _OPTION},
        "multiSelect": {"type": "boolean"},
    },
    "required": ["question", "options"],
}


class AskUserQuestion:
    """Told to the model as a tool; the loop itself carries it out."""

    spec = ToolSpec(
        name=NAME,
        description="Ask the person when you cannot go on without their choice. They may also answer in other words.",
        parameters={
            "type": "object",
            "properties": {
                "questions": {"type": "array", "items": _QUESTION, "minItems": 1, "maxItems": _MOST}
            },
            "required": ["questions"],
        },
        display_name="Question",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """Never called: a question is an end of the loop."""
        raise ToolFault("questions cannot be asked here")


def questions_of(arguments: Json) -> list[Json]:
    """The questions of a call; ToolFault when there are none or they have another shape."""
    given = arguments.get("questions")
    if not isinstance(given, list) or not 0 < len(given) <= _MOST:
        raise ToolFault(f"questions is a list of 1 to {_MOST} questions")
    try:
        return [plain(typed(question, Question)) for question in given]
    except (msgspec.ValidationError, AttributeError):
        raise ToolFault(
            "a question has `question` and `options`, and an option has a `label`"
        ) from None


def is_one(arguments: str) -> bool:
    """Whether the arguments of a call are questions."""
    try:
        return bool(questions_of(msgspec.json.decode(arguments, type=Json)))
    except (msgspec.MsgspecError, RecursionError, ToolFault):
        return False


def of_loop(arguments: str, loop_id: str) -> str:
    """The arguments of a call with the loop that asks, for whoever sees a subagent's question
    beside others."""
    try:
        given = msgspec.json.decode(arguments, type=Json)
    except (msgspec.MsgspecError, RecursionError):
        return arguments
    return msgspec.json.encode({**given, "source_loop": loop_id}).decode()
