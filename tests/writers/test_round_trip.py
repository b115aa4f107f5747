"""Round trips: exchange formats, read again, have the same messages and calls."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from conftest import CORPUS
from golden_cases import CASES, read_case
from open_token.errors import InputError
from open_token.registry import detect_format
from open_token.sources.source import Source
from open_token.writers import EXCHANGE_FORMATS
from random_talks import talks
from test_corpus import each, files, name, opened
from told_again import again, exported, spent, told

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
        whole = json.loads(exported(source, **words)[0])
        data, receipt = exported(source, to, **words)
    except InputError as problem:
        if problem.code not in ("input.no-events", "input.no-talk"):
            raise
        return False
    assert receipt.bytes == len(data)
    assert exported(source, to, **words)[0] == data
    back = again(data, folder, **EVERYTHING)
    assert told(back, to) == told(whole, to)
    assert spent(back) == spent(whole)
    return True


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden_case_comes_back(case: Path, to: str, tmp_path: Path) -> None:
    path, words = read_case(case, tmp_path)
    source = Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)
    source.conversation = words.pop("conversation", None)
    check(source, to, tmp_path, **EVERYTHING)


def corpus_file_comes_back(path: Path, folder: Path) -> None:
    source = opened(path)
    chosen = list(each(source, detect_format(source)))
    for source.conversation in chosen[:: max(1, len(chosen) // SAMPLE)]:
        for to in EXCHANGE_FORMATS:
            check(source, to, folder, **EVERYTHING)


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in CORPUS.glob("*") if path.is_dir()) or [None]
)
def test_small_real_conversation_of_each_kind_comes_back(
    folder: str | None, corpus: Path, tmp_path: Path
) -> None:
    found = [
        path for path in files() if path.is_file() and path.relative_to(corpus).parts[0] == folder
    ]
    small = [
        path
        for size, path in sorted((path.stat().st_size, path) for path in found)
        if 2_000 < size < 120_000
    ]
    if not small:
        pytest.skip("no small conversation of that kind")
    corpus_file_comes_back(small[-1], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("path", files(), ids=name)
def test_every_real_conversation_comes_back(path: Path, tmp_path: Path) -> None:
    corpus_file_comes_back(path, tmp_path)


@pytest.mark.parametrize("to", EXCHANGE_FORMATS)
@given(talk=talks())
def test_random_conversation_comes_back(
    to: str, talk: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("talk")
    (folder / "talk.json").write_text(json.dumps(talk))
    check(Source.of(folder / "talk.json"), to, folder, **EVERYTHING)
