"""What a tool gave back in the Gemini family of runtimes: a function response that wraps one output
or one error."""

from typing import Any

from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.responses_content import word
from open_token.model.document import Usage

Body = dict[str, Any]


def answer_in(part: Any) -> Body | None:
    """The function response that a part is; None when it is none."""
    found = part.get("functionResponse") if type(part) is dict else None
    return found if type(found) is dict else None


def call_in(part: Any) -> Body | None:
    """The function call that a part is; None when it is none."""
    found = part.get("functionCall") if type(part) is dict else None
    return found if type(found) is dict else None


def parts_in(content: Any) -> list[Body]:
    """The parts of a content, which may be a text, one part, or a list of both."""
    return wire.parts(
        [content] if isinstance(content, dict) and "parts" not in content else content
    )


def said_in(parts: list[Body]) -> list[Body]:
    """The parts that are said: neither a call nor a response nor a thought."""
    return [
        part
        for part in parts
        if not (answer_in(part) or call_in(part) or part.get("thought") is True)
    ]


def output_of(answer: Body, others: list[Body]) -> tuple[Any, bool]:
    """The output alone, and whether it is an error; parts beside or inside the response (images)
    follow as blocks."""
    response, failed = answer.get("response"), False
    if isinstance(response, dict) and len(response) == 1:
        failed = "error" in response
        response = next(iter(response.values())) if failed or "output" in response else response
    others = parts_in(answer.get("parts")) + others
    if others:
        first = response if isinstance(response, dict) else {"output": response}
        if isinstance(response, str):
            first = {"text": response}
        return wire.prompt([first, *others] if response not in (None, "") else others), failed
    return "" if response is None else response, failed


def usage_of(value: Any) -> Usage | None:
    """Token counts; a total that is prompt and answer alone tells that the answer counts the
    thoughts already."""
    made = wire.usage(value)
    if not made or not isinstance(value, dict):
        return made
    answer, thoughts = wire.either(value, "candidatesTokenCount"), made.get("reasoning_tokens")
    if not thoughts or type(answer) is not int or thoughts > answer:
        return made
    if wire.either(value, "totalTokenCount") == made.get("input_tokens", 0) + answer:
        made["output_tokens"] = answer
    return made


def facts_of(status: Any, failed: bool) -> Body | None:
    """What is known of a result beside its output: that it failed, or that it was cancelled."""
    facts: Body = {"is_error": True} if failed or status == "error" else {}
    if (named := word(status)) and named not in ("success", "completed"):
        facts["status"] = named
    return facts or None
