"""Tells what a person typed from what Cline put into the same place: wrappers, results,
reminders."""

import re
from typing import NamedTuple

_WRAPPERS = ("task", "feedback", "answer", "user_message")
_PUT_IN = (
    "<environment_details>",
    "<explicit_instructions",
    "<hook_context",
    "<file_content",
    "<url_content",
    "# task_progress",
    "# TODO LIST",
    "# todo",
    "[ERROR]",
    "[NOTICE]",
    "[Note]",
    "[TASK RESUMPTION]",
    "[TASK ABANDONED]",
    "[Response interrupted",
    "Task resumption",
    "Note: ",
)
_RESULT = re.compile(r"\s*\[([A-Za-z_][\w.-]*)(?: for .*?)?\] Result:", re.DOTALL)
_REFUSED = re.compile(r"\s*Tool \[([A-Za-z_][\w.-]*)\] was not executed")
_WITH_WORDS = (
    "The user denied this operation and provided",
    "The user approved this operation and provided",
)
_ASKING = frozenset(
    "attempt_completion ask_followup_question plan_mode_respond act_mode_respond new_task condense".split()
)
_DENIED = "The user denied this operation"


class Outcome(NamedTuple):
    """A result that stands as text: of which tool, where its output begins, whether the tool
    ran."""

    tool: str
    start: int
    ran: bool = True


def outcome_of(text: str) -> Outcome | None:
    """What a text says of a tool; None when it is no result. The heading may quote a command of
    many lines."""
    if found := _RESULT.match(text):
        return Outcome(found[1], found.end())
    if found := _REFUSED.match(text):
        return Outcome(found[1], 0, ran=False)
    return None


def is_put_in(text: str) -> bool:
    """Whether the client wrote it on its own, with nothing of the person's in it."""
    return text.lstrip().startswith(_PUT_IN) and typed_in(text) is None


def typed_in(text: str) -> str | None:
    """What the person typed, out of the wrapper around it; None when there is no wrapper."""
    if text.lstrip().startswith("<environment_details>"):
        return None
    for name in _WRAPPERS:
        start = text.find(f"<{name}>")
        end = text.rfind(f"</{name}>")
        if 0 <= start < end:
            return text[start + len(name) + 2 : end].strip("\r\n")
    return None


def answered_in(text: str, outcome: Outcome) -> str | None:
    """What the person said in a result: an answer to a question, or a word to a tool they were
    asked about."""
    output = text[outcome.start :].lstrip()
    if outcome.tool in _ASKING or output.startswith(_WITH_WORDS):
        return typed_in(output)
    return None


def facts_of(text: str, outcome: Outcome) -> dict[str, bool]:
    """What a result tells beside its output."""
    if not outcome.ran:
        return {"not_executed": True}
    return {"rejected": True} if text[outcome.start :].lstrip().startswith(_DENIED) else {}
