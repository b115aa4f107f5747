"""Every rule of both specifications is shown by a test, and the coverage pages say by which."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from helpers.server.rest_server import RestServer
from helpers.server.socket_server import EVENTS
from helpers.spec_rules import (
    CORE_TYPES,
    EXPORT_FORMAT,
    find_marked_tests,
    load_rules,
    load_sections,
    render_page,
)
from open_token.cli.validate import CHECKS
from open_token.model import session_types

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
SPECIFICATIONS = ROOT.parent / "shared" / "spec"
EXPORT_INTRODUCTION = """# Specification coverage

Every rule of the Open-Token v0.1 specification with the [checks](checks.md) of `open-token validate` that report a
violation and the tests that show it. A dash means that no check of a finished file can see a violation: nobody can tell
from an export what its source said.

This page is generated (`make accept`) from `tests/spec/export_format.toml` and from the marks on tests,
`@pytest.mark.spec("<id>")`.
"""
PROTOCOL_INTRODUCTION = """# Protocol coverage

Every route, live event, type and value of the [session server](server.md) with the tests that show it.

This page is generated (`make accept`) from `tests/spec/core_types.toml` and from the marks on tests,
`@pytest.mark.spec("<id>")`.
"""
RULES = load_rules(EXPORT_FORMAT) + load_rules(CORE_TYPES)
PROTOCOL_TEXT = "\n".join(rule.text for rule in load_rules(CORE_TYPES))
ROUTE = re.compile(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`")
FIELD = re.compile(r"^([A-Za-z_0-9]+) \| ", re.MULTILINE)
CLIENT_EVENTS = (
    "session:subscribe",
    "session:unsubscribe",
    "chat:send",
    "chat:stop",
    "chat:compact",
)


def find_quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_the_pages_are_up_to_date(golden: Callable[[Path, str | bytes], None]) -> None:
    golden(
        REFERENCE / "spec-coverage.md",
        render_page(EXPORT_FORMAT, EXPORT_INTRODUCTION, has_checks=True),
    )
    golden(
        REFERENCE / "protocol-coverage.md",
        render_page(CORE_TYPES, PROTOCOL_INTRODUCTION, has_checks=False),
    )


def test_every_rule_is_shown_by_a_test() -> None:
    assert [rule.id for rule in RULES if rule.id not in find_marked_tests()] == []


def test_every_mark_names_a_rule() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert set(find_marked_tests()) - set(ids) == set()


def test_every_check_exists() -> None:
    assert {check for rule in RULES for check in rule.checks} - set(CHECKS) == set()


def test_every_section_of_the_specification_has_its_rules() -> None:
    path = SPECIFICATIONS / "open-token-0.1.md"
    if not path.is_file():
        pytest.skip("the specification is not beside this checkout")
    headings = re.findall(r"^##+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert [section.title for section in load_sections(EXPORT_FORMAT)] == headings


def test_every_route_is_covered(tmp_path: Path) -> None:
    rest = RestServer(tmp_path / "data")
    paths = rest.get("/openapi.json", key=None)["paths"]
    rest.close()
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(ROUTE.findall(PROTOCOL_TEXT)) == {route.replace(":path}", "}") for route in served}


def test_every_live_event_is_covered() -> None:
    assert set(CLIENT_EVENTS) | set(EVENTS) <= find_quoted(PROTOCOL_TEXT)


def find_types() -> list[type[msgspec.Struct]]:
    values = vars(session_types).values()
    structs = [
        value
        for value in values
        if isinstance(value, type) and issubclass(value, session_types.OpenStruct)
    ]
    return [struct for struct in structs if struct is not session_types.OpenStruct]


def find_enumerations() -> dict[str, tuple[Any, ...]]:
    found = {}
    for name, value in vars(session_types).items():
        values = get_args(value) if get_origin(value) is not None else ()
        if values and all(isinstance(item, str) for item in values):
            found[name] = values
    return found


@pytest.mark.parametrize("struct", find_types(), ids=lambda struct: struct.__name__)
def test_every_field_of_every_type_is_covered(struct: type[msgspec.Struct]) -> None:
    (text,) = [rule.text for rule in RULES if rule.text.startswith(f"{struct.__name__}: ")]
    fields = msgspec.structs.fields(struct)
    assert find_quoted(text) == {field.encode_name for field in fields if field.name != "more"}


@pytest.mark.parametrize("name", find_enumerations())
def test_every_value_of_every_enumeration_is_covered(name: str) -> None:
    (text,) = [rule.text for rule in RULES if rule.text.startswith(f"{name}: ")]
    assert find_quoted(text) == set(find_enumerations()[name])


def test_every_field_that_the_core_types_name_is_covered() -> None:
    path = SPECIFICATIONS / "core-types.zh.md"
    if not path.is_file():
        pytest.skip("the core types are not beside this checkout")
    fields = set(FIELD.findall(path.read_text(encoding="utf-8")))
    assert len(fields) > 50
    assert fields - find_quoted(PROTOCOL_TEXT) == set()
