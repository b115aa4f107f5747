"""Function calls and responses as the agents of the Gemini family store them.

A function response of theirs wraps a single output or a single error.
"""

from typing import Any

from open_token.formats.shared import gemini_contents
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.gemini_contents import get_either_case
from open_token.model.document import Usage


def get_function_response(part: Any) -> JsonObject | None:
    """Return the function response in a part; None if there is none."""
    response = part.get("functionResponse") if type(part) is dict else None
    return response if type(response) is dict else None


def get_function_call(part: Any) -> JsonObject | None:
    """Return the function call in a part; None if there is none."""
    call = part.get("functionCall") if type(part) is dict else None
    return call if type(call) is dict else None


def list_content_parts(content: Any) -> list[JsonObject]:
    """Return the parts of a content, which may be a text, one part, or a list of both."""
    if isinstance(content, dict) and "parts" not in content:
        content = [content]
    return gemini_contents.list_parts(content)


def select_message_parts(parts: list[JsonObject]) -> list[JsonObject]:
    """Return the parts that are neither a call nor a response nor reasoning."""
    return [
        part
        for part in parts
        if not get_function_response(part)
        and not get_function_call(part)
        and part.get("thought") is not True
    ]


def unwrap_output(response: JsonObject, media_parts: list[JsonObject]) -> tuple[Any, bool]:
    """Return the output in a function response, and whether it is an error.

    Media inside the response or next to it follow the output as blocks.
    """
    output = response.get("response")
    is_error = False
    if isinstance(output, dict) and len(output) == 1:
        is_error = "error" in output
        if is_error or "output" in output:
            output = next(iter(output.values()))
    media_parts = list_content_parts(response.get("parts")) + media_parts
    if not media_parts:
        return "" if output is None else output, is_error
    if output in (None, ""):
        return gemini_contents.build_content(media_parts), is_error
    if isinstance(output, str):
        first = {"text": output}
    else:
        first = output if isinstance(output, dict) else {"output": output}
    return gemini_contents.build_content([first, *media_parts]), is_error


def parse_usage(value: Any) -> Usage | None:
    """Return token counts.

    If the total is the sum of prompt and answer, the answer includes the reasoning already.
    """
    usage = gemini_contents.parse_usage(value)
    if not usage or not isinstance(value, dict):
        return usage
    output = get_either_case(value, "candidatesTokenCount")
    reasoning = usage.get("reasoning_tokens")
    if not reasoning or type(output) is not int or reasoning > output:
        return usage
    if get_either_case(value, "totalTokenCount") == usage.get("input_tokens", 0) + output:
        usage["output_tokens"] = output
    return usage


def build_result_facts(status: Any, is_error: bool) -> JsonObject | None:
    """Return what is known about a result: that it failed, or its unusual status."""
    facts: JsonObject = {"is_error": True} if is_error or status == "error" else {}
    name = as_text(status)
    if name and name not in ("success", "completed"):
        facts["status"] = name
    return facts or None
