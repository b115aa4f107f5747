"""The rules of the house, checked: who imports whom, how large things grow, who touches the world,
what lies about."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"
TESTS = ROOT / "tests"

PAGE = ROOT / "docs" / "architecture.md"

# The page is the table: a module imports only from lines below its own; names on one line are
# strangers.
LAYERS = re.search(
    r"^```\n(cli\n(?:[a-z_ ]+\n)*errors\n)```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
assert LAYERS, (
    "docs/architecture.md shows the layers in a block of its own, from cli down to errors"
)
RANK = {name: rank for rank, line in enumerate(LAYERS[1].splitlines()) for name in line.split()}

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "manager", "handler", "misc"}

# Which rooms may do what the others may not.
PRINTING = {"cli"}
STANDARD_INPUT = {"cli", "origin"}
ON_DISK = {"origin", "containers", "files", "skills", "hooks", "server"}
LOOKS_ABOUT = ON_DISK | {"discover"}
AT_THE_EDGE = {"cli", "library", "server", "vouching"}
RANDOM = {"files", "server"}

LOOKING = {"glob", "iterdir", "listdir", "rglob", "scandir"}
CHANGING = {
    "chmod", "copyfile", "copytree", "hardlink_to", "makedirs", "mkdir", "mkdtemp", "mkstemp", "NamedTemporaryFile",
    "read_bytes", "read_text", "rename", "rmdir", "rmtree", "SpooledTemporaryFile", "symlink_to", "TemporaryDirectory",
    "TemporaryFile", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
REACHING = LOOKING | CHANGING | {"open"}
OPENERS = re.compile(
    r"(os|io|gzip|bz2|lzma|zipfile|tarfile|codecs)$|path|Path\(|file\b|folder\b", re.IGNORECASE
)
WORLD = {
    "os.environ": AT_THE_EDGE,
    "os.getenv": AT_THE_EDGE,
    "os.getcwd": AT_THE_EDGE,
    "os.path.expanduser": AT_THE_EDGE | {"settings"},
    "Path.cwd": AT_THE_EDGE,
    "Path.home": AT_THE_EDGE,
    "datetime.now": AT_THE_EDGE,
    "datetime.utcnow": AT_THE_EDGE,
    "date.today": AT_THE_EDGE,
    "time.time": AT_THE_EDGE,
    "time.time_ns": AT_THE_EDGE,
    "os.urandom": RANDOM,
    "random": RANDOM,
    "secrets": RANDOM,
    "uuid.uuid4": RANDOM,
    "sys.stdout": PRINTING,
    "sys.stderr": PRINTING,
    "sys.argv": PRINTING,
    "sys.exit": PRINTING,
    "sys.stdin": STANDARD_INPUT,
}
WORLD_ENDS = {name.rpartition(".")[2] for name in WORLD}
HEAVY = {
    "hyperscan",
    "re2",
    "phonenumbers",
    "stdnum",
    "jsonschema",
    "msgspec",
    "orjson",
    "platformdirs",
    "argparse",
}
DISTRIBUTIONS = {"google-re2": "re2", "python-stdnum": "stdnum"}
SERVER_ONLY = {
    "asyncpg", "cronsim", "engineio", "fastapi", "httpx2", "mcp", "pydantic", "pydantic_ai", "redis", "socketio",
    "starlette", "uvicorn", "uvloop",
}  # fmt: skip
"""What the extras of the server bring; nothing else may need them."""

MODULES = sorted(SOURCE.rglob("*.py"))
IN_ROOMS = [
    path for path in MODULES if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
]


def place(path: Path) -> tuple[str, ...]:
    """The module's name below open_token: (readers, codex) for readers/codex.py, (readers,) for its
    `__init__`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


@functools.lru_cache(maxsize=2)
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=2)
def nodes(tree: ast.Module) -> list[ast.AST]:
    """All that is in it, listed once for all the rules."""
    return list(ast.walk(tree))


