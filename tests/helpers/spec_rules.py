"""The rules of both specifications, and the tests that are marked with them.

A test says which rules it shows: `@pytest.mark.spec("tool-pairing", ...)`. The coverage pages are
generated from these marks.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent.parent
EXPORT_FORMAT = TESTS / "spec" / "export_format.toml"
CORE_TYPES = TESTS / "spec" / "core_types.toml"


class Rule(NamedTuple):
    """One thing that a specification asks for."""

    id: str
    text: str
    checks: list[str]


class Section(NamedTuple):
    """The rules below one heading of a specification."""

    title: str
    level: int
    rules: list[Rule]


def load_sections(path: Path) -> list[Section]:
    """Return the sections of a specification in order."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    sections = []
    for section in data["section"]:
        rules = [
            Rule(rule["id"], rule["text"], rule.get("checks", []))
            for rule in section.get("rule", [])
        ]
        sections.append(Section(section["title"], section["level"], rules))
    return sections


def load_rules(path: Path) -> list[Rule]:
    """Return all rules of a specification in order."""
    return [rule for section in load_sections(path) for rule in section.rules]


@cache
def find_marked_tests() -> dict[str, list[str]]:
    """Return the tests of each rule, as `path::name`, in order of path."""
    marked: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.is_relative_to(TESTS / "golden"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, rule in _find_marks(tree):
            marked.setdefault(rule, []).append(f"{path.relative_to(TESTS.parent)}::{name}")
    return marked


def _find_marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            if ast.unparse(decorator.func) == "pytest.mark.spec":
                yield from ((node.name, ast.literal_eval(word)) for word in decorator.args)


def render_page(path: Path, introduction: str, *, has_checks: bool) -> str:
    """Return the coverage page of a specification."""
    lines = [introduction]
    for section in load_sections(path):
        lines += [f"{'#' * section.level} {section.title}", ""]
        if not section.rules:
            continue
        lines += _render_table(section.rules, has_checks)
    return "\n".join(lines)


def _render_table(rules: list[Rule], has_checks: bool) -> list[str]:
    if has_checks:
        lines = ["| rule | id | checks | tests |", "|---|---|---|---|"]
    else:
        lines = ["| rule | id | tests |", "|---|---|---|"]
    for rule in rules:
        tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in _tests_of(rule))
        cells = [rule.text, f"`{rule.id}`"]
        if has_checks:
            cells.append(", ".join(rule.checks) or "–")
        lines.append(f"| {' | '.join([*cells, tests])} |")
    return [*lines, ""]


def _tests_of(rule: Rule) -> list[str]:
    return find_marked_tests().get(rule.id, [])
