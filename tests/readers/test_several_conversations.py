"""Files with several conversations: a golden case of each such format is listed and exported whole."""

import json
from pathlib import Path

import pytest

from conftest import KEY
from helpers.golden_cases import CASES, read_case
from helpers.restore_check import WHOLE, check_restore
from open_token.context import Context
from open_token.errors import MultipleConversationsError
from open_token.library.export_many import export_conversations, list_exports
from open_token.options import ExportOptions
from open_token.registry import (
    READERS,
    list_conversations,
    load_reader,
    require_one_conversation,
    select_conversation,
)
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.exported import ALL

HOLDING = [name for name in READERS if load_reader(name).definition.holds_several]


def opened(path: Path) -> Source:
    return Source.of_folder(path, path.name) if path.is_dir() else Source.of(path)


def sources(reader: str, made: Path) -> list[Path]:
    """The golden inputs of a reader that hold several."""
    found = []
    for case in (case for case in CASES if case.parent.name == reader):
        (made / case.name).mkdir()
        path, _ = read_case(case, made / case.name)
        if len(list_conversations(opened(path), reader)) > 1:
            found.append(path)
    return found


@pytest.mark.parametrize("reader", HOLDING)
def test_they_are_listed_chosen_and_exported(reader: str, tmp_path: Path) -> None:
    (path, *_) = sources(reader, tmp_path)
    source = opened(path)
    with pytest.raises(MultipleConversationsError) as caught:
        require_one_conversation(source, reader)
    names = [item.id for item in caught.value.found]
    assert len(set(names)) == len(names) > 1
    for number, name in enumerate(names, 1):
        assert select_conversation(source, reader, name).id == source.conversation == name
        assert (
            str(number) in names or select_conversation(source, reader, str(number)).id == name
        )  # an id comes before a number
    exported = export_conversations(
        source, reader, tmp_path / "out", Context(ExportOptions.of(ALL), key=KEY)
    )
    assert exported.failures == []
    receipts = exported.receipts
    index = json.loads((tmp_path / "out" / "index.json").read_bytes())
    assert [entry.get("source_id", entry["id"]) for entry in index["conversations"]] == names
    documents = [json.loads(file.read_bytes()) for file in list_exports(tmp_path / "out")]
    assert len(documents) == len(receipts)
    assert [len(document["events"]) for document in documents] == [
        receipt.events for receipt in receipts
    ]
    for document in documents:
        assert [problem for problem in validate(document) if problem.severity == "error"] == []


@pytest.mark.parametrize("reader", HOLDING)
def test_together_they_give_the_source_back(reader: str, tmp_path: Path) -> None:
    (path, *_) = sources(reader, tmp_path)
    made = tmp_path / "made"
    made.mkdir()
    _, wrong = check_restore(opened(path), reader, Context(ExportOptions.of(WHOLE), key=KEY), made)
    assert wrong == []
