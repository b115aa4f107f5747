"""Builds what is published: the wheel, the source distribution and the bill of materials.

Everything is built twice and compared, checked by the tools of the index, installed into an empty
virtual environment with the hashes of every dependency, and tried out there. `make dist` installs
the tools and runs this.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent
DIST = ROOT / "dist"
EXAMPLE = ROOT / "examples" / "claude_code.jsonl"
MOST_MEGABYTES = 120
"""A plain install stays below this, Python itself not counted."""
FIRST_ZIP_TIME = 315532800
"""1980-01-01: archives of wheels have no earlier time."""


def main() -> int:
    """Build, check, install and try; return the exit code."""
    epoch = _find_epoch()
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="open-token-dist-") as folder:
        scratch = Path(folder)
        _build(DIST, epoch)
        _build(scratch / "again", epoch)
        _compare(DIST, scratch / "again")
        wheel, archive = _find_built()
        _run([TOOLS / "twine", "check", "--strict", wheel, archive])
        _check_contents(wheel, archive)
        python = _install(wheel, scratch / "empty")
        _write_bill_of_materials(python, epoch)
        _write_formula(wheel, archive)
        _try(python, scratch)
        megabytes = _measure(scratch / "empty")
        _require(megabytes < MOST_MEGABYTES, f"a plain install takes {megabytes:.0f} MB")
    print(f"a plain install takes {megabytes:.0f} MB (limit {MOST_MEGABYTES})")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size:>9}  {path.relative_to(ROOT)}")
    return 0


def _find_epoch() -> int:
    """Return the time of the last commit, which goes into the archives in place of the clock."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return max(int(given), FIRST_ZIP_TIME)
    command = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    committed = subprocess.run(command, capture_output=True, text=True)
    return int(committed.stdout) if committed.returncode == 0 else FIRST_ZIP_TIME


def _build(target: Path, epoch: int) -> None:
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(epoch),
        # The build backend is installed with the pinned version, too.
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
    }
    # First the source distribution, then the wheel from it: this shows that it is complete.
    _run([TOOLS / "python", "-m", "build", "--outdir", target, ROOT], environment)


def _compare(first: Path, second: Path) -> None:
    for path in sorted(first.iterdir()):
        same = path.read_bytes() == (second / path.name).read_bytes()
        _require(same, f"two builds of {path.name} differ")


def _find_built() -> tuple[Path, Path]:
    wheels = sorted(DIST.glob("*.whl"))
    archives = sorted(DIST.glob("*.tar.gz"))
    _require(len(wheels) == 1 and len(archives) == 1, "expected one wheel and one archive")
    return wheels[0], archives[0]


