"""Cline and its forks (Roo Code, Kilo Code): a task's folder, with what the API got and what the panel showed."""

import re
from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.readers._cline_shapes import API, UI, is_api, is_metadata, is_ui, of_folder
from open_token.source import Source

TITLE = "Cline, Roo Code, Kilo Code"
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
_HOSTS = (".config/*", "Library/Application Support/*", "AppData/Roaming/*", ".*-server*/data")
PLACES = (
    "$CLINE_DIR/data/tasks/*/api_conversation_history.json",
    ".cline/data/tasks/*/api_conversation_history.json",
    *(f"{host}/User/globalStorage/{name}/tasks/*/{API}" for host in _HOSTS for name in _EXTENSIONS),
)
PARTS = (UI, "task_metadata.json", "history_item.json", "context_history.json")
SEEN = "described, not seen in full; Cline up to 3.51, with tool calls as blocks and as text"
CARRIES = (
    "Talk, thoughts, tool calls with the results that stand as text behind them, what the client put in, errors of the"
    " panel, model and mode, usage and cost, times."
)
LEAVES = "Files in context, checkpoints and the panel's own view of what the API got, all only with native=full."

_FOLDER = re.compile(r"# Current (?:Working|Workspace) Directory \((.+?)\) Files")


def sniff(source: Source) -> bool:
    """The messages of the API or of the panel, the facts beside them, or the folder of all."""
    if source.shape == "folder":
        return any(is_api(file) or is_ui(file) for file in of_folder(source))
    return is_api(source) or is_ui(source) or is_metadata(source)


def peek(records: list[Any]) -> dict[str, str]:
    """What the messages tell of a task: the folder it was held in, the first words typed."""
    told: dict[str, str] = {}
    first = records[0] if records and isinstance(records[0], dict) else {}
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


def _text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def read(source: Source, draft: Draft) -> None:
    """Tell the task; what that takes is loaded only now."""
    import_module("open_token.readers._cline_task").Task(source, draft).read()
