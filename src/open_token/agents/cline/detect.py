"""Cline and its forks (Roo Code, Kilo Code): a task, with what the API got and the panel showed, or
a session."""

import re
from typing import Any

from open_token.agents.cline.shapes import (
    SESSION,
    is_api,
    is_metadata,
    is_session,
    is_ui,
    of_folder,
)
from open_token.sources.source import Source

_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
_HOSTS = (".config/*", "Library/Application Support/*", "AppData/Roaming/*", ".*-server*/data")

_INPUT = re.compile(r"</?user_input[^>]*>")
_FOLDER = re.compile(r"# Current (?:Working|Workspace) Directory \((.+?)\) Files")


def sniff(source: Source) -> bool:
    """The messages of the API or of the panel, the facts beside them, or the folder of all."""
    if source.shape == "folder":
        files = of_folder(source) or source.find_files(SESSION)[:3]
        return any(is_api(file) or is_ui(file) or is_session(file) for file in files)
    return is_api(source) or is_ui(source) or is_metadata(source) or is_session(source)


def peek(records: list[Any]) -> dict[str, str]:
    """What the messages tell of a task: the folder it was held in, the first words typed."""
    told: dict[str, str] = {}
    first = records[0] if records and isinstance(records[0], dict) else {}
    if "sessionId" in first or "session_id" in first:
        return _session(first)
    content = first.get("content", first.get("text"))
    if not isinstance(content, list):
        content = [{"text": content}]
    texts = [_text(block) for block in content]
    for text in texts:
        if found := _FOLDER.search(text):
            told["cwd"] = found[1]
    if texts and (words := texts[0].strip().removeprefix("<task>").partition("</task>")[0].strip()):
        told["title"] = words[:400]
    return told


def _session(about: dict[str, Any]) -> dict[str, str]:
    """What the messages of a session tell of it, or the facts beside them."""
    metadata, messages = about.get("metadata"), about.get("messages")
    found = {
        "id": about.get("sessionId", about.get("session_id")),
        "cwd": about.get("cwd"),
        "title": about.get("prompt"),
    }
    if isinstance(metadata, dict) and metadata.get("title"):
        found["title"] = metadata["title"]
    if isinstance(messages, list) and messages and isinstance(messages[0], dict):
        content = messages[0].get("content")
        words = _text(content[0]) if isinstance(content, list) and content else content
        found["title"] = _INPUT.sub("", words) if isinstance(words, str) else None
    return {name: value[:400] for name, value in found.items() if isinstance(value, str) and value}


def companion_file(name: str) -> str | None:
    """The file that tells more of a session, by the name of that of its messages."""
    return (
        name.removesuffix(".messages.json") + ".json" if name.endswith(".messages.json") else None
    )


def _text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""
