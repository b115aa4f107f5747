"""What the repository as a whole promises: declared dependencies, one version, nothing leaked."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import open_token

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"
MODULES = sorted(SOURCE.rglob("*.py"))
DISTRIBUTIONS = {
    "backports.zstd": "backports",
    "genai-prices": "genai_prices",
    "google-re2": "re2",
    "pyjwt": "jwt",
    "python-stdnum": "stdnum",
    "pyyaml": "yaml",
}
# Brought by the extras of the server; nothing else may need them.
SERVER_ONLY = {
    "asyncpg", "cronsim", "engineio", "fastapi", "httpx2", "mcp", "pydantic", "pydantic_ai", "redis", "socketio",
    "uvloop",
}  # fmt: skip


def test_only_declared_packages_are_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += extra
    declared = [re.split(r"[ <>=!;\[]", line)[0].lower() for line in lines]
    known = (
        {DISTRIBUTIONS.get(name, name) for name in declared}
        | sys.stdlib_module_names
        | {"open_token"}
    )
    strange = set()
    for path in MODULES:
        here = known | SERVER_ONLY if path.is_relative_to(SOURCE / "server") else known
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_the_version_is_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"]
    found = re.findall(
        r'^__version__ = "(.+)"$', (SOURCE / "__init__.py").read_text(), re.MULTILINE
    )
    assert found == [open_token.__version__]


def test_constraints_are_plain_pins_of_every_dependency() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = pyproject["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)] == []
    pinned = {line.partition("==")[0].lower() for line in lines}
    wanted = [*project["dependencies"]]
    for lines in (
        *project["optional-dependencies"].values(),
        *pyproject["dependency-groups"].values(),
    ):
        wanted += lines
    names = {re.split(r"[ <>=!;\[]", line)[0].lower() for line in wanted}
    assert names - {project["name"]} - pinned == set()


# Put together from pieces, so that this file does not find itself.
HOSTS = "|".join(
    [
        "py" + r"pi\.org",
        "python" + r"hosted\.org",
        "npm" + r"js\.(?:org|com)",
        "deb" + r"\.debian\.org",
    ]
)
TRACES = {
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
# One of these is in whatever such a pattern matches. A pattern that begins with an assertion is
# tried at every character; most files hold none of the words.
TRACE_WORDS = {
    "holds a path of one machine": ("/work/", "/root/", "/farm/"),
    "holds an AWS key": ("AKIA", "ASIA"),
    "holds a GitHub token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "holds an API key": ("sk-", "AIza", "glpat-", "npm_"),
    "holds a Slack token": ("xox",),
    "holds a JSON web token": ("eyJ",),
}


def list_traces(text: str) -> list[str]:
    """Return what a file must not hold and this text does."""
    found = []
    for what, pattern in TRACES.items():
        words = TRACE_WORDS.get(what, ("",))
        if any(word in text for word in words) and pattern.search(text):
            found.append(what)
    return found


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


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("/wor{}k/x", "holds a path of one machine"),
        ("AKI{}A0123456789ABCDEF", "holds an AWS key"),
        ("gh{}p_" + "a1" * 18, "holds a GitHub token"),
        ("github{}_pat_" + "a1" * 25, "holds a GitHub token"),
        ("s{}k-" + "a1" * 16, "holds an API key"),
        ("AI{}za" + "a" * 35, "holds an API key"),
        ("glpa{}t-" + "a1" * 10, "holds an API key"),
        ("np{}m_" + "a1" * 18, "holds an API key"),
        ("xo{}xb-123456-" + "a1" * 5, "holds a Slack token"),
        ("ey{}J" + "a" * 10 + ".ey{}J" + "a" * 10 + "." + "a" * 10, "holds a JSON web token"),
    ],
)
def test_what_gives_something_away_is_found(text: str, what: str) -> None:
    """The braces keep this file from holding what it looks for."""
    assert list_traces(f"it is {text.replace('{}', '')} here") == [what]


def test_no_file_gives_anything_away() -> None:
    found = []
    for path in kept_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{path.relative_to(ROOT)} {what}" for what in list_traces(text)]
    assert found == []
