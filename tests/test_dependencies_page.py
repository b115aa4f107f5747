"""The licences of everything that an installation brings are known, allowed, and on one page."""

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "dependencies.md"
HEAD = "| package | licence | installed by |\n|---|---|---|\n"

# What a distributed Apache-2.0 program may require, by SPDX identifier.
PERMISSIVE = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Clear", "ISC", "MIT", "MIT-0", "MPL-2.0",
    "PSF-2.0", "Python-2.0", "Unlicense", "0BSD", "CNRI-Python",
}  # fmt: skip
# Used as a library that the user installs and can replace; the page says how.
LIBRARIES = {"python-stdnum": "LGPL-2.1-or-later"}
# What older metadata says, in the words of its classifiers and free text.
SPELLINGS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "gnu lesser general public license v2 or later (lgplv2+)": "LGPL-2.1-or-later",
    "isc license (iscl)": "ISC",
    "lgpl": "LGPL-2.1-or-later",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "new bsd license": "BSD-3-Clause",
    "psf": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "python software foundation license": "PSF-2.0",
}


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def find_licence(package: Distribution) -> str:
    """Return the licence as an SPDX expression, from whatever field of the metadata has it."""
    expression = package.metadata.get("License-Expression")
    if expression:
        return str(expression)
    named = [
        value.rpartition(" :: ")[2]
        for value in package.metadata.get_all("Classifier") or ()
        if value.startswith("License ::") and not value.endswith("OSI Approved")
    ]
    free = str(package.metadata.get("License") or "").strip().splitlines()
    words = named or free[:1]
    return " AND ".join(SPELLINGS.get(word.strip().lower(), word.strip()) for word in words)


def collect(requirements: list[str]) -> dict[str, Distribution]:
    """Return every installed package that these requirements bring on this machine."""
    from packaging.requirements import Requirement

    found: dict[str, Distribution] = {}
    ahead = [(Requirement(line), "") for line in requirements]
    while ahead:
        wanted, extra = ahead.pop()
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = normalize(wanted.name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        key = f"{name}[{','.join(sorted(wanted.extras))}]"
        if key in found:
            continue
        found[key] = package
        for line in package.requires or ():
            for part in ("", *wanted.extras):
                ahead.append((Requirement(line), part))
    return {key.partition("[")[0]: package for key, package in sorted(found.items())}


def list_rows() -> list[tuple[str, str, str]]:
    """Return name, licence and origin of every package of an installation with all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = collect(project["dependencies"])
    extras = project["optional-dependencies"]
    added = collect([line for lines in extras.values() for line in lines])
    added.pop(project["name"], None)  # an extra may consist of others
    rows = []
    for name, package in sorted({**added, **plain}.items()):
        origin = "plain install" if name in plain else "extras"
        rows.append((name, find_licence(package), origin))
    return rows


def test_every_licence_is_compatible() -> None:
    rows = list_rows()
    assert len(rows) > 20, "nothing was looked at"
    wrong = []
    for name, licence, _ in rows:
        parts = {part.strip(" ()") for part in re.split(r" AND | OR | WITH ", licence)}
        if not parts <= PERMISSIVE and LIBRARIES.get(name) != licence:
            wrong.append(f"{name}: {licence or 'none named'}")
    assert wrong == []


def test_the_page_lists_them(accepting: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = HEAD + "".join(f"| {' | '.join(row)} |\n" for row in list_rows())
    start = text.index(HEAD)
    shown = text[start:].partition("\n\n")[0].rstrip("\n") + "\n"
    if accepting:
        PAGE.write_text(text.replace(shown, table), encoding="utf-8")
    else:
        # Another platform or Python version may need fewer packages than the page shows.
        missing = set(table.splitlines()) - set(shown.splitlines())
        assert missing == set(), "run `make accept`"


def test_hashes_and_pins_agree() -> None:
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line
    )
    pinned = {normalize(name): version for name, version in pins.items()}
    text = (ROOT / "hashes.txt").read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    hashed = {}
    for entry in entries:
        name, version = re.match(r"(\S+)==(\S+)", entry).groups()  # type: ignore[union-attr]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{name} has no hash"
        hashed[normalize(name)] = version
    assert {name: pinned.get(name) for name in hashed} == hashed, "run `make hashes`"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for lines in project["optional-dependencies"].values():
        wanted += lines
    names = {normalize(re.split(r"[ <>=!;\[]", line)[0]) for line in wanted}
    assert names - hashed.keys() - {project["name"]} == set(), "run `make hashes`"
