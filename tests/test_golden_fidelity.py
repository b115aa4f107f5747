"""Fidelity of every golden input and of the corpus is at least 99 % of what was said."""

from pathlib import Path

import pytest

from helpers.golden_cases import CASES, read_case
from open_token.native.fidelity import ExportObserver, measure_fidelity
from open_token.registry import detect_format
from open_token.sources.source import Source
from test_corpus import EVERYTHING, each, exported, files, name, opened

FLOOR = 99.0
KNOWN = {
    "claude_code/half_last_line": "a line that is cut off, which a note counts",
    "claude_code/slash_commands": "a reminder that repeats what a person sent in the meantime",
    "cline/session": "the path of a file",
    "cursor/chats_before_composers": "the name of a table's row",
    "hermes/database": "the mark before a content that is not a text",
    "http_recording/har": "addresses of requests",
    "native_minimal/gemini/resume_request.json": "the address of a request",
    "openhands/model_log_as_text": "the messages once more, as text for a model without function calling, which a note counts",
    "open_webui/details": "tags around reasoning and calls, which are exported as such",
    "qwen_code/019f0000-0000-7000-8000-000000000004.jsonl": "the label of a file, which a note counts",
    "qwen_code/commands": "an answer that the client makes up, which a note counts",
    "swe_agent/demonstration_yaml": "comments in the file",
    "swe_agent/mini": "output that the model was not shown, which a note counts",
    "vscode_copilot/log": "the address of a folder, which is exported as its path",
    "vscode_copilot/log_all": "the same",
}
"""What may be below, each with the reason. An entry that is no longer needed fails: delete it."""


def check(source: Source, reader: str, label: str) -> None:
    witness = ExportObserver()
    for _ in each(source, reader):
        exported(source, reader, witness, mode="ndjson", **EVERYTHING)
    source.conversation = None
    percent = measure_fidelity(source, reader, witness, []).percent
    assert (percent < FLOOR) == (label in KNOWN), f"{percent:.2f} %"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden_inputs_keep_what_was_said(case: Path, tmp_path: Path) -> None:
    path, _ = read_case(case, tmp_path)
    source = Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)
    check(source, case.parent.name, f"{case.parent.name}/{case.name}")


@pytest.mark.parametrize("path", files(), ids=name)
def test_real_conversations_keep_what_was_said(path: Path) -> None:
    source = opened(path)
    check(source, detect_format(source), name(path))
