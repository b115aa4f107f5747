"""Runs every ```console block of README.md and docs/, and compares what the commands print.

- `$ open-token ...` (or `$ ./open-token ...`) starts a command; `< FILE` and `> FILE` at its end
are understood.
- Lines of standard error are marked `! `; a status other than 0 stands in a last line `[exit N]`.
- A line `...` (or `! ...`) stands for any number of lines, so that long output can be shortened; a
status is no line.
- The blocks of a page run in order, in one fresh copy of examples/; `./open-token` starts one
folder above it,
  as in a checkout. The clock stands still and the key behind redaction marks is known.

`make accept` rewrites the blocks that have no `...` line."""

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from open_token.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()
]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
PROGRAMS = {"open-token": Path("examples"), "./open-token": Path()}
NOON = "1767268800"


@dataclass
class Shell:
    """Runs the commands of a page in-process, in a folder that only holds the examples."""

    root: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def run(self, command: str) -> str:
        """What a person sees who types this command."""
        program, *words = shlex.split(command)
        assert program in PROGRAMS, f"only open-token can be run from the documentation: {command}"
        self.patch.chdir(self.root / PROGRAMS[program])
        target, given = (_redirected(words, sign) for sign in "><")
        with open(given or "/dev/null", encoding="utf-8") as stream:
            self.patch.setattr(sys, "stdin", stream)
            status = _status(words)
        out, err = (self.anywhere(text) for text in self.capture.readouterr())
        if target:
            Path(target).write_text(out, encoding="utf-8")
            out = ""
        if out and not out.endswith("\n"):
            out += "\n"
        errors = "".join(f"! {line}".rstrip() + "\n" for line in err.splitlines())
        return f"$ {command}\n{out}{errors}" + (f"[exit {status}]\n" if status else "")

    def anywhere(self, text: str) -> str:
        """The text with the folders of this run under the names they might have with a reader of
        the page."""
        return text.replace(str(self.root), "/home/you/open-token").replace(
            os.environ["HOME"], "/home/you"
        )


def _redirected(words: list[str], sign: str) -> str | None:
    if sign not in words[-2:-1]:
        return None
    name = words.pop()
    words.pop()
    return name


def _status(words: list[str]) -> int:
    try:
        return int(main(words))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def commands(block: str) -> list[str]:
    """The commands of a block, each with the output shown below it."""
    parts = re.split(r"^(?=\$ )", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block starts with a command: {parts[0]!r}"
    return parts[1:]


def matches(shown: str, actual: str) -> bool:
    """Whether the output is the one shown, where a line `...` stands for any lines."""
    pattern = "".join(
        r"(?:(?!\[exit ).*\n)*" if line.strip() in ("...", "! ...") else re.escape(line + "\n")
        for line in shown.rstrip().splitlines()
    )
    return re.fullmatch(pattern, actual.rstrip() + "\n") is not None


def is_shortened(block: str) -> bool:
    return any(line.strip() in ("...", "! ...") for line in block.splitlines())


@pytest.fixture
def shell(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    known_key: bytes,
) -> Shell:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", NOON)
    monkeypatch.setenv("COLUMNS", "100")
    # As for a user who installed it.
    monkeypatch.setenv("PATH", str(ROOT), prepend=os.pathsep)
    return Shell(tmp_path, capfd, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, shell: Shell, accepting: bool) -> None:
    text = page.read_text(encoding="utf-8")
    wrong: list[str] = []

    def rerun(found: re.Match[str]) -> str:
        shown = commands(found[0])
        actual = [shell.run(part.splitlines()[0][2:]) for part in shown]
        differing = [
            (old, new) for old, new in zip(shown, actual, strict=True) if not matches(old, new)
        ]
        if accepting and not is_shortened(found[0]):
            return "".join(actual)
        wrong.extend(f"shown:\n{old.rstrip()}\nprinted:\n{new}" for old, new in differing)
        return found[0]

    new_text = BLOCK.sub(rerun, text)
    if new_text != text:
        page.write_text(new_text, encoding="utf-8")
    if wrong:
        pytest.fail(
            "\n".join([f"{page.relative_to(ROOT)} shows something else:", *wrong]), pytrace=False
        )


def test_shortened_output() -> None:
    assert matches("$ a\none\n...\nlast\n", "$ a\none\ntwo\nthree\nlast\n")
    assert matches("$ a\n...\n", "$ a\n")
    assert not matches("$ a\none\n...\nlast\n", "$ a\none\ntwo\n")
    assert not matches("$ a\none\n", "$ a\none\ntwo\n")


def test_shortened_output_hides_no_failure() -> None:
    assert not matches("$ a\n...\n", "$ a\n! error: x\n[exit 3]\n")
    assert matches("$ a\n! ...\n[exit 3]\n", "$ a\n! error: x\n[exit 3]\n")
