"""`open-token schema`: the schema itself, on stdout alone."""

import json

import pytest

from open_token.cli import main
from open_token.model.json_schema import build_document_schema, build_record_schema


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ([], build_document_schema()),
        (["document"], build_document_schema()),
        (["record"], build_record_schema()),
    ],
)
def test_schema_is_printed(
    words: list[str], schema: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *words]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == schema
    assert err == ""
    assert "2020-12" in out


def test_another_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "all"]) == 2
    assert "document" in capsys.readouterr().err
