"""Findings of redaction as a table, or as a JSON report; neither holds a value."""

from pathlib import Path
from typing import Any, NamedTuple

from open_token.cli.shared.console import (
    Console,
    count_columns,
    encode_pretty_json,
    escape_controls,
    pluralize,
    print_table,
    truncate_to_columns,
)
from open_token.redaction.findings import Finding, Place, abbreviate, to_json
from open_token.storage.files import atomic_file


class FindingsReport(NamedTuple):
    """The findings of one source, with the user's decisions where a review took place."""

    source: str
    level: str
    findings: list[Finding]
    decisions: list[str] | None = None

    @property
    def total(self) -> int:
        """The number of places."""
        return sum(finding.count for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        findings = to_json(self.findings)
        for item, decision in zip(findings, self.decisions or (), strict=False):
            item["decision"] = decision
        return {
            "schema": "open-token/redaction-report/1",
            "source": self.source,
            "level": self.level,
            "count": self.total,
            "findings": findings,
        }


def write_findings_report(reports: list[FindingsReport], target: str, console: Console) -> None:
    """Write the JSON report to a file, or to stdout for `-`."""
    encoded = [report.to_json() for report in reports]
    document = encoded[0]
    if len(encoded) > 1:
        total = sum(report.total for report in reports)
        document = {
            "schema": "open-token/redaction-reports/1",
            "count": total,
            "reports": encoded,
        }
    if target == "-":
        console.print_json(document)
        return
    with atomic_file(Path(target)) as out:
        out.write(encode_pretty_json(document))
    console.info(f"report  {escape_controls(target)}  (contains no values)")


def print_findings(reports: list[FindingsReport], console: Console, *, has_table: bool) -> int:
    """Print a row per value and the totals; return the exit code of --check."""
    values = sum(len(report.findings) for report in reports)
    places = sum(report.total for report in reports)
    level = reports[0].level
    is_many = len(reports) > 1
    scope = f" in {len(reports):,} files" if is_many else ""
    if not values:
        console.info(f"clean   nothing to mask{scope} at level {level}")
        return 0
    if has_table:
        rows: list[tuple[str, ...]] = []
        for report in reports:
            rows += _build_rows(report, is_named=is_many)
        print_table(("TYPE", "RULE", "TIMES", "FIRST PLACE"), rows, console)
    counts = f"{pluralize(values, 'value')} in {pluralize(places, 'place')}"
    console.info(f"{counts}{scope} would be masked at level {level}")
    return 1


def _build_rows(report: FindingsReport, *, is_named: bool) -> list[tuple[str, ...]]:
    prefix = f"{escape_controls(report.source)}: " if is_named else ""
    rows: list[tuple[str, ...]] = []
    for finding in report.findings:
        first = f"{prefix}{escape_controls(abbreviate(finding.places[0].where))}"
        rows.append((finding.type, finding.rule, str(finding.count), first))
    return rows


def fit_context(place: Place, columns: int) -> tuple[str, str]:
    """Cut the text before and after a value to a number of columns.

    Columns that one side does not need go to the other."""
    before = escape_controls(place.before)
    after = escape_controls(place.after)
    columns_before = max(columns // 2, columns - count_columns(after))
    columns_after = max(columns // 2, columns - count_columns(before))
    # Of the text before, the end is kept: it is cut in reverse.
    reversed_before = truncate_to_columns(before[::-1], columns_before)
    return reversed_before[::-1], truncate_to_columns(after, columns_after)