def _check_contents(wheel: Path, archive: Path) -> None:
    """Every file of the package is in both archives, and nothing that was not committed."""
    command = ["git", "-C", ROOT, "ls-files", "-z", "src/open_token"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    committed = {name.removeprefix("src/") for name in listed.split("\0") if name}
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if name.startswith("open_token/")}
    _require(packed == committed, f"the wheel differs in {sorted(packed ^ committed)[:5]}")
    with tarfile.open(archive) as opened_archive:
        names = {name.partition("/")[2] for name in opened_archive.getnames()}
    missing = {f"src/{name}" for name in committed} - names
    _require(not missing, f"the source distribution lacks {sorted(missing)[:5]}")
    for name in ("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "hashes.txt"):
        _require(name in names, f"the source distribution lacks {name}")


def _install(wheel: Path, folder: Path) -> Path:
    """Install the wheel alone, as the published list of hashes says; pip refuses any other file."""
    _write_requirements(wheel)
    _run([sys.executable, "-I", "-m", "venv", folder])
    python = folder / "bin" / "python"
    options: list[str | Path] = ["--no-input", "--disable-pip-version-check", "-qq"]
    options += ["--find-links", DIST, "-r", DIST / "requirements.txt"]
    _run([python, "-I", "-m", "pip", "install", *options])
    return python


def _write_requirements(wheel: Path) -> None:
    """Write what `pip install -r` takes to install this release and nothing else."""
    known = _read_hashes()
    command: list[str | Path] = [TOOLS / "uv", "pip", "compile", ROOT / "pyproject.toml"]
    command += ["--universal", "--python-version", "3.11", "-c", ROOT / "constraints.txt"]
    command += ["--no-header", "--no-annotate", "--quiet"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hashes = [_hash(path) for path in _find_built()]
    name, version = wheel.name.split("-")[:2]
    entries = [(f"{name.replace('_', '-')}=={version}", [f"--hash=sha256:{one}" for one in hashes])]
    # Markers depend on the extras, the hashes of a version do not.
    entries += [(line, known[line.partition(" ;")[0]]) for line in listed.splitlines()]
    text = "".join(" \\\n    ".join([line, *found]) + "\n" for line, found in entries)
    (DIST / "requirements.txt").write_text(text, encoding="utf-8")


def _read_hashes() -> dict[str, list[str]]:
    """Return the hashes of each pinned package, by name and version."""
    known: dict[str, list[str]] = {}
    for line in (ROOT / "hashes.txt").read_text(encoding="utf-8").splitlines():
        text = line.removesuffix("\\").strip()
        if line.startswith(" "):
            known[next(reversed(known))].append(text)
        else:
            known[text.partition(" ;")[0]] = []
    return known


def _write_bill_of_materials(python: Path, epoch: int) -> None:
    """Write a CycloneDX bill of the plain install, the same for the same commit."""
    wheel, _ = _find_built()
    name, version = wheel.name.split("-")[:2]
    target = DIST / f"{name}-{version}.cdx.json"
    command: list[str | Path] = [TOOLS / "cyclonedx-py", "environment", python]
    command += ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible"]
    command += ["--spec-version", "1.6", "--output-format", "JSON", "-o", target]
    _run(command, {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
    bill = json.loads(target.read_bytes())
    names = {component["name"].lower() for component in bill["components"]}
    for needed in ("orjson", "msgspec", "google-re2", "python-stdnum"):
        _require(needed in names, f"the bill of materials lacks {needed}")
    # The environment has pip, which is no part of the package, and paths of this machine.
    for component in bill["components"]:
        component.pop("externalReferences", None)
    bill["components"] = [one for one in bill["components"] if one["name"] != "pip"]
    bill["metadata"]["component"]["version"] = version
    text = json.dumps(bill, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    _require(str(ROOT) not in text, "the bill of materials names a path of this machine")
    target.write_text(text, encoding="utf-8")


def _write_formula(wheel: Path, archive: Path) -> None:
    """Write the Homebrew formula of this release."""
    text = (ROOT / "scripts" / "open-token.rb.in").read_text(encoding="utf-8")
    values = {
        "@VERSION@": wheel.name.split("-")[1],
        "@SOURCE_SHA256@": _hash(archive),
        "@REQUIREMENTS_SHA256@": _hash(DIST / "requirements.txt"),
    }
    for name, value in values.items():
        text = text.replace(name, value)
    (DIST / "open-token.rb").write_text(text, encoding="utf-8")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _try(python: Path, scratch: Path) -> None:
    """Use the installed command as a new user would, in an empty home."""
    home = scratch / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = python.parent / "open-token"
    document = scratch / "session.json"
    _run([command, "--version"], environment)
    _run([command, "export", EXAMPLE, "redact=pii", "-o", document], environment)
    _run([command, "validate", document], environment)
    _run([command, "verify", document], environment)
    _run([command, "export", document, "--to", "html", "-o", scratch / "page.html"], environment)
    for verb in ("formats", "schema"):
        _run([command, verb, "--json"], environment, is_quiet=True)
    _run([python, "-I", "-c", "import open_token; open_token.export"], environment)


def _measure(folder: Path) -> float:
    """Return the megabytes of the installed packages, without pip and byte code."""
    (packages,) = folder.glob("lib/python*/site-packages")
    total = 0
    for path in packages.rglob("*"):
        top = path.relative_to(packages).parts[0]
        if path.is_file() and "__pycache__" not in path.parts and not top.startswith("pip"):
            total += path.stat().st_size
    return total / 1e6


def _run(
    command: list[str | Path], environment: dict[str, str] | None = None, *, is_quiet: bool = False
) -> None:
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if ended.returncode:
        sys.stderr.write(ended.stdout + ended.stderr)
        words = " ".join(str(word) for word in command[:4])
        sys.exit(f"error: {words} ended with {ended.returncode}")
    if not is_quiet:
        print(f"ok    {Path(command[0]).name} {' '.join(str(word) for word in command[1:4])}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(f"error: {message}")


if __name__ == "__main__":
    sys.exit(main())
