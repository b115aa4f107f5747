#!/usr/bin/env python3
"""Checks that a tag can be released: it is the version of the package, and the changelog has it.

`scripts/check_release.py v1.2.3`. Other files that name the version must name this one.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = (
    "packages/js/package.json",
    "server.json",
    "src/open_token/plugin/.claude-plugin/plugin.json",
    "src/open_token/plugin/plugin.json",
)


def main(words: list[str]) -> int:
    """Check the tag; return the exit code."""
    if len(words) != 1:
        print("usage: scripts/check_release.py TAG", file=sys.stderr)
        return 2
    problems = find_problems(words[0], ROOT)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def read_version(root: Path) -> str:
    """Return the version of the package, which stands in one place."""
    source = (root / "src" / "open_token" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if found is None:
        raise SystemExit("error: src/open_token/__init__.py has no version")
    return found[1]


def find_problems(tag: str, root: Path) -> list[str]:
    """Return what keeps this tag from being released."""
    version = read_version(root)
    problems = []
    if tag != f"v{version}":
        problems.append(f"the tag is {tag}, the version of the package {version}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, changelog, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`")
    for name, found in list_copies(root):
        if found != version:
            problems.append(f"{name} has the version {found}, the package {version}")
    return problems


def list_copies(root: Path) -> list[tuple[str, str]]:
    """Return the versions in manifests, which their registries require to be literal."""
    copies = []
    for name in MANIFESTS:
        manifest = json.loads((root / name).read_bytes())
        copies.append((name, manifest["version"]))
        copies += [(name, package["version"]) for package in manifest.get("packages", ())]
    return copies


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