def own_imports(found: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """The modules of ours that are imported; `from open_token import x` imports x."""
    for node in found:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = ["open_token.relative_import"]
        elif isinstance(node, ast.ImportFrom) and node.module == "open_token":
            names = [f"open_token.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (tuple(name.split(".")[1:]) for name in names if name.startswith("open_token."))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def reach(path: Path, seen: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
    """What a module imports; a private module beside it counts as a part of it."""
    for there in own_imports(nodes(tree_of(path))):
        if not there[0].startswith("_"):
            yield there
        elif there[0] not in seen and (part := SOURCE / f"{there[0]}.py").exists():
            yield from reach(part, seen | {there[0]})


def direction(path: Path, _: ast.Module) -> Iterator[str]:
    here = place(path)[0]
    if here.startswith("_"):
        return
    if here not in RANK:
        yield f"is in no layer of {PAGE.relative_to(ROOT)}"
        return
    for there in reach(path):
        if there[0] not in RANK:
            yield f"imports {'.'.join(there)}: no layer of {PAGE.relative_to(ROOT)} has it"
        elif there[0] != here and RANK[there[0]] <= RANK[here]:
            yield f"imports {'.'.join(there)}, which is not below it"


def reader_of_readers(path: Path, tree: ast.Module) -> Iterator[str]:
    here = place(path)
    if here[0] == "readers" and len(here) > 1:
        for there in own_imports(nodes(tree)):
            if there[0] == "readers" and not there[1].startswith("_"):
                yield f"is a reader and imports the reader {there[1]}"


def manners(path: Path, tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "has no docstring that says what it is for"
    if vague := VAGUE.intersection(path.stem.lower().split("_")):
        yield f"is named after nothing in particular: {vague.pop()}"
    for node in nodes(tree):
        if (
            isinstance(node, ast.ExceptHandler)
            and isinstance(node.body[0], ast.Pass)
            and catches_all(node)
        ):
            yield f"swallows every exception at line {node.lineno}"


def catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")


def effects(path: Path, tree: ast.Module) -> Iterator[str]:
    here = place(path)
    names = {here[0], "/".join(here[:2])}
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            rooms = PRINTING if getattr(node.func, "id", "") == "print" else disk_rooms(node)
        elif isinstance(node, ast.Attribute | ast.Name):
            rooms = world_rooms(node)
        else:
            continue
        if rooms is not None and not names & rooms:
            what = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            yield f"{what} at line {node.lineno}: only {', '.join(sorted(rooms))} may do that"


def world_rooms(node: ast.Attribute | ast.Name) -> set[str] | None:
    """Which rooms may name this; only what ends as one of the names does is written out, for that
    takes long."""
    last = node.attr if isinstance(node, ast.Attribute) else node.id
    return WORLD.get(ast.unparse(node)) if last in WORLD_ENDS else None


def disk_rooms(call: ast.Call) -> set[str] | None:
    """Which rooms may make this call when it reaches for the disk; what we ship ourselves may be
    read anywhere."""
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name not in REACHING or "os.devnull" in map(ast.unparse, call.args):
        return None
    if not isinstance(function, ast.Attribute):
        return ON_DISK if name == "open" else None
    owner = ast.unparse(function.value)
    if "resources.files" in owner:
        return None
    if function.attr in LOOKING:
        return LOOKS_ABOUT
    opens = function.attr == "open" and OPENERS.search(owner)
    return ON_DISK if opens or function.attr in CHANGING else None


RULES: tuple[Callable[[Path, ast.Module], Iterator[str]], ...] = (
    direction,
    reader_of_readers,
    manners,
    effects,
)


@pytest.mark.parametrize("path", IN_ROOMS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_keeps_the_rules(path: Path) -> None:
    tree = tree_of(path)
    assert [problem for rule in RULES for problem in rule(path, tree)] == []


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path not in IN_ROOMS], ids=lambda path: path.name
)
def test_front_door_keeps_the_rules(path: Path) -> None:
    """The package's own modules may look at any room, but no rule of size and manners is theirs to
    break."""
    tree = tree_of(path)
    assert [problem for rule in (manners,) for problem in rule(path, tree)] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_has_a_test_of_its_name(path: Path) -> None:
    here = place(path)
    if not here or here[-1].startswith("_"):
        pytest.skip("private: those who use it test it")
    name = f"test_{here[-1]}.py"
    places = [TESTS.joinpath(*here[:-1], name), TESTS.joinpath(*here, name), TESTS / name]
    if not any(place.exists() for place in places):
        assert list(functions(tree_of(path))) == [], f"write {places[0].relative_to(ROOT)}"
        pytest.skip("nothing to run in it")


@pytest.mark.parametrize("statement", ["import open_token", "import open_token.errors"])
def test_import_is_light(statement: str) -> None:
    code = (
        f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(
        command, cwd=SOURCE.parent, capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY.intersection(name.partition(".")[0] for name in loaded) == set()


def test_only_declared_packages_are_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    lines += project["optional-dependencies"]["sign"]
    declared = [re.split(r"[ <>=!;\[]", line)[0].lower() for line in lines]
    known = (
        {DISTRIBUTIONS.get(name, name) for name in declared}
        | sys.stdlib_module_names
        | {"open_token"}
    )
    strange = set()
    for path in MODULES:
        here = known | SERVER_ONLY if path.is_relative_to(SOURCE / "server") else known
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [str(node.module)]
                )
                strange |= {
                    f"{path.name}: {name}" for name in names if name.partition(".")[0] not in here
                }
    assert strange == set()


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.search(r'^__version__ = "(.+)"$', (SOURCE / "__init__.py").read_text(), re.MULTILINE)
    assert found
    assert found[1] == project["version"]


def test_constraints_are_plain_pins_of_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)] == []
    pinned = {line.partition("==")[0].lower() for line in lines}
    wanted = project["dependencies"] + [
        line for extra in project["optional-dependencies"].values() for line in extra
    ]
    assert {re.split(r"[ <>=!;\[]", line)[0].lower() for line in wanted} - pinned == set()


# Put together from pieces, so that this file does not find itself.
HOSTS = "|".join(
    [
        "py" + r"pi\.org",
        "python" + r"hosted\.org",
        "npm" + r"js\.(?:org|com)",
        "deb" + r"\.debian\.org",
    ]
)
TELLTALES = {
    "names the host of a package registry": re.compile(HOSTS),
    "holds a path of one machine": re.compile(r"(?<![\w.~-])/(?:work|root|farm)/\w"),
    "holds an AWS key": re.compile(r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b"),
    "holds a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50})"),
    "holds an API key": re.compile(
        r"\b(?:sk-[A-Za-z0-9_-]{32,}|AIza[\w-]{35}|glpat-[\w-]{20}|npm_[A-Za-z0-9]{36})"
    ),
    "holds a Slack token": re.compile(r"\bxox[abeoprs]-[0-9]{6,}-[\w-]{10,}"),
    "holds a JSON web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "holds a private key": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\s|\\n)*[A-Za-z0-9+/]{40}"
    ),
}


def kept_files() -> list[Path]:
    """Every file that git has or would take."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_gives_anything_away() -> None:
    found = []
    for path in kept_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [
            f"{path.relative_to(ROOT)} {what}"
            for what, pattern in TELLTALES.items()
            if pattern.search(text)
        ]
    assert found == []
