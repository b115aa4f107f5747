"""Findings as a table or a report, without values."""

import json
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from open_token.cli.shared.console import Console
from open_token.cli.shared.findings import FindingsReport, print_findings, write_findings_report
from open_token.redaction.findings import Finding, Place

VALUE = "the value itself"


def found(source: str = "a.txt", *types: str, decisions: list[str] | None = None) -> FindingsReport:
    findings = [
        Finding(kind, f"{kind}-rule", "secrets", VALUE, 2, [Place("line 7\x1b", "b", "a")])
        for kind in types
    ]
    return FindingsReport(source, "secrets", findings, decisions)


def test_rows_have_tabs_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_findings([found("a.txt", "email")], Console(), has_table=True) == 1
    out, err = capsys.readouterr()
    assert out == "email\temail-rule\t2\tline 7\\x1b\n"
    assert err == "1 value in 2 places would be masked at level secrets\n"


def test_rows_are_aligned_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, stdout=True) as terminal:
        print_findings([found("a.txt", "email", "github_token")], Console(), has_table=True)
    head, first, second, *_ = terminal.seen.split("\r\n")
    assert head.index("FIRST PLACE") == first.index("line 7") == second.index("line 7")
    assert "\x1b" not in first


def test_rows_of_several_sources_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [found("a.txt"), found("b.txt", "email"), found("c.txt", "email", "iban")]
    assert print_findings(sources, Console(), has_table=True) == 1
    out, err = capsys.readouterr()
    assert [line.split("\t")[3] for line in out.splitlines()] == [
        f"{name}.txt: line 7\\x1b" for name in "bcc"
    ]
    assert err == "3 values in 6 places in 3 files would be masked at level secrets\n"


def test_nothing_found_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_findings([found()], Console(), has_table=True) == 0
    assert print_findings([found(), found()], Console(), has_table=True) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "clean   nothing to mask at level secrets\n"
        "clean   nothing to mask in 2 files at level secrets\n"
    )


def test_a_report_is_an_object_or_a_list_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    write_findings_report([found("a.txt", "email", decisions=["keep"])], "-", Console())
    write_findings_report([found("a.txt", "email"), found("b.txt")], "-", Console())
    out = capsys.readouterr().out
    assert VALUE not in out
    one, end = json.JSONDecoder().raw_decode(out)
    both = json.loads(out[end:])
    assert (one["source"], one["count"], one["findings"][0]["decision"]) == ("a.txt", 2, "keep")
    assert (both["count"], [report["source"] for report in both["reports"]]) == (
        2,
        ["a.txt", "b.txt"],
    )


def test_a_report_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.json"
    write_findings_report([found("a.txt", "email")], str(target), Console())
    assert json.loads(target.read_text())["count"] == 2
    assert capsys.readouterr() == ("", f"report  {target}  (contains no values)\n")
