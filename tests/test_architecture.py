"""The architecture, checked: who may import whom, who may touch the outside world, what is light.

`docs/architecture.md` explains the layers; the table here is what is enforced.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"

# From the top down. A package imports from its own layer or from a layer below it.
LAYERS = (
    ("cli",),
    ("server", "mcp"),
    ("api",),
    ("library", "replay"),
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
EDGES = {"cli", "api", "server"}
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
    "uuid.uuid4": {"storage", "server"},
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


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_packages(path: Path) -> Iterator[str]:
    """Yield the packages of ours that a module imports, also inside functions."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "open_token":
            yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("open_token."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("open_token."):
                    yield alias.name.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_imports_point_down(path: Path) -> None:
    package = package_of(path)
    if package in ENTRY_POINTS:
        return
    assert package in RANK, f"add {package} to the layers here and in docs/architecture.md"
    upward = {name for name in imported_packages(path) if RANK.get(name, -1) < RANK[package]}
    assert upward == set()


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    imports: dict[str, set[str]] = {}
    for path in MODULES:
        package = package_of(path)
        if package not in ENTRY_POINTS:
            imports.setdefault(package, set()).update(set(imported_packages(path)) - {package})
    finished: set[str] = set()

    def visit(package: str, chain: tuple[str, ...]) -> None:
        assert package not in chain, " -> ".join([*chain, package])
        if package not in finished:
            for name in sorted(imports.get(package, ())):
                visit(name, (*chain, package))
            finished.add(package)

    for package in sorted(imports):
        visit(package, ())


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_only_the_edges_touch_the_outside_world(path: Path) -> None:
    package = package_of(path)
    if package in ENTRY_POINTS:
        return
    found = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        else:
            continue
        allowed = {"cli"} if name == "print" else OUTSIDE_WORLD.get(name)
        if allowed is not None and package not in allowed:
            found.append(f"line {node.lineno}: {name} is for {', '.join(sorted(allowed))}")
    assert found == []


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(parse(path)), "begin the module with a docstring"


def test_folders_stay_easy_to_survey() -> None:
    at_the_root = [path.stem for path in SOURCE.glob("*.py")]
    assert len(at_the_root) <= MOST_ROOT_MODULES
    for folder in {path.parent for path in MODULES}:
        files = len(list(folder.glob("*.py")))
        assert files <= MOST_FILES_IN_A_FOLDER, folder.relative_to(SOURCE)


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
