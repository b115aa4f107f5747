"""Recognize the files of Cline's tasks and sessions, as opposed to plain API messages."""

import re
from typing import Any

from open_token.formats.shared.api_detection import is_cline_task
from open_token.sources.source import Source

API_FILE = "api_conversation_history.json"
UI_FILE = "ui_messages.json"
SESSION_FILES = "*.messages.json"

_MESSAGE_FIELDS = (
    "modelInfo",
    "metrics",
    "isSummary",
    "condenseParent",
    "condenseId",
    "truncationParent",
)
"""Fields that Cline and its forks add to the messages of the API."""
_SAMPLE_SIZE = 64
_MAX_TITLE = 400
_USER_INPUT_TAG = re.compile(r"</?user_input[^>]*>")
_WORKING_DIRECTORY = re.compile(r"# Current (?:Working|Workspace) Directory \((.+?)\) Files")


def sniff(source: Source) -> bool:
    """Return whether the source is a file of a task or a session, or the folder of one."""
    if source.shape == "folder":
        files = list_task_files(source) or source.find_files(SESSION_FILES)[:3]
        return any(is_api_file(file) or is_ui_file(file) or is_session_file(file) for file in files)
    return (
        is_api_file(source)
        or is_ui_file(source)
        or is_metadata_file(source)
        or is_session_file(source)
    )


def peek(records: list[Any]) -> dict[str, str]:
    """Return the directory and the first prompt of a task, or the header of a session."""
    first = records[0] if records and isinstance(records[0], dict) else {}
    if "sessionId" in first or "session_id" in first:
        return _peek_session(first)
    content = first.get("content", first.get("text"))
    if not isinstance(content, list):
        content = [{"text": content}]
    facts: dict[str, str] = {}
    texts = [_get_text(block) for block in content]
    for text in texts:
        match = _WORKING_DIRECTORY.search(text)
        if match:
            facts["cwd"] = match[1]
    if texts:
        # The first text is the task in its tag.
        title = texts[0].strip().removeprefix("<task>").partition("</task>")[0].strip()
        if title:
            facts["title"] = title[:_MAX_TITLE]
    return facts


def _peek_session(header: dict[str, Any]) -> dict[str, str]:
    """Return the facts in the messages of a session, or in its manifest."""
    facts = {
        "id": header.get("sessionId", header.get("session_id")),
        "cwd": header.get("cwd"),
        "title": header.get("prompt"),
    }
    metadata = header.get("metadata")
    if isinstance(metadata, dict) and metadata.get("title"):
        facts["title"] = metadata["title"]
    messages = header.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[0], dict):
        prompt = messages[0].get("content")
        if isinstance(prompt, list) and prompt:
            prompt = _get_text(prompt[0])
        facts["title"] = _USER_INPUT_TAG.sub("", prompt) if isinstance(prompt, str) else None
    return {
        name: value[:_MAX_TITLE]
        for name, value in facts.items()
        if isinstance(value, str) and value
    }


def companion_file(name: str) -> str | None:
    """Return the name of the manifest of a session, by the name of its messages."""
    if not name.endswith(".messages.json"):
        return None
    return name.removesuffix(".messages.json") + ".json"


def _get_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def is_api_file(source: Source) -> bool:
    """Return whether the source holds API messages with traces of Cline.

    These are the tags around prompts, injected context, or fields that are not part of the API.
    """
    messages = _get_items(source)
    if not messages:
        return False
    if not all(isinstance(item.get("role"), str) and "content" in item for item in messages):
        return False
    if is_cline_task(messages):
        return True
    # Messages with ids are complete responses of an API.
    if any("id" in item for item in messages):
        return False
    return any(name in item for item in messages for name in _MESSAGE_FIELDS)


def is_ui_file(source: Source) -> bool:
    """Return whether the source holds items of the panel."""
    items = _get_items(source)
    return bool(items) and all(_is_panel_item(item) for item in items)


def _is_panel_item(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    if kind not in ("ask", "say"):
        return False
    return isinstance(item.get(kind), str) and type(item.get("ts")) in (int, float)


def is_metadata_file(source: Source) -> bool:
    """Return whether the source is the metadata file of a task."""
    value = _get_single_value(source)
    if not isinstance(value, dict):
        return False
    files = value.get("files_in_context")
    return isinstance(files, list) and isinstance(value.get("model_usage"), list)


def is_session_file(source: Source) -> bool:
    """Return whether the source holds the messages of a session, or of a subagent in it.

    The command line writes these files since version 3.
    """
    value = _get_single_value(source)
    if not isinstance(value, dict):
        return False
    if not isinstance(value.get("sessionId"), str) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("origin"), dict) or isinstance(value.get("agent"), str)


def list_task_files(source: Source) -> list[Source]:
    """List the files with messages in the folder of a task."""
    return source.find_files(API_FILE) + source.find_files(UI_FILE)


def _get_single_value(source: Source) -> Any:
    if source.shape not in ("document", "lines") or len(source.sample) != 1:
        return None
    return source.sample[0]


def _get_items(source: Source) -> list[dict[str, Any]]:
    """Return the first items of a list if all of them are objects."""
    if source.shape != "document" or not isinstance(source.sample[0], list):
        return []
    items = source.sample[0][:_SAMPLE_SIZE]
    return items if all(isinstance(item, dict) for item in items) else []
