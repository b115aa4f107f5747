"""`open-token server migrate`, as the verb calls it."""

import json
from pathlib import Path

import pytest

from helpers.server.local_services import free_port
from helpers.server.stores import ANNA, create_session, new_postgres, open_store
from open_token.cli.server import migrate_data
from open_token.cli.shared.console import Console
from open_token.errors import StoreError, UsageError


@pytest.mark.parametrize("words", [[], ["to"], ["from", "x"], ["to", "a", "b"], ["up", "x"]])
def test_too_few_words_are_a_usage_error(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(UsageError):
        migrate_data(words, tmp_path, Console({}))


def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    open_store(tmp_path / "data").close()
    with pytest.raises(StoreError) as caught:
        migrate_data(
            ["to", f"postgresql://u:secret@127.0.0.1:{free_port()}/x"],
            tmp_path / "data",
            Console({}),
        )
    assert (caught.value.code, "secret" in str(caught.value)) == ("store.away", False)


@pytest.mark.full
def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(tmp_path / "data")
    create_session(store)
    store.close()
    url = new_postgres()
    assert migrate_data(["to", url], tmp_path / "data", Console({})) == 0
    out, err = capsys.readouterr()
    assert "sessions\t1\t" in out
    assert "every node needs it" in err
    assert (
        migrate_data(
            ["from", url, str(tmp_path / "new")], tmp_path / "data", Console({}), is_json=True
        )
        == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert result["rows"]["users"] == 2
    store = open_store(tmp_path / "new")
    assert store.session(ANNA, "sess_1") is not None
    store.close()
