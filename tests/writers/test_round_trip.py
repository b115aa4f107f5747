"""Round trips: exchange formats, read again, have the same messages and calls."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from helpers.conversation_summary import count_usage, export_source, read_again, summarize
from helpers.golden_cases import CASES, read_case
from helpers.random_conversations import conversations
from open_token.errors import InputError
from open_token.registry import detect_format
from open_token.sources.source import Source
from open_token.writers import EXCHANGE_FORMATS
from test_corpus import each, files, name, opened

EVERYTHING = {
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "redact": "none",
}
SAMPLE = 6


def check(source: Source, to: str, folder: Path, **words: Any) -> bool:
    """Write, read again and compare; False when nobody says anything in it."""
    try:
        whole = json.loads(export_source(source, **words)[0])
        data, receipt = export_source(source, to, **words)
    except InputError as problem:
        if problem.code not in ("input.no-events", "input.no-messages"):
            raise
        return False
    assert receipt.bytes == len(data)
    assert export_source(source, to, **words)[0] == data
    back = read_again(data, folder, **EVERYTHING)
    assert summarize(back, to) == summarize(whole, to)
    assert count_usage(back) == count_usage(whole)
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden_case_comes_back(case: Path, tmp_path: Path) -> None:
    path, words = read_case(case, tmp_path)
    source = Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)
    source.conversation = words.pop("conversation", None)
    for to in EXCHANGE_FORMATS:
        check(source, to, tmp_path, **EVERYTHING)


def corpus_file_comes_back(path: Path, folder: Path) -> None:
    source = opened(path)
    chosen = list(each(source, detect_format(source)))
    for source.conversation in chosen[:: max(1, len(chosen) // SAMPLE)]:
        for to in EXCHANGE_FORMATS:
            check(source, to, folder, **EVERYTHING)


@pytest.mark.full
@pytest.mark.parametrize("path", files(), ids=name)
def test_every_real_conversation_comes_back(path: Path, tmp_path: Path) -> None:
    corpus_file_comes_back(path, tmp_path)


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
@given(session=conversations())
def test_random_conversation_comes_back(
    to: str, session: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("session")
    (folder / "session.json").write_text(json.dumps(session))
    check(Source.of(folder / "session.json"), to, folder, **EVERYTHING)
