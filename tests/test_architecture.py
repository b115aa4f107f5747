"""The architecture, checked: who may import whom, who may touch the outside world, what is light.

`docs/architecture.md` explains the layers; the table here is what is enforced.
"""

import ast
import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"

# From the top down. A package imports from its own layer or from a layer below it.
LAYERS = (
    ("cli",),
    ("server", "mcp", "web"),
    ("api", "client"),
    ("library", "replay", "dataset"),
    ("pipeline", "settings"),
    ("redaction", "passes", "integrity", "validation", "native", "writers", "comparison"),
    ("handoff", "registry", "agents", "formats"),
    ("builder", "session", "context"),
    ("sources", "storage", "options", "model", "jsontools", "errors"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ENTRY_POINTS = ("__init__", "__main__")
MOST_ROOT_MODULES = 10
MOST_FILES_IN_A_FOLDER = 40

# Only the edges read the clock, the environment, standard streams or random numbers: the rest gets
# them passed in, so that the same input and options give the same bytes.
EDGES = {"cli", "api", "server", "web"}
OUTSIDE_WORLD = {
    "os.environ": EDGES,
    "os.getenv": EDGES,
    "os.getcwd": EDGES,
    "Path.cwd": EDGES,
    "Path.home": EDGES,
    "datetime.now": EDGES,
    "datetime.utcnow": EDGES,
    "date.today": EDGES,
    "time.time": EDGES,
    "time.time_ns": EDGES,
    "os.urandom": {"storage", "server"},
    "uuid.uuid4": {"storage", "server", "client"},
    "sys.argv": {"cli"},
    "sys.exit": {"cli"},
    "sys.stdout": {"cli"},
    "sys.stderr": {"cli"},
    "sys.stdin": {"cli", "sources"},
}
# Modules that cost start-up time; importing the package must not load them.
HEAVY = {
    "argparse",
    "hyperscan",
    "jsonschema",
    "msgspec",
    "orjson",
    "phonenumbers",
    "re2",
    "stdnum",
}

MODULES = sorted(SOURCE.rglob("*.py"))


def module_id(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def package_of(path: Path) -> str:
    """Return the name below open_token that a module belongs to: agents for agents/codex/reader.py."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


class Module(NamedTuple):
    """What the tests here look at in a module."""

    docstring: str | None
    imports: set[str]
    """The packages of ours that it imports, also inside functions."""
    names: list[tuple[int, str]]
    """Line and name of every attribute such as `os.environ`, and of every function called."""


@functools.cache
def parse(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = Module(ast.get_docstring(tree), set(), [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                module.names.append((node.lineno, f"{node.value.id}.{node.attr}"))
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                module.names.append((node.lineno, node.func.id))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module.imports.update(imported_packages(node))
    return module


def imported_packages(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the packages of ours that a statement imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith("open_token."):
                yield alias.name.split(".")[1]
    elif node.module == "open_token":
        yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
    elif (node.module or "").startswith("open_token."):
        yield str(node.module).split(".")[1]


def test_imports_point_down() -> None:
    upward = []
    for path in MODULES:
        package = package_of(path)
        if package in ENTRY_POINTS:
            continue
        assert package in RANK, f"add {package} to the layers here and in docs/architecture.md"
        for name in sorted(parse(path).imports):
            if RANK.get(name, -1) < RANK[package]:
                upward.append(f"{module_id(path)} imports {name}")
    assert upward == []


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    imports: dict[str, set[str]] = {}
    for path in MODULES:
        package = package_of(path)
        if package not in ENTRY_POINTS:
            imports.setdefault(package, set()).update(parse(path).imports - {package})
    finished: set[str] = set()

    def visit(package: str, chain: tuple[str, ...]) -> None:
        assert package not in chain, " -> ".join([*chain, package])
        if package not in finished:
            for name in sorted(imports.get(package, ())):
                visit(name, (*chain, package))
            finished.add(package)

    for package in sorted(imports):
        visit(package, ())


def test_only_the_edges_touch_the_outside_world() -> None:
    found = []
    for path in MODULES:
        package = package_of(path)
        if package in ENTRY_POINTS:
            continue
        for line, name in parse(path).names:
            allowed = {"cli"} if name == "print" else OUTSIDE_WORLD.get(name)
            if allowed is not None and package not in allowed:
                reason = f"{name} is for {', '.join(sorted(allowed))}"
                found.append(f"{module_id(path)}, line {line}: {reason}")
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [module_id(path) for path in MODULES if not parse(path).docstring]
    assert silent == [], "begin each module with a docstring"


def test_folders_stay_easy_to_survey() -> None:
    at_the_root = [path.stem for path in SOURCE.glob("*.py")]
    assert len(at_the_root) <= MOST_ROOT_MODULES
    modules = [*MODULES, *(ROOT / "tests").rglob("*.py")]
    files = Counter(path.parent for path in modules)
    crowded = [folder for folder, count in files.items() if count > MOST_FILES_IN_A_FOLDER]
    assert crowded == []


@pytest.mark.parametrize("statement", ["import open_token", "import open_token.errors"])
def test_import_is_light(statement: str) -> None:
    code = (
        f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=SOURCE.parent, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert HEAVY & loaded == set()
