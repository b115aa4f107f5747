"""AskUserQuestion: ask the user; the loop stops there, and the answer resumes it."""

from typing import Any

import msgspec

from open_token.model.session_types import Question, from_builtins, to_builtins
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError

NAME = "AskUserQuestion"
_MAX_QUESTIONS = 10
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
    """A tool for the model that the loop itself executes."""

    spec = ToolSpec(
        name=NAME,
        description="Ask the person when you cannot go on without their choice. "
        "They may also answer in other words.",
        parameters={
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "items": _QUESTION,
                    "minItems": 1,
                    "maxItems": _MAX_QUESTIONS,
                }
            },
            "required": ["questions"],
        },
        display_name="Question",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Never called: a question stops the loop."""
        raise ToolError("questions cannot be asked here")


def parse_questions(arguments: Json) -> list[Json]:
    """Parse the questions of a call; raise ToolError when there are none or they are invalid."""
    questions = arguments.get("questions")
    if not isinstance(questions, list) or not 0 < len(questions) <= _MAX_QUESTIONS:
        raise ToolError(f"questions must be a list of 1 to {_MAX_QUESTIONS} questions")
    try:
        return [to_builtins(from_builtins(question, Question)) for question in questions]
    except (msgspec.ValidationError, AttributeError):
        raise ToolError(
            "a question needs `question` and `options`, and an option needs a `label`"
        ) from None


def is_valid_question(arguments: str) -> bool:
    """Return whether the arguments of a call are valid questions."""
    try:
        return bool(parse_questions(msgspec.json.decode(arguments, type=Json)))
    except (msgspec.MsgspecError, RecursionError, ToolError):
        return False


def add_source_loop(arguments: str, loop_id: str) -> str:
    """Return the arguments with the loop that asks, to tell questions of subagents apart."""
    try:
        values = msgspec.json.decode(arguments, type=Json)
    except (msgspec.MsgspecError, RecursionError):
        return arguments
    return msgspec.json.encode({**values, "source_loop": loop_id}).decode()
