"""`open-token schema`: the schema itself, on stdout alone."""

import json

import pytest

from open_token.cli import main
from open_token.schema import document_schema, record_schema


@pytest.mark.parametrize(
    ("words", "schema"),
    [([], document_schema()), (["document"], document_schema()), (["record"], record_schema())],
)
def test_it_prints_the_schema(
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
