"""The page of protocol coverage is true: what it names exists; no route, event, type, field or
value is left out."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import pytest

from coverage_pages import CHECKED, ROOT, ascend, exists, is_test, page, quoted
from open_token.model import session_types
from rest import Rest
from sockets import EVENTS

PAGE = page("protocol")
TYPES = ROOT.parent / "shared" / "spec" / "core-types.zh.md"
ROUTE = re.compile(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`")
FIELD = re.compile(r"^([A-Za-z_0-9]+) \| ", re.MULTILINE)
SAID = ("session:subscribe", "session:unsubscribe", "chat:send", "chat:stop", "chat:compact")


class Row(NamedTuple):
    """One thing that the protocol asks for."""

    number: str
    what: str
    places: list[str]
    tests: list[str]


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| P"):
            number, what, places, tests, *checked = line.strip("| ").split(" | ")
            assert set(checked) <= set(CHECKED)
            yield Row(number, what, quoted(places), quoted(tests))


ROWS = list(rows())
TOLD = "\n".join(row.what for row in ROWS)


def named(what: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", what))


def test_numbers_are_unique_and_ascend() -> None:
    assert len(ROWS) > 100
    assert ascend([row.number for row in ROWS], "P")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_is_there(row: Row) -> None:
    assert row.places
    assert [place for place in row.places if not exists(place)] == []
    assert row.tests
    assert [test for test in row.tests if not is_test(test)] == []


def test_every_route_is_walked(tmp_path: Any) -> None:
    rest = Rest(tmp_path / "data")
    paths = rest.get("/openapi.json", key=None)["paths"]
    rest.close()
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(ROUTE.findall(TOLD)) == {re.sub(r":path}", "}", route) for route in served}


def test_every_event_is_walked() -> None:
    assert [name for name in (*SAID, *EVENTS) if name not in named(TOLD)] == []


def types() -> list[type[msgspec.Struct]]:
    found = vars(session_types).values()
    kinds = [
        kind
        for kind in found
        if isinstance(kind, type) and issubclass(kind, session_types.OpenStruct)
    ]
    return [kind for kind in kinds if kind is not session_types.OpenStruct]


@pytest.mark.parametrize("kind", types(), ids=lambda kind: kind.__name__)
def test_every_field_of_every_type_is_walked(kind: type[msgspec.Struct]) -> None:
    (what,) = [row.what for row in ROWS if row.what.startswith(f"{kind.__name__}: ")]
    assert named(what) == {
        field.encode_name for field in msgspec.structs.fields(kind) if field.name != "more"
    }


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, value in vars(session_types).items()
        if get_origin(value) is not None and get_args(value)
    ],
)
def test_every_value_of_every_enumeration_is_walked(name: str) -> None:
    values = get_args(getattr(session_types, name))
    if not all(isinstance(value, str) for value in values):
        return
    (what,) = [row.what for row in ROWS if row.what.startswith(f"{name}: ")]
    assert named(what) == set(values)


def test_every_field_that_the_types_name_is_walked() -> None:
    if not TYPES.is_file():
        pytest.skip("the core types are not beside this checkout")
    fields = set(FIELD.findall(TYPES.read_text(encoding="utf-8")))
    assert len(fields) > 50
    assert fields - named(TOLD) == set()
