"""Errors speak in three parts."""

from open_token.errors import InputError, OpenTokenError, OutputError, SizeLimitError, UsageError


def test_three_parts() -> None:
    error = InputError("this line is not JSON", where="session.jsonl:17:3", help="correct it")
    assert str(error) == "error: this line is not JSON\n  --> session.jsonl:17:3\nhelp: correct it"


def test_parts_may_be_absent() -> None:
    assert str(OpenTokenError("no")) == "error: no"


def test_each_kind_has_its_exit_code() -> None:
    assert [kind("x").exit_code for kind in (UsageError, InputError, OutputError)] == [2, 3, 3]
    assert SizeLimitError("x", smallest=7).smallest == 7


def test_a_code_can_be_narrower() -> None:
    assert InputError("x", code="input.utf8").code == "input.utf8"
    assert InputError("x").code == "input"
