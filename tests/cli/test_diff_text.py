"""Two runs side by side: what is shown, folded, escaped, cut."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.random_runs import Batch, build_document, build_message, call, calls
from open_token.cli import main
from open_token.cli.shared.console import Console

FAR = [calls(call("Bash", command=f"step {n}")) for n in range(20)]


def run_diff(tmp_path: Path, capsys: Any, one: list[Batch], other: list[Batch], *words: str) -> str:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for shift, (path, batches) in enumerate(zip(paths, (one, other), strict=True)):
        path.write_text(json.dumps(build_document(batches, shift=shift)))
    main(["diff", *map(str, paths), *words])
    return str(capsys.readouterr().out)


def changed(*places: int) -> list[Batch]:
    return [
        calls(call("Bash", command=f"other {n}")) if n in places else batch
        for n, batch in enumerate(FAR)
    ]


def test_divergence_is_shown_with_its_context(tmp_path: Path, capsys: Any) -> None:
    out = run_diff(tmp_path, capsys, FAR, changed(9, 15), "--context", "1").splitlines()
    assert out[1:] == [
        "    A     B",
        "        ...    8 more",
        "    9     9  = Bash     step 8  1 line",
        "   10    10  ~ Bash     step 9  1 line",
        "               /arguments/command  [-step-]{+other+} 9",
        "   11    11  = Bash     step 10  1 line",
        "        ...    9 more",
        "hidden  args_changed 1; show them with --all",
        "total   steps 20 -> 20   failed 0 -> 0   time 0:39 -> 0:39",
    ]


def test_all_shows_each(tmp_path: Path, capsys: Any) -> None:
    out = run_diff(tmp_path, capsys, FAR, changed(9, 15), "--all", "--context", "0")
    assert out.count("{+other+}") == 2
    assert "folded" not in out


def test_calls_in_another_order_are_reported(tmp_path: Path, capsys: Any) -> None:
    x, y = call("Bash", command="x"), call("Read", file_path="y")
    out = run_diff(tmp_path, capsys, [calls(x, y), FAR[0]], [calls(y, x), FAR[1]], "--all")
    assert "in a different order" in out


def test_nothing_reaches_the_terminal_that_it_would_obey(tmp_path: Path, capsys: Any) -> None:
    evil = "\x1b]0;title\x07 \u202e \x9b31m\r\n\tb"
    one = [build_message("user", "x"), calls(call(evil, evil, **{evil: evil}))]
    other = [
        build_message("user", evil),
        calls(call(f"{evil}2", failed=True, **{evil: "y"})),
        build_message("assistant", evil),
    ]
    out = run_diff(tmp_path, capsys, one, other, "--all")
    assert not {char for char in out if ord(char) < 32 and char != "\n"} | (
        {"\u202e", "\x9b"} & {*out}
    )
    assert "\\x1b]0;title" in out


def test_a_pipe_is_uncut_and_a_screen_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    long = "word " * 100
    one, other = [calls(call("Bash", command=long))], [calls(call("Bash", command=f"{long}end"))]
    assert max(map(len, run_diff(tmp_path, capsys, one, other).splitlines())) > 400
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(Console, "width", lambda _: 60)
    lines = run_diff(tmp_path, capsys, one, other).splitlines()[1:]
    assert max(map(len, (line for line in lines if not line.startswith("total")))) <= 60


def test_colours_are_a_second_signal(tmp_path: Path, capsys: Any) -> None:
    plain = run_diff(tmp_path, capsys, FAR, FAR[:5])
    painted = run_diff(tmp_path, capsys, FAR, FAR[:5], "--color", "always")
    assert "\x1b[31m-\x1b[0m" in painted
    assert painted.replace("\x1b[31m", "").replace("\x1b[0m", "").replace("\x1b[2m", "") == plain


def test_figures(tmp_path: Path, capsys: Any) -> None:
    one = [calls(call("Edit", failed=True, file_path=f"{n}.py", new_string="x")) for n in range(12)]
    other = [calls(call("Write", file_path=f"{n}.md", content="x")) for n in range(12)]
    out = run_diff(tmp_path, capsys, one, [*other, build_message("user", "more")])
    assert "total   steps 12 -> 13 (+8 %)   failed 12 -> 0" in out
    assert "files   only B: 0.md, 1.md, 2.md, 3.md, 4.md, 5.md, 6.md, 7.md and 4 more" in out
